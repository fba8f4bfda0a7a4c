package federation

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// inTier gives an entry a tier.
func inTier(tier int32, e v1alpha1.FederatedPreference) v1alpha1.FederatedPreference {
	e.Tier = tier
	return e
}

// ofRegion is an entry for the clusters of a region.
func ofRegion(region string, e v1alpha1.FederatedPreference) v1alpha1.FederatedPreference {
	e.Selector = &v1alpha1.ClusterSelector{MatchLabels: map[string]v1alpha1.LabelValue{"region": v1alpha1.LabelValue(region)}}
	return e
}

// regions is a world of three regions with two, one and three clusters.
func regions(t *testing.T, replicas int32, p *v1alpha1.FederatedPreferences) *fakeFleet {
	w := newFakeFleet(t, specOf(replicas, p))
	w.in.Key = inNameOrder
	for name, region := range map[string]string{"a1": "a", "a2": "a", "b1": "b", "c1": "c", "c2": "c", "c3": "c"} {
		w.join(name, map[string]string{"region": region})
	}
	return w
}

// sums are the numbers of replicas by region.
func (w *fakeFleet) sums() string {
	of := map[string]int32{}
	for _, p := range w.places {
		of[p.Labels["region"]] += p.Local.Replicas
	}
	return fmt.Sprintf("%d %d %d", of["a"], of["b"], of["c"])
}

func evenRegions() *v1alpha1.FederatedPreferences {
	p := &v1alpha1.FederatedPreferences{Rebalance: true, Clusters: map[string]v1alpha1.FederatedPreference{}}
	for _, region := range []string{"a", "b", "c"} {
		p.Clusters["region-"+region] = ofRegion(region, entry(-1, -1, 1))
	}
	return p
}

// Even over three regions, however many clusters they have; rounding keeps to the regions, too.
func TestEvenOverRegions(t *testing.T) {
	for replicas, want := range map[int32]string{3: "1 1 1", 30: "10 10 10", 12: "4 4 4"} {
		w := regions(t, replicas, evenRegions())
		w.converge()
		if w.sums() != want {
			t.Errorf("%d replicas: %s, want %s\n%s", replicas, w.sums(), want, w.explain())
		}
		if replicas == 12 {
			for _, name := range []string{"a1", "a2"} {
				if n := w.place(name).Local.Replicas; n != 2 {
					t.Errorf("%s has %d", name, n)
				}
			}
		}
	}
}

// What a cluster of a region cannot run goes to the others of its region first, and to other regions
// when these are full.
func TestRegionHelpsItselfFirst(t *testing.T) {
	w := regions(t, 36, evenRegions())
	w.converge()
	w.place("c1").able = 0
	w.wait(act + time.Second)
	if w.sums() != "12 12 14" || w.place("c1").Local.Replicas != 2 {
		t.Errorf("c1 is full: %s\n%s", w.sums(), w.explain())
	}
	for _, name := range []string{"c2", "c3"} {
		w.place(name).able = 0
	}
	w.run()
	w.wait(act + time.Second)
	w.wait(act + time.Second)
	if w.sums() != "18 18 6" {
		t.Errorf("c is full: %s\n%s", w.sums(), w.explain())
	}
	if w.running() != 36 {
		t.Errorf("%d run", w.running())
	}
}

// Weights by region, then by cluster; bounds of the region hold for its clusters together.
func TestWeightsByRegionThenByCluster(t *testing.T) {
	p := evenRegions()
	a := p.Clusters["region-a"]
	a.Weight = new(int32(2))
	a.Clusters = map[string]v1alpha1.ClusterPreference{"a1": {Weight: new(int32(3))}, "*": {Weight: new(int32(1))}}
	p.Clusters["region-a"] = a
	c := p.Clusters["region-c"]
	c.MaxReplicas = new(int32(6))
	p.Clusters["region-c"] = c
	w := regions(t, 30, p)
	w.converge()
	if w.sums() != "16 8 6" || w.place("a1").Local.Replicas != 12 || w.place("c2").Local.Replicas != 2 {
		t.Errorf("%s\n%s", w.sums(), w.explain())
	}
	for _, s := range w.in.Status.Clusters {
		if s.Name == "c2" && !strings.Contains(s.Message, "group region-c runs 6 replicas: its maximum") {
			t.Error(s.Message)
		}
	}
}

