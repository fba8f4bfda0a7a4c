package federation

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// everywhere is preferences that are the same for all clusters.
func everywhere(e v1alpha1.FederatedPreference) *v1alpha1.FederatedPreferences {
	return &v1alpha1.FederatedPreferences{Rebalance: true, Clusters: map[string]v1alpha1.FederatedPreference{"*": e}}
}

// abc is a world with the clusters a, b and c. The key is chosen so that ties are broken in the order
// of their names.
func abc(t *testing.T, p *v1alpha1.FederatedPreferences) *fakeFleet {
	w := newFakeFleet(t, specOf(50, p), "a", "b", "c")
	w.in.Key = inNameOrder
	return w
}

// Evenly over all clusters; one of them has room for six; two of them are lost.
func TestEvenlyOverAllClusters(t *testing.T) {
	w := abc(t, everywhere(entry(-1, -1, 1)))
	w.converge()
	w.want("17 17 16", "all have room")

	w.place("c").able = 6
	w.wait(act + 1e9)
	w.wait(act + 1e9)
	w.want("22 22 8", "c runs six, and two wait as a probe")
	if got := w.running(); got != 50 {
		t.Errorf("%d run, want 50", got)
	}

	w = abc(t, everywhere(entry(-1, -1, 1)))
	w.converge()
	w.place("b").Reach, w.place("c").Reach = Lost, Lost
	w.converge()
	w.want("50 17 16", "b and c are lost, and not touched")
}

// Two replicas in each cluster, said in three ways.
func TestTwoInEachCluster(t *testing.T) {
	for name, e := range map[string]v1alpha1.FederatedPreference{
		"max 2, weight 1": entry(-1, 2, 1),
		"min 2, weight 0": entry(2, -1, 0),
		"min 2, max 2":    entry(2, 2, -1),
	} {
		w := abc(t, everywhere(e))
		w.converge()
		w.want("2 2 2", name)
		placed := meta.FindStatusCondition(w.in.Status.Conditions, v1alpha1.ConditionPlaced)
		if w.in.Status.Unplaced != 44 || placed == nil || !strings.HasPrefix(placed.Message, "44 replicas of 50") {
			t.Errorf("%s: unplaced %d, %+v", name, w.in.Status.Unplaced, placed)
		}
	}
}

// Twenty in each of three clusters, of fifty.
func TestTwentyInEachOfFifty(t *testing.T) {
	w := abc(t, everywhere(entry(20, -1, 0)))
	w.converge()
	w.want("20 20 10", "the total wins")
}

// Evenly, but at most twenty in c.
func TestAtMostTwentyInOne(t *testing.T) {
	p := everywhere(entry(-1, -1, 1))
	p.Clusters["c"] = entry(-1, 20, 1)
	w := abc(t, p)
	w.converge()
	w.want("17 17 16", "all have room")

	w.place("b").Reach = Lost
	w.converge()
	w.want("30 17 20", "b is lost")
	w.place("a").Reach = Lost
	w.converge()
	w.want("30 17 20", "a and b are lost")
	if w.in.Status.Unplaced != 30 {
		t.Errorf("unplaced %d, want 30", w.in.Status.Unplaced)
	}

	w = abc(t, p)
	w.place("b").able = 0
	w.converge()
	w.wait(act + 1e9)
	w.want("30 2 20", "b runs nothing but keeps a probe")
}

// In a, and only if there is trouble in b and c.
func TestOnlyInTrouble(t *testing.T) {
	w := abc(t, weighted(map[string]int32{"a": 1000000, "b": 1, "c": 1}))
	w.converge()
	w.want("50 - -", "all have room")
	w.place("a").able = 40
	w.wait(act + 1e9)
	w.want("42 5 5", "a runs 40, and two wait as a probe")
}

// A gets twice as much as the others.
func TestTwiceAsMuch(t *testing.T) {
	w := abc(t, weighted(map[string]int32{"a": 2, "b": 1, "c": 1}))
	w.converge()
	w.want("25 13 12", "2:1:1")
}

// have gives clusters replicas that run already.
func (w *fakeFleet) have(sizes map[string]int32) {
	for name, size := range sizes {
		p := w.place(name)
		p.Local = Local{Exists: true, Replicas: size, Written: &size, Revision: Revision(&w.in.Spec), RolledOut: true}
	}
	w.run()
}

