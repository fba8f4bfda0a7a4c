package federation

import (
	"testing"
	"time"
)

// A cluster that is known to be full stays known as that, whether replicas may move or not: what is new
// starts elsewhere at once, a probe shows when there is room again, and nothing that runs moves for it.
func TestFullClusterIsRemembered(t *testing.T) {
	for _, rebalance := range []bool{true, false} {
		p := weighted(map[string]int32{"a": 1, "b": 1})
		p.Rebalance = rebalance
		w := newFakeFleet(t, specOf(16, p), "a", "b")
		w.place("a").able = 6
		w.converge()
		w.wait(act + time.Second)
		w.want("8 10", "a runs six, and two wait as a probe")
		for range 10 {
			w.wait(stable)
		}
		w.in.Spec.Replicas = new(int32(24))
		w.converge()
		w.want("8 18", "a is full")
		if w.running() != 24 {
			t.Errorf("rebalance %v: %d of 24 run at once", rebalance, w.running())
		}

		w.place("a").able = 1 << 30
		w.run()
		w.wait(stable + time.Second)
		w.wait(stable + time.Second)
		want := map[bool]string{true: "12 12", false: "6 18"}[rebalance]
		w.want(want, "a has room again")
		w.in.Spec.Replicas = new(int32(30))
		w.converge()
		want = map[bool]string{true: "15 15", false: "12 18"}[rebalance]
		w.want(want, "what is new goes to a")
		if !rebalance && w.left["b"] > 0 {
			t.Errorf("%d left b", w.left["b"])
		}
	}
}

// Pods that may be about to be deleted for a smaller number still run: they are not idle, and leave no
// sooner than others run in their place.
func TestReadyReplicasDoNotLeaveAsIdle(t *testing.T) {
	w := newFakeFleet(t, specOf(10, weighted(map[string]int32{"a": 4, "b": 1})), "a", "b")
	w.converge()
	w.want("8 2", "by weight")
	w.place("a").Local.Staying = new(int32(6))
	w.in.Spec.Preferences = weighted(map[string]int32{"a": 1, "b": 1})
	w.in.Generation++
	w.pass()
	w.want("8 5", "none leaves before others run")
}