// An entry of its own replaces that of its region completely.
func TestOwnEntryReplacesTheOthers(t *testing.T) {
	p := evenRegions()
	p.Clusters["a1"] = entry(-1, 3, -1)
	w := regions(t, 30, p)
	w.converge()
	if w.place("a1").Local.Replicas != 0 || w.sums() != "10 10 10" {
		t.Errorf("%s\n%s", w.sums(), w.explain())
	}
	ok, reason, message := w.condition(v1alpha1.ConditionPreferencesClear)
	if want := `the entry "a1" has no weight, which means 0: it has no replicas; set weight, or weight: 0 if this is meant`; ok ||
		reason != ReasonUnclearPreferences || message != want {
		t.Errorf("%s: %s", reason, message)
	}
	if !w.event(ReasonUnclearPreferences) {
		t.Error("no event")
	}
}

// tiered is a world with a first choice, two second choices and a last one.
func tiered(t *testing.T, replicas int32) *fakeFleet {
	p := &v1alpha1.FederatedPreferences{Rebalance: true, Clusters: map[string]v1alpha1.FederatedPreference{
		"a": inTier(0, entry(-1, 10, 1)),
		"b": inTier(1, entry(-1, 8, 3)),
		"c": inTier(1, entry(-1, 8, 1)),
		"d": inTier(2, entry(1, -1, 1)),
	}}
	w := newFakeFleet(t, specOf(replicas, p), "a", "b", "c", "d")
	w.in.Key = inNameOrder
	return w
}

// Tiers are filled in order and emptied in reverse; weights count within a tier, and a minimum of a
// later one holds.
func TestTiersFillInOrderAndEmptyInReverse(t *testing.T) {
	w := tiered(t, 5)
	w.converge()
	w.want("4 - - 1", "5")
	for _, step := range []struct {
		replicas int32
		want     string
	}{{11, "10 - - 1"}, {15, "10 3 1 1"}, {27, "10 8 8 1"}, {40, "10 8 8 14"}, {27, "10 8 8 1"}, {15, "10 3 1 1"}, {11, "10 0 0 1"},
		{5, "4 0 0 1"}} {
		w.in.Spec.Replicas = new(step.replicas)
		w.converge()
		w.want(step.want, fmt.Sprint(step.replicas))
	}
}

// What the first tier cannot run overflows to the next, and returns by itself when there is room: after
// the stabilization time, and no more at once than the limit says.
func TestTiersReturn(t *testing.T) {
	w := tiered(t, 11)
	w.in.Spec.MaxMovesPerMinute = new(int32(2))
	w.converge()
	w.place("a").able = 4
	w.run()
	for range 8 {
		w.wait(act / 4)
	}
	w.want("6 5 1 1", "a runs four, and two wait as a probe")
	for _, s := range w.in.Status.Clusters {
		if s.Name == "b" && !strings.Contains(s.Message, "tier 1 runs 6 replicas: tiers are filled in order") {
			t.Error(s.Message)
		}
	}
	w.place("a").able = 100
	w.converge()
	w.want("6 5 1 1", "not yet")
	w.in.Now = w.in.Now.Add(stable)
	for range 10 {
		before := w.running()
		left := w.left["b"] + w.left["c"]
		w.converge()
		if gone := w.left["b"] + w.left["c"] - left; gone > 2 || w.running() < 11 {
			t.Errorf("%d left at once, %d run, %d before", gone, w.running(), before)
		}
		w.in.Now = w.in.Now.Add(time.Minute)
	}
	w.want("10 0 0 1", "back")
	w.quiet("settled")
}

// A pinned cluster of a group keeps what it has even if the minimums do not fit.
func TestPinnedClusterOfAGroupComesFirst(t *testing.T) {
	p := evenRegions()
	p.Clusters["c1"] = entry(20, -1, 5)
	w := regions(t, 24, p)
	w.converge()
	w.place("a1").Reach = NotAnswering
	kept := w.place("a1").Local.Replicas
	w.quiet("out of reach for a short time")
	w.in.Spec.Replicas = new(int32(10))
	w.converge()
	if n := w.place("a1").Local.Replicas; n != kept {
		t.Errorf("from %d to %d", kept, n)
	}
}

// Over many objects every cluster is equally often the one that gets a single replica.
func TestSingleReplicasAreSpread(t *testing.T) {
	first := map[string]int{}
	for i := range 900 {
		w := newFakeFleet(t, specOf(1, nil), "a", "b", "c")
		w.in.Key = fmt.Sprintf("shop/web-%d", i)
		w.pass()
		first[w.writes[0].Cluster]++
	}
	for name, n := range first {
		if n < 240 || n > 360 {
			t.Errorf("%s is first %d times of 900", name, n)
		}
	}
}
