package members

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// times are since when after noon pods wait for a node, and to start, in order.
func (w waiting) times() (unscheduled, notStarted []time.Duration) {
	for _, m := range w {
		unscheduled = append(unscheduled, slices.Repeat([]time.Duration{m.since.Sub(noon)}, int(m.unscheduled))...)
		notStarted = append(notStarted, slices.Repeat([]time.Duration{m.since.Sub(noon)}, int(m.notStarted))...)
	}
	return unscheduled, notStarted
}

// Whatever comes and goes, the counts are those of a sorted list, and what was read stays.
func TestWaitingCountsAsASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var w waiting
		lists := [2][]time.Duration{} // of those that wait for a node, and to start
		type reading struct {
			waiting
			lists [2][]time.Duration
		}
		var read []reading
		for _, step := range rapid.SliceOfN(rapid.IntRange(-3, 9), 1, 200).Draw(t, "steps") {
			at := time.Duration(rapid.IntRange(0, 30).Draw(t, "since")) * time.Second
			kind := rapid.IntRange(0, 1).Draw(t, "kind")
			one := func(n int32) moment {
				return moment{noon.Add(at), n * int32(1-kind), n * int32(kind)} // 0 or 1
			}
			list := slices.Clone(lists[kind])
			if step >= 0 {
				w, list = w.plus(one(1)), append(list, at)
				slices.Sort(list)
			} else if i := slices.Index(list, at); i >= 0 {
				w, list = w.plus(one(-1)), slices.Delete(list, i, i+1)
			}
			lists[kind] = list
			read = append(read, reading{w, lists})
		}
		for _, r := range read {
			unscheduled, notStarted := r.times()
			if !slices.Equal(unscheduled, r.lists[0]) || !slices.Equal(notStarted, r.lists[1]) {
				t.Fatalf("got %v and %v, want %v", unscheduled, notStarted, r.lists)
			}
			now := time.Duration(rapid.IntRange(-1, 31).Draw(t, "limit")) * time.Second
			p := Pods{waiting: r.waiting}
			var want [2]int32
			next := time.Time{}
			for kind, list := range r.lists {
				for _, at := range list {
					if at <= now {
						want[kind]++
					} else if since := noon.Add(at); next.IsZero() || since.Before(next) {
						next = since
					}
				}
			}
			u, n := p.Late(noon.Add(now), 0)
			if at := p.Next(noon.Add(now), 0); u != want[0] || n != want[1] || !at.Equal(next) {
				t.Fatalf("%v at %s: %d %d, then %s, want %v %s", r.lists, now, u, n, at, want, next)
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
			p := tally.counts[web]
			for _, timeout := range []time.Duration{time.Minute, 5 * time.Minute} {
				if int(p.Created) != n || sum(p.Late(now, timeout)) > p.Waiting() || p.Next(now, timeout).Before(now) {
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
			aPod("0", "web", running, condition(v1.PodReady, v1.ConditionTrue, 0)),
			aPod("0", "web", running, condition(v1.PodReady, v1.ConditionFalse, time.Minute)),
		}
		for i := 1; b.Loop(); i++ {
			_ = tally.counts[Local{ReplicaSet, "shop", "web"}]
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
			_ = tally.counts[Local{ReplicaSet, "shop", "web"}]
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

func sum(a, b int32) int32 { return a + b }
