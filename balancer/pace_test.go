package balancer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// A flip of the order moves no more replicas per minute than allowed, nothing that runs is lost on
// the way, and all arrive.
func TestMovesPerMinute(t *testing.T) {
	w := newFakeCluster(specOf(100, priority("a", "b"), targetOf("a", -1, -1), targetOf("b", -1, -1)), 100, 0)
	must(t, w.converge())
	w.in.Spec.Policy = priority("b", "a")
	w.in.Spec.Policy.MaxMovesPerMinute = new(int32(10))
	for minutes := range 10 {
		for range 6 {
			must(t, w.converge())
			if want := fmt.Sprintf("[%d %d]", 90-10*minutes, min(100, 20+10*minutes)); fmt.Sprint(w.sizes) != want {
				t.Fatalf("minute %d: %v, want %s", minutes, w.sizes, want)
			}
			if d, err := w.pass(); err != nil || minutes < 9 && !d.Next.Equal(noon.Add(time.Duration(minutes+1)*time.Minute)) {
				t.Fatalf("minute %d: next is %v: %v", minutes, d.Next, err)
			}
			w.in.Now = w.in.Now.Add(10 * time.Second)
		}
	}
	must(t, w.converge())
	if fmt.Sprint(w.sizes) != "[0 100]" {
		t.Errorf("%v", w.sizes)
	}
}

// Whatever is asked for, and whenever the controller stops, even between its writes and the status:
// no window of a minute sees more running replicas move than allowed, and in the end all are where
// they are due.
func TestNoMinuteHasTooManyMoves(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 12))
		w, limit := movable(r)
		must(t, w.converge())
		w.in.Spec.Policy.MaxMovesPerMinute = &limit
		var log []move
		for range 60 {
			w.in.Now = w.in.Now.Add(time.Duration(r.IntN(20_000)) * time.Millisecond)
			if r.IntN(8) == 0 {
				w.in.Spec.Policy.Proportions.TargetProportions[string(rune('a'+r.IntN(len(w.sizes))))] = 1 + r.Int32N(9)
			}
			steady := seed%2 == 0
			if !steady && r.IntN(8) == 0 {
				*w.in.Spec.Replicas = r.Int32N(60)
			}
			log = append(log, w.step(t, r, steady))
		}
		for i := range log {
			if n := within(log[i:], time.Minute); n > int64(limit) {
				t.Fatalf("seed %d: %d moves within a minute, %d are allowed: %v", seed, n, limit, log[i:])
			}
		}
		balanced := false
		for range 100 {
			must(t, w.wait(time.Minute))
			if balanced = meta.IsStatusConditionTrue(w.in.Status.Conditions, v1alpha1.ConditionBalanced); balanced {
				break
			}
		}
		if !balanced {
			t.Fatalf("seed %d: never settles: %v", seed, w.in.Status.Conditions)
		}
	}
}

// movable has some targets without bounds, and a limit.
func movable(r *rand.Rand) (*fakeCluster, int32) {
	var targets []v1alpha1.BalancerTarget
	var sizes []int32
	rates := map[string]int32{}
	for i := range 2 + r.IntN(4) {
		name := string(rune('a' + i))
		targets, sizes = append(targets, targetOf(name, -1, -1)), append(sizes, r.Int32N(20))
		rates[name] = 1 + r.Int32N(9)
	}
	return newFakeCluster(specOf(r.Int32N(60), proportional(rates), targets...), sizes...), 1 + r.Int32N(6)
}

// move is how many replicas moved at a time.
type move struct {
	at time.Time
	n  int64
}

// within counts the moves of a window that begins with the first.
func within(log []move, window time.Duration) (n int64) {
	for _, m := range log {
		if m.at.Before(log[0].at.Add(window)) {
			n += m.n
		}
	}
	return n
}

// step makes a pass that may end at any point, and reports how many replicas moved. While the
// number of replicas asked for is steady these are all that ran and were stopped.
func (w *fakeCluster) step(t *testing.T, r *rand.Rand, steady bool) move {
	t.Helper()
	if r.IntN(3) > 0 {
		w.run()
	}
	w.observe()
	d, err := Decide(w.in)
	must(t, err)
	kept := w.in.Status
	switch r.IntN(6) {
	case 0: // it stops before it does anything
		return move{at: w.in.Now}
	case 1, 2: // it stops before the status is stored
		d.Writes = d.Writes[:r.IntN(len(d.Writes)+1)]
		kept.Moves = d.Status.Moves
	default:
		kept = d.Status
	}
	m := move{at: w.in.Now}
	for _, write := range d.Writes {
		i := slices.IndexFunc(w.in.Spec.Targets, func(t v1alpha1.BalancerTarget) bool { return t.Name == write.Target })
		if left := int64(max(0, podhealth.Count(w.pods[i], 0, w.in.Now).Running-write.To)); steady && write.To < write.From {
			m.n += left
		} else {
			m.n += int64(write.Moves)
		}
	}
	w.apply(d)
	w.in.Status = kept
	must(t, w.restart())
	return m
}

// Pods that have yet to go after a write are not taken for ones that may go.
func TestPodsThatAreGoingCountOnce(t *testing.T) {
	w := newFakeCluster(specOf(10, priority("a", "b"), targetOf("a", -1, -1), targetOf("b", -1, -1)), 10, 0)
	must(t, w.converge())
	w.in.Spec.Policy = priority("b", "a")
	w.able[1] = 4
	_, err := w.pass()
	must(t, err)
	w.run()
	for range 2 {
		_, err = w.pass() // and the pods of a stay
		must(t, err)
		if fmt.Sprint(w.sizes) != "[6 10]" {
			t.Errorf("sizes %v", w.sizes)
		}
	}
}

// Nothing leaves elsewhere in place of pods that a smaller size may still take away, nor do they leave
// themselves before others run in their place.
func TestNothingLeavesForPodsThatMayNotStay(t *testing.T) {
	even, skewed := proportional(map[string]int32{"a": 1, "b": 1}), proportional(map[string]int32{"a": 1, "b": 3})
	w := newFakeCluster(specOf(20, skewed, targetOf("a", -1, -1), targetOf("b", -1, -1)), 5, 15)
	for i, step := range []struct {
		policy   v1alpha1.BalancerPolicy
		staying  *int32
		want     string
		balanced bool
	}{
		{even, nil, "[10 15]", false},
		{even, new(int32(5)), "[10 15]", false}, // ten seem to run on a
		{even, new(int32(8)), "[10 12]", false},
		{skewed, new(int32(8)), "[10 15]", false},
		{skewed, new(int32(8)), "[7 15]", false},
		{skewed, new(int32(8)), "[5 15]", true}, // a has fewer than stay
		{even, nil, "[10 15]", false},
		{even, nil, "[10 10]", true},
	} {
		w.in.Spec.Policy = step.policy
		w.observe()
		w.in.Targets[0].Staying = step.staying
		d, err := Decide(w.in)
		must(t, err)
		w.apply(d)
		w.run()
		if fmt.Sprint(w.sizes) != step.want {
			t.Errorf("step %d: %v, want %s", i, w.sizes, step.want)
		}
		if balanced := meta.IsStatusConditionTrue(d.Status.Conditions, v1alpha1.ConditionBalanced); balanced != step.balanced {
			t.Errorf("step %d: balanced is %v", i, balanced)
		}
	}
}
