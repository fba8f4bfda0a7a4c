package scaleup_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/scaleup"
)

// inZones lets a pod run in some zones, of one letter each, and rather in those that come first.
func inZones(zones string) func(*v1.Pod) {
	among := func(zones ...string) v1.NodeSelectorTerm {
		return v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: zones}}}
	}
	affinity := &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{among(strings.Split(zones, "")...)}}}
	for i, zone := range strings.Split(zones, "") {
		affinity.PreferredDuringSchedulingIgnoredDuringExecution = append(affinity.PreferredDuringSchedulingIgnoredDuringExecution,
			v1.PreferredSchedulingTerm{Weight: int32(100 - 30*i), Preference: among(zone)})
	}
	return func(pod *v1.Pod) { pod.Spec.Affinity = &v1.Affinity{NodeAffinity: affinity} }
}

// Kinds of pods that have some of their members in common are levelled together.
func TestKindsWithMembersInCommon(t *testing.T) {
	checker := newChecker(t)
	overlapping := slices.Concat(onePerNode("left", 2, inZones("ab")), onePerNode("right", 4, inZones("cb")))
	tests := map[string]struct {
		groups  []fake.Group
		soldOut string
		limits  scaleup.Limits
		pods    []*v1.Pod
		want    map[string]int
		waiting string // why pods wait
	}{
		"two kinds": {
			groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20), zonal("c", 0, 20)},
			pods:   overlapping, want: map[string]int{"a": 2, "b": 2, "c": 2},
		},
		"a chain of kinds": {
			groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20), zonal("c", 0, 20), zonal("d", 0, 20)},
			pods:   slices.Concat(onePerNode("l", 3, inZones("ab")), onePerNode("m", 1, inZones("bc")), onePerNode("r", 4, inZones("dc"))),
			want:   map[string]int{"a": 2, "b": 2, "c": 2, "d": 2},
		},
		"the room of all members together": {
			groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 1), zonal("c", 0, 3)},
			pods:   overlapping, want: map[string]int{"a": 2, "b": 1, "c": 3},
		},
		"less room than pods": {
			groups: []fake.Group{zonal("a", 0, 2), zonal("b", 0, 1), zonal("c", 0, 1)},
			pods:   overlapping, want: map[string]int{"a": 2, "b": 1, "c": 1}, waiting: "no room left in b, c",
		},
		"a limit over all nodes": {
			groups: []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20), zonal("c", 0, 20)},
			limits: scaleup.Limits{MaxNodesTotal: 5},
			pods:   overlapping, want: map[string]int{"a": 2, "b": 2, "c": 1}, waiting: "no room left in b, c",
		},
		"what one refuses is levelled again": {
			groups:  []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20), zonal("c", 0, 20), zonal("d", 0, 20)},
			soldOut: "b",
			pods:    slices.Concat(onePerNode("l", 6, inZones("acb")), onePerNode("r", 6, inZones("dcb"))),
			want:    map[string]int{"a": 4, "b": 0, "c": 4, "d": 4},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			config := fake.Config{Groups: test.groups}
			if test.soldOut != "" {
				config.Stocks = []fake.StockOut{{Scope: fake.Scope{Groups: []string{test.soldOut}}}}
			}
			f := newFleet(t, checker, config, scaleup.Options{Limits: test.limits})
			r := f.round(test.pods...)
			if diff := cmp.Diff(test.want, f.sizes()); diff != "" {
				t.Errorf("sizes (-want +got):\n%s", diff)
			}
			waits := slices.ContainsFunc(r.Decision.Pods, func(o scaleup.PodOutcome) bool {
				return o.Outcome == scaleup.PodsNextRound && o.Reason == test.waiting
			})
			if waits != (test.waiting != "") {
				t.Errorf("pods wait for another reason than %q: %+v", test.waiting, r.Decision.Pods)
			}
		})
	}
}

// kinds are pods that fill a node each, by the zones in which they may run.
type kinds []struct {
	zones string
	pods  int
}