// Evenly, but what is there already does not move.
func TestWhatRunsDoesNotMove(t *testing.T) {
	p := everywhere(entry(-1, -1, 1))
	p.Rebalance = false
	w := abc(t, p)
	w.have(map[string]int32{"a": 20})
	w.converge()
	w.want("20 15 15", "a has 20")

	w = abc(t, p)
	w.have(map[string]int32{"a": 20})
	w.place("c").able = 6
	w.converge()
	w.wait(act + 1e9)
	w.want("22 22 8", "c has room for six, and two wait as a probe")

	w = abc(t, p)
	w.have(map[string]int32{"a": 30})
	w.place("c").able = 6
	w.converge()
	w.wait(act + 1e9)
	w.want("30 14 8", "a has 30, c has room for six, and two wait as a probe")
	if w.left["a"] != 0 {
		t.Errorf("%d left a", w.left["a"])
	}
}

// Minimums that do not fit do not make the layout swing: min 20 each, b has room for ten.
func TestMinimumsThatDoNotFit(t *testing.T) {
	for _, rebalance := range []bool{true, false} {
		p := everywhere(entry(20, -1, 1))
		p.Rebalance = rebalance
		w := abc(t, p)
		w.place("b").able = 10
		w.converge()
		for range 4 {
			w.wait(act + 1e9)
		}
		settled, writes := w.sizes(), len(w.writes)
		w.want("20 12 20", "b runs ten, and two wait as a probe")
		for range 20 {
			w.wait(act + 1e9)
		}
		if w.sizes() != settled || len(w.writes) != writes {
			t.Errorf("rebalance %v: from %s to %s with %d writes", rebalance, settled, w.sizes(), len(w.writes)-writes)
		}
	}
}

// A cluster that does not answer for a short time in the middle of moves does not take them back:
// what has started in its place waits there. Otherwise a controller that begins would do so, as it
// reaches one cluster after the other.
func TestMovesWaitForClusterThatDoesNotAnswer(t *testing.T) {
	for _, rebalance := range []bool{true, false} {
		p := weighted(map[string]int32{"a": 4, "b": 1, "c": 1})
		w := newFakeFleet(t, specOf(30, p), "a", "b", "c")
		w.converge()
		w.want("20 5 5", "4:1:1")
		p.Clusters["a"], p.Clusters["b"] = entry(-1, -1, 1), entry(-1, -1, 4)
		w.in.Generation++
		w.pass()
		w.want("20 20 5", "1:4:1, and 15 have started in b")

		p.Rebalance = rebalance
		w.in.Generation++
		w.place("a").Reach = NotAnswering
		w.place("b").able = 5
		w.run()
		w.pass()
		w.want("20 20 5", "a does not answer, and 15 have still to start in b")
		w.place("b").able = 1000
		w.converge()
		w.want("20 20 5", "a does not answer")
		if ok, reason, message := w.condition(v1alpha1.ConditionSettled); ok || reason != ReasonMoving {
			t.Error(reason, message)
		}
		w.in.Spec.Replicas = new(int32(28))
		w.in.Generation++
		w.converge()
		if got := w.place("b").Local.Replicas + w.place("c").Local.Replicas; got != 23 {
			t.Errorf("two fewer are asked for, and the others have %d, want 23", got)
		}
	}
}

// Pods that a smaller number may still take away run in place of no others.
func TestNothingLeavesForPodsThatMayNotStay(t *testing.T) {
	t.Parallel()
	w := newFakeFleet(t, specOf(20, weighted(map[string]int32{"a": 1, "b": 3})), "a", "b")
	w.converge()
	w.want("5 15", "at the start")
	w.in.Spec.Preferences = weighted(map[string]int32{"a": 1, "b": 1})
	w.place("a").Local.Staying = new(int32(5))
	w.converge()
	w.want("10 15", "ten pods seem to run in a, and five stay for sure")
	if settled, reason, _ := w.condition(v1alpha1.ConditionSettled); settled || reason != ReasonMoving {
		t.Errorf("settled %v: %s", settled, reason)
	}
	w.place("a").Local.Staying = new(int32(8))
	w.converge()
	w.want("10 12", "eight stay")
	w.place("a").Local.Staying = nil
	w.converge()
	w.want("10 10", "all stay")
}
