package balancer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

const cases = 3_000

// scene is a random Balancer in the middle of its life: random sizes, pods in any state, a status
// of an earlier pass, and targets that cannot be read or written.
func scene(seed uint64) *fakeCluster {
	r := rand.New(rand.NewPCG(seed, 7))
	spec := randomSpec(r, 6)
	if r.IntN(3) == 0 {
		spec.Policy.MaxMovesPerMinute = new(1 + r.Int32N(5))
	}
	var sizes []int32
	for range spec.Targets {
		sizes = append(sizes, r.Int32N(16))
	}
	w := newFakeCluster(spec, sizes...)
	if r.IntN(2) == 0 {
		if _, err := w.pass(); err != nil {
			return w // Decide fails again, and the test with it
		}
		w.run()
		w.in.Now = w.in.Now.Add(time.Duration(r.IntN(1200)) * time.Second)
		w.in.Spec.Replicas = new(r.Int32N(41))
	}
	for i := range w.pods {
		for j := range w.pods[i] {
			if r.IntN(4) == 0 {
				w.pods[i][j] = randomPod(r, w.in.Now)
			}
		}
	}
	w.observe()
	w.in.Conflicts = map[string]string{}
	for i, t := range spec.Targets {
		switch r.IntN(12) {
		case 0:
			w.in.Targets[i] = TargetObservation{Name: t.Name, Err: errors.New("no answer")}
		case 1:
			w.in.Conflicts[t.Name] = "shared"
		}
	}
	return w
}

func randomPod(r *rand.Rand, now time.Time) podhealth.Pod {
	p := podhealth.Pod{
		Created:     now.Add(-time.Duration(r.IntN(1200)) * time.Second),
		Phase:       []v1.PodPhase{v1.PodPending, v1.PodPending, v1.PodRunning, v1.PodFailed}[r.IntN(4)],
		Terminating: r.IntN(6) == 0,
	}
	if p.Phase == v1.PodRunning {
		p.WasReady = r.IntN(3) > 0
		p.Ready = p.WasReady && r.IntN(2) == 0
		if p.CrashLooping = r.IntN(3) == 0; p.CrashLooping {
			p.CrashLoopingSince = p.Created
		}
	}
	return p
}

// forAll runs a property on many scenes.
func forAll(t *testing.T, property func(w *fakeCluster, d Decision) error) {
	t.Helper()
	t.Parallel()
	for seed := range uint64(cases) {
		w := scene(seed)
		d, err := Decide(w.in)
		if err == nil {
			err = property(w, d)
		}
		if err != nil {
			t.Fatalf("seed %d: %v\n%s\nfound %+v\ndecided %+v", seed, err, describe(w), w.in.Targets, d)
		}
	}
}

// What can run, and what can run nowhere, are the replicas asked for and the excess of the
// minimums; a probe is no part.
func TestSumIsExact(t *testing.T) {
	forAll(t, func(w *fakeCluster, d Decision) error {
		p, total, err := w.shared()
		if err != nil {
			return err
		}
		sum := p.unplaced - p.excess
		for _, s := range d.Status.Targets {
			sum += int64(s.Desired - s.Pending)
		}
		if sum != int64(total) {
			return fmt.Errorf("%d of %d", sum, total)
		}
		return nil
	})
}

// shared is a decision up to the shares of the targets, with the number that is shared.
func (w *fakeCluster) shared() (*pass, int32, error) {
	p, err := newPass(w.in)
	if err != nil {
		return nil, 0, err
	}
	return p, p.asked, p.share()
}

// When everything runs and nothing is held, the sizes written are the replicas asked for, as far as
// bounds allow.
func TestWrittenReplicasAreTheTotal(t *testing.T) {
	t.Parallel()
	for seed := range uint64(cases) {
		r := rand.New(rand.NewPCG(seed, 8))
		spec := randomSpec(r, 6)
		var sizes []int32
		for range spec.Targets {
			sizes = append(sizes, r.Int32N(16))
		}
		w := newFakeCluster(spec, sizes...)
		must(t, w.converge())
		var low, high, sum int64
		for i, target := range spec.Targets {
			low += int64(ptr.Deref(target.MinReplicas, 0))
			sum += int64(w.sizes[i])
			room := int64(ptr.Deref(target.MaxReplicas, 1<<30))
			if !shares(spec, target.Name) && (spec.Policy.Rebalance == nil || w.sizes[i] <= sizes[i]) {
				room = max(int64(w.sizes[i]), int64(ptr.Deref(target.MinReplicas, 0)))
			}
			high += room
		}
		if want := min(max(int64(*spec.Replicas), low), high); sum != want {
			t.Fatalf("seed %d: %v sum to %d, want %d: %s from %v", seed, w.sizes, sum, want, describe(w), sizes)
		}
	}
}

// shares reports whether a target gets more than its minimum.
func shares(s v1alpha1.BalancerSpec, name string) bool {
	if s.Policy.Priorities != nil {
		return slices.Contains(s.Policy.Priorities.TargetOrder, name)
	}
	return s.Policy.Proportions.TargetProportions[name] > 0
}