func randomKinds(r *rand.Rand, groups []fake.Group) (all kinds, pods []*v1.Pod) {
	for i := range 1 + r.IntN(4) {
		zones := ""
		for _, g := range groups {
			if r.IntN(2) == 0 {
				zones += g.ID
			}
		}
		if zones == "" {
			continue
		}
		n := 1 + r.IntN(4)
		all = append(all, struct {
			zones string
			pods  int
		}{zones, n})
		pods = append(pods, onePerNode(fmt.Sprint("kind-", i), n, inZones(zones))...)
	}
	return all, pods
}

// most reports the least sum of squared sizes with which most pods run, and how many these are, by
// trying every way.
func (all kinds) most(groups []fake.Group) (placed, squares int) {
	sizes := map[string]int{}
	for _, g := range groups {
		sizes[g.ID] = g.Size
	}
	var try func(kind, left, n int)
	try = func(kind, left, n int) {
		if left == 0 && kind+1 < len(all) {
			try(kind+1, all[kind+1].pods, n)
			return
		}
		if left > 0 {
			try(kind, left-1, n) // one finds no place
			for _, g := range groups {
				if strings.Contains(all[kind].zones, g.ID) && sizes[g.ID] < g.MaxSize {
					sizes[g.ID]++
					try(kind, left-1, n+1)
					sizes[g.ID]--
				}
			}
			return
		}
		sum := 0
		for _, size := range sizes {
			sum += size * size
		}
		if n > placed || n == placed && sum < squares {
			placed, squares = n, sum
		}
	}
	try(-1, 0, 0)
	return placed, squares
}

// TestNoSplitOfKindsIsMoreEven: most pods get nodes, and no other sizes with as many are more even.
// Sizes are those that are planned before it is looked at which of the nodes the scheduler would use.
func TestNoSplitOfKindsIsMoreEven(t *testing.T) {
	checker := newChecker(t)
	random := rand.New(rand.NewPCG(11, 13))
	for i := range 400 {
		var groups []fake.Group
		for _, name := range []string{"a", "b", "c", "d"}[:2+random.IntN(3)] {
			groups = append(groups, zonal(name, 0, 1+random.IntN(6)))
		}
		all, pods := randomKinds(random, groups)
		if len(pods) == 0 || len(pods) > 7 {
			continue
		}
		f := newFleet(t, checker, fake.Config{Groups: groups}, scaleup.AsEstimated(scaleup.Options{}))
		f.round(pods...)
		placed, squares := 0, 0
		for _, size := range f.sizes() {
			placed, squares = placed+size, squares+size*size
		}
		if mostPlaced, least := all.most(groups); placed != mostPlaced || squares != least {
			t.Fatalf("case %d: %+v in %+v: sizes %v, and %d nodes with a sum of squares of %d are possible", i, all, groups, f.sizes(), mostPlaced, least)
		}
	}
}

// TestKindsWithMembersInCommonNeedFewRounds: the scheduler does not know for which pods a node was
// ordered, and may put one on it that could run elsewhere. What it would do is looked at before, so
// that all pods have a node in the end, nearly always in one round and without a node too many.
func TestKindsWithMembersInCommonNeedFewRounds(t *testing.T) {
	checker := newChecker(t)
	random := rand.New(rand.NewPCG(17, 19))
	const cases = 150
	rounds, wasteful := 0, 0
	for i := range cases {
		groups := []fake.Group{zonal("a", 0, 20), zonal("b", 0, 20), zonal("c", 0, 20), zonal("d", 0, 20)}[:3+random.IntN(2)]
		_, pods := randomKinds(random, groups)
		f := newFleet(t, checker, fake.Config{Groups: groups}, scaleup.Options{})
		ordered, grew := 0, 1
		for grew > 0 {
			grew = f.round(pods...).Grew()
			ordered += grew
			rounds += min(grew, 1)
		}
		if ordered < len(pods) {
			t.Fatalf("case %d: %d nodes for %d pods", i, ordered, len(pods))
		}
		wasteful += min(ordered-len(pods), 1)
	}
	if rounds > cases*12/10 || wasteful > cases*5/100 {
		t.Errorf("%d rounds for %d cases, of which %d ordered a node too many", rounds, cases, wasteful)
	}
}
