package federation

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// forAll plays random lives of objects: clusters fill up and empty, are lost and return, refuse
// writes, lose their objects or have them edited, while numbers and limits change. The property is
// checked for every decision, before it is carried out.
func forAll(t *testing.T, property func(t *rapid.T, w *fakeFleet, d Decision)) {
	t.Helper()
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(t, rt)
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			w.mishap(rt)
			w.run()
			w.observe()
			d, err := Decide(w.in)
			if err != nil {
				rt.Fatal(err)
			}
			property(rt, w, d)
			w.apply(&d)
			w.run()
			w.in.Now = w.in.Now.Add(time.Duration(rapid.IntRange(0, 400).Draw(rt, "seconds")) * time.Second)
		}
	})
}

func drawWorld(t *testing.T, rt *rapid.T) *fakeFleet {
	t.Helper()
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 3))
	names := []string{"a", "b", "c", "d", "e", "f"}[:rapid.IntRange(1, 6).Draw(rt, "clusters")]
	w := newFakeFleet(t, randomSpec(r, names))
	w.forgetful = rapid.Bool().Draw(rt, "forgetful")
	if rapid.Bool().Draw(rt, "limited") {
		w.in.Spec.MaxMovesPerMinute = new(rapid.Int32Range(1, 4).Draw(rt, "moves"))
	}
	for _, name := range names {
		w.join(name, map[string]string{"region": []string{"eu", "us"}[r.IntN(2)]})
	}
	return w
}

// mishap changes something of the world.
func (w *fakeFleet) mishap(t *rapid.T) {
	p := w.places[rapid.IntRange(0, len(w.places)-1).Draw(t, "cluster")]
	switch rapid.IntRange(0, 10).Draw(t, "mishap") {
	case 10:
		p.Local.Terminating, p.Local.Exists = p.Local.Exists, p.Local.Terminating
	case 0:
		w.in.Spec.Replicas = new(rapid.Int32Range(0, 60).Draw(t, "replicas"))
	case 1, 2:
		p.able = rapid.Int32Range(0, 20).Draw(t, "able")
	case 3:
		p.Reach = rapid.SampledFrom([]Reach{Reachable, NotAnswering, Lost}).Draw(t, "reach")
	case 4:
		p.refuses = rapid.SampledFrom([]string{"", "no"}).Draw(t, "refuses")
	case 5:
		p.Local, p.pods = Local{}, nil
	case 6:
		p.Local.Replicas = rapid.Int32Range(0, 20).Draw(t, "edited")
	case 7:
		p.NoSchedule = !p.NoSchedule
	case 8:
		p.quota = rapid.Int32Range(0, 20).Draw(t, "quota")
	default:
		p.Leaving = !p.Leaving
	}
}

// What runs where it is placed, and what has no place, is what is asked for.
func TestSumIsExact(t *testing.T) {
	forAll(t, func(t *rapid.T, w *fakeFleet, d Decision) {
		sum := int64(d.Status.Unplaced)
		var kept, copies int64 // a probe that runs is a copy until its cluster is known to be able to run it
		for _, s := range d.Status.Clusters {
			if s.Capacity != nil {
				copies += int64(max(0, min(s.Running, s.Desired)-*s.Capacity))
			}
			switch s.Reason {
			case ReasonLost, ReasonUnknown, ReasonNoEntry:
			case ReasonUnreachable, ReasonSecondWriter:
				kept += int64(s.Desired)
			default:
				sum += int64(s.Desired - s.Pending)
			}
		}
		total := int64(*w.in.Spec.Replicas)
		if sum+kept < total || kept == 0 && sum-copies > total {
			t.Fatalf("%d placed or not, %d kept, %d asked for\n%+v", sum, kept, total, d.Status)
		}
	})
}

// The conditions agree with each other and with the pods: what runs where it should is placed, and nothing is
// settled as long as fewer run than are asked for, or a cluster has an earlier template.
func TestConditionsAgree(t *testing.T) {
	forAll(t, func(t *rapid.T, w *fakeFleet, d Decision) {
		s, total := d.Status, int64(*w.in.Spec.Replicas)
		holds := func(kind string) bool { return meta.IsStatusConditionTrue(s.Conditions, kind) }
		var running, inPlace int64
		outdated, waits := false, false
		for _, c := range s.Clusters {
			if c.Reason != ReasonLost {
				waits = waits || c.Pending > 0 && s.Unplaced > 0
				running, inPlace = running+int64(c.Running), inPlace+int64(min(c.Running, c.Desired))
			}
			if c.Pending > max(0, c.Desired-c.Running) {
				t.Fatalf("%d wait in %s, which runs %d of %d", c.Pending, c.Name, c.Running, c.Desired)
			}
			outdated = outdated || c.Written > 0 && c.Revision != Revision(&w.in.Spec)
		}
		if holds(v1alpha1.ConditionPlaced) != (s.Unplaced == 0) || s.Unplaced > 0 && inPlace+int64(s.Unplaced) > total {
			t.Fatalf("%d unplaced, %d of %d run in their places: %+v", s.Unplaced, inPlace, total, s)
		}
		if holds(v1alpha1.ConditionSettled) && (waits || running < total-int64(s.Unplaced) || len(d.Writes) > 0 || outdated) {
			t.Fatalf("settled, though %d of %d run and %d are unplaced, %d writes, outdated %v: %+v", running, total, s.Unplaced, len(d.Writes),
				outdated, s)
		}
	})
}