// No target is written below its minimum or above its maximum, but on the way there; none is
// written that is pinned.
func TestBoundsHold(t *testing.T) {
	forAll(t, func(w *fakeCluster, d Decision) error {
		for i, target := range w.in.Spec.Targets {
			s := d.Status.Targets[i]
			written := slices.ContainsFunc(d.Writes, func(w Write) bool { return w.Target == target.Name })
			if w.pinned(i) {
				if written || s.Desired != s.Current || s.Pending != 0 && s.Capacity == nil {
					return fmt.Errorf("%s is pinned: %+v", target.Name, s)
				}
				continue
			}
			low, high := ptr.Deref(target.MinReplicas, 0), ptr.Deref(target.MaxReplicas, 1<<30)
			if s.Desired < low || s.Desired > high {
				return fmt.Errorf("%s: %d outside %d..%d", target.Name, s.Desired, low, high)
			}
			found := w.in.Targets[i].Replicas
			if s.Current < min(found, s.Desired) || s.Current > max(found, s.Desired) {
				return fmt.Errorf("%s: from %d to %d, desired %d", target.Name, found, s.Current, s.Desired)
			}
		}
		return nil
	})
}

// The same input gives the same decision, in whatever order targets were observed, and the input
// stays as it is.
func TestDeterministic(t *testing.T) {
	forAll(t, func(w *fakeCluster, d Decision) error {
		before, err := json.Marshal(w.in.Status)
		if err != nil {
			return err
		}
		slices.Reverse(w.in.Targets)
		again, err := Decide(w.in)
		slices.Reverse(w.in.Targets)
		if err != nil || !reflect.DeepEqual(d, again) {
			return fmt.Errorf("then %+v (%w)", again, err)
		}
		after, err := json.Marshal(w.in.Status)
		if err != nil || string(before) != string(after) {
			return fmt.Errorf("the status changed: %s, %s", before, after)
		}
		return nil
	})
}

// A decision on its own outcome writes nothing, and the one after that finds nothing new at all.
// With rebalance false a pending copy may go first, because what is written elsewhere counts as
// placed.
func TestIdempotent(t *testing.T) {
	forAll(t, func(w *fakeCluster, d Decision) error {
		sticky := w.in.Spec.Policy.Rebalance != nil
		for i := range 4 {
			for i, s := range d.Status.Targets {
				w.in.Targets[i].Replicas = s.Current
			}
			w.in.Status = d.Status
			again, err := Decide(w.in)
			switch {
			case err != nil:
				return err
			case len(again.Writes) > 0 && (!sticky || i > 1):
				return fmt.Errorf("%d: then %+v", i, again)
			case i == 3 && (len(again.Events) > 0 || !reflect.DeepEqual(again.Status, d.Status)):
				return fmt.Errorf("never quiet: %+v", again)
			}
			d = again
		}
		return nil
	})
}

// Where everything runs and every target has its due, nothing moves, however often that is looked
// at.
func TestNoReplicaMovesWithoutNeed(t *testing.T) {
	t.Parallel()
	for seed := range uint64(cases) {
		r := rand.New(rand.NewPCG(seed, 11))
		spec := randomSpec(r, 6)
		w := newFakeCluster(spec, make([]int32, len(spec.Targets))...)
		must(t, w.converge())
		writes := w.writes
		for range 3 {
			must(t, w.wait(stable+time.Second))
		}
		if w.writes != writes {
			t.Fatalf("seed %d: %d writes more: %s", seed, w.writes-writes, describe(w))
		}
	}
}

// Whatever happens, a pass leaves as many running replicas as are needed, or as there were. A pinned target
// counts as it was last known. All that holds for two passes as well if the status of the first is lost.
func TestNoRunningReplicaIsLost(t *testing.T) {
	forAll(t, func(w *fakeCluster, d Decision) error {
		p, _, err := w.shared()
		if err != nil {
			return err
		}
		var before, needed, stuck int64
		for i, s := range d.Status.Targets {
			if s.Reason == ReasonUnknown {
				continue
			}
			size := s.Current
			if !w.pinned(i) {
				size = w.in.Targets[i].Replicas
			}
			before += int64(min(s.Running, size))
			needed += int64(s.Desired - s.Pending)
			if s.Capacity != nil {
				stuck += int64(s.Pending)
			}
		}
		needed += min(p.unplaced, stuck)
		for i := range 2 {
			var after int64
			for i, s := range d.Status.Targets {
				if s.Reason != ReasonUnknown {
					after += int64(min(s.Running, s.Current))
				}
				if !w.pinned(i) {
					w.in.Targets[i].Replicas = s.Current
				}
			}
			if floor := min(before, needed); after < floor {
				return fmt.Errorf("pass %d: %d run of %d, %d are needed", i, after, before, needed)
			}
			if d, err = Decide(w.in); err != nil {
				return err
			}
		}
		return nil
	})
}

// pinned reports whether a target cannot be read or must not be written.
func (w *fakeCluster) pinned(i int) bool {
	o := w.in.Targets[i]
	_, conflict := w.in.Conflicts[o.Name]
	return o.Err != nil || conflict
}
