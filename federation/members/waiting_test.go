package members

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// times are since when after noon pods wait, in order.
func (w waiting) times() []time.Duration {
	var all []time.Duration
	for _, m := range w {
		all = append(all, slices.Repeat([]time.Duration{m.since.Sub(noon)}, int(m.pods))...)
	}
	return all
}

// Whatever comes and goes, the counts are those of a sorted list, and what was read stays.
func TestWaitingCountsAsASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w waiting
		var list []time.Duration
		type reading struct {
			waiting
			list []time.Duration
		}
		var read []reading
		for _, step := range rapid.SliceOfN(rapid.IntRange(-3, 9), 1, 200).Draw(t, "steps") {
			at := time.Duration(rapid.IntRange(0, 30).Draw(t, "since")) * time.Second
			if step >= 0 {
				w, list = w.plus(1, noon.Add(at)), append(slices.Clone(list), at)
				slices.Sort(list)
			} else if i := slices.Index(list, at); i >= 0 {
				w, list = w.plus(-1, noon.Add(at)), slices.Delete(slices.Clone(list), i, i+1)
			}
			read = append(read, reading{w, list})
		}
		for _, r := range read {
			if got := r.times(); !slices.Equal(got, r.list) || int(r.count()) != len(r.list) {
				t.Fatalf("got %v, want %v", got, r.list)
			}
			limit := time.Duration(rapid.IntRange(-1, 31).Draw(t, "limit")) * time.Second
			later := slices.IndexFunc(r.list, func(at time.Duration) bool { return at > limit })
			n := len(r.list)
			if later >= 0 {
				n = later
			}
			i := r.until(noon.Add(limit))
			if int(r.waiting[:i].count()) != n || (i < len(r.waiting)) != (later >= 0) || later >= 0 && r.waiting[i].since.Sub(noon) != r.list[later] {
				t.Fatalf("%v since %s: %d times of %v", r.list, limit, i, r.waiting)
			}
		}
	})
}

// What a check reads of a local object costs the same for any number of pods: the counts by two
// timeouts, and when the next pod crosses each.
func BenchmarkPodsRead(b *testing.B) {
	manyPods(b, func(b *testing.B, tally *counting, n int) {
		web, now := Local{ReplicaSet, "shop", "web"}, noon.Add(time.Duration(n/2)*time.Second)
		for b.Loop() {
			p := tally.of[web]
			for _, timeout := range []time.Duration{time.Minute, 5 * time.Minute} {
				if int(p.Created) != n || p.Unscheduled(now, timeout)+p.NotStarted(now, timeout) > p.Waiting() || p.Next(now, timeout).Before(now) {
					b.Fatal(p)
				}
			}
		}
	})
}

// An event of one pod, after the counts were read: one that runs and becomes unready or ready.
func BenchmarkPodChanges(b *testing.B) {
	manyPods(b, func(b *testing.B, tally *counting, _ int) {
		pod := [2]*v1.Pod{
			aPod("0", "web", running, condition(v1.PodReady, v1.ConditionTrue, 0)), aPod("0", "web", running, condition(v1.PodReady, v1.ConditionFalse, time.Minute)),
		}
		for i := 1; b.Loop(); i++ {
			_ = tally.of[Local{ReplicaSet, "shop", "web"}]
			if len(count(tally, pod[i%2])) != 1 {
				b.Fatal("nothing has changed")
			}
		}
	})
}

// An event of a pod that waits, after the counts were read: it gets a node or loses it.
func BenchmarkPodWaits(b *testing.B) {
	manyPods(b, func(b *testing.B, tally *counting, _ int) {
		pod := [2]*v1.Pod{aPod("1", "web"), aPod("1", "web", onNode, condition(v1.PodScheduled, v1.ConditionTrue, time.Minute))}
		for i := 1; b.Loop(); i++ {
			_ = tally.of[Local{ReplicaSet, "shop", "web"}]
			if len(count(tally, pod[i%2])) != 1 {
				b.Fatal("nothing has changed")
			}
		}
	})
}

// manyPods measures with a local object half of whose pods run. The others wait, each since another
// time, which is the worst case.
func manyPods(b *testing.B, measure func(*testing.B, *counting, int)) {
	for _, n := range []int{100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("%d pods", n), func(b *testing.B) {
			tally := newCounting()
			for i := range n {
				if i%2 == 0 {
					count(tally, aPod(fmt.Sprint(i), "web", running, condition(v1.PodReady, v1.ConditionTrue, 0)))
				} else {
					count(tally, aPod(fmt.Sprint(i), "web", condition(v1.PodScheduled, v1.ConditionFalse, time.Duration(i)*time.Second)))
				}
			}
			b.ReportAllocs()
			measure(b, tally, n)
		})
	}
}