// No cluster is to have more than its maximum, or than it has if it is to get nothing more; nothing
// is written where nobody answers, and no change goes further than it should.
func TestBoundsHold(t *testing.T) {
	forAll(t, func(t *rapid.T, w *fakeFleet, d Decision) {
		for _, write := range d.Writes {
			p := w.place(write.Cluster)
			i := slices.IndexFunc(d.Status.Clusters, func(s v1alpha1.FederatedClusterStatus) bool { return s.Name == write.Cluster })
			desired := d.Status.Clusters[i].Desired
			if p.Reach != Reachable || p.Local.Terminating {
				t.Fatalf("written out of reach, or while it is deleted: %+v", write)
			}
			if write.To < min(write.From, desired) || write.To > max(write.From, desired) {
				t.Fatalf("%+v, desired %d", write, desired)
			}
		}
		preferences, err := preferencesOf(&w.in)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range d.Status.Clusters {
			p := w.place(s.Name)
			if p.Reach != Reachable || s.Reason == ReasonSecondWriter {
				continue // it keeps what it has, whatever it is allowed
			}
			own := preferences.within(preferences.entryOf(p.Cluster), s.Name)
			if own.MaxReplicas != nil && s.Desired > *own.MaxReplicas {
				t.Fatalf("%s is to have %d, at most %d", s.Name, s.Desired, *own.MaxReplicas)
			}
			if p.Leaving && s.Desired > 0 {
				t.Fatalf("%s is leaving, and is to have %d", s.Name, s.Desired)
			}
		}
	})
}

// The same input gives the same bytes, in whatever order clusters were observed, and stays as it is.
func TestDeterministic(t *testing.T) {
	forAll(t, func(t *rapid.T, w *fakeFleet, d Decision) {
		status := w.in.Status.DeepCopy()
		slices.Reverse(w.in.Clusters)
		again, err := Decide(w.in)
		slices.Reverse(w.in.Clusters)
		if err != nil || !equalJSON(w.t, d, again) {
			t.Fatalf("%+v, then %+v (%v)", d, again, err)
		}
		if !equalJSON(w.t, status, w.in.Status) {
			t.Fatalf("the status changed from %+v to %+v", status, w.in.Status)
		}
	})
}

// A decision leaves as many running replicas as can be placed, or as there were. Those in clusters
// that are lost do not count.
func TestNoRunningReplicaIsLost(t *testing.T) {
	forAll(t, func(t *rapid.T, w *fakeFleet, d Decision) {
		var before, after int32
		for _, p := range w.places {
			if p.Reach == Lost {
				continue
			}
			running := min(podhealth.Count(p.pods, act, w.in.Now).Running, p.Local.Replicas)
			if p.Reach == NotAnswering { // as it was last known
				s := ptr.Deref(w.in.Status.Cluster(p.Name), v1alpha1.FederatedClusterStatus{})
				running = min(s.Running, s.Written)
			}
			before += running
			if i := slices.IndexFunc(d.Writes, func(write Write) bool { return write.Cluster == p.Name }); i >= 0 {
				running = min(running, d.Writes[i].To)
			}
			after += running
		}
		if floor := min(before, *w.in.Spec.Replicas-d.Status.Unplaced); after < floor {
			t.Fatalf("%d of %d run, %d are needed: %+v\n%+v", after, before, floor, d.Writes, d.Status.Clusters)
		}
	})
}

// Within a minute no more running replicas leave for another cluster than the limit says, however
// often it is decided.
func TestMovesAreLimited(t *testing.T) {
	forAll(t, func(t *rapid.T, w *fakeFleet, d Decision) {
		limit := w.in.Spec.MaxMovesPerMinute
		if limit == nil {
			return
		}
		var moves int32
		for _, write := range d.Writes {
			moves += write.Moves
		}
		if before := w.in.Status.Moves; before != nil && w.in.Now.Sub(before.LastTime.Time) < time.Minute {
			moves += before.Count
		}
		if moves > *limit {
			t.Fatalf("%d moves within a minute, at most %d: %+v", moves, *limit, d)
		}
	})
}

// Every number is explained, and every write says why.
func TestEveryNumberIsExplained(t *testing.T) {
	forAll(t, func(t *rapid.T, _ *fakeFleet, d Decision) {
		for _, s := range d.Status.Clusters {
			if s.Reason == "" || s.Message == "" {
				t.Fatalf("%+v", s)
			}
		}
		for _, write := range d.Writes {
			if write.Why == "" {
				t.Fatalf("%+v", write)
			}
		}
	})
}

// When the world stays as it is, writing ends, and a decision on its own result changes nothing.
func TestItEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := drawWorld(t, rt)
		for range rapid.IntRange(1, 6).Draw(rt, "mishaps") {
			w.mishap(rt)
			w.run()
			w.pass()
			w.in.Now = w.in.Now.Add(time.Duration(rapid.IntRange(0, 400).Draw(rt, "seconds")) * time.Second)
		}
		for _, p := range w.places {
			p.refuses = "" // or it is tried again forever
		}
		for range 80 {
			w.wait(act + time.Second)
		}
		writes := len(w.writes)
		for range 20 {
			w.wait(act + time.Second)
		}
		if len(w.writes) != writes {
			rt.Fatal(fmt.Sprintf("still writing: %+v\n%s", w.writes[writes:], w.explain()))
		}
	})
}
