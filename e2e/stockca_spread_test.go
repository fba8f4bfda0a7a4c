package e2e

import (
	"context"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/e2e/autoscaler"
)

// over is a hard spread constraint.
func over(key string, skew int32) v1.TopologySpreadConstraint {
	return v1.TopologySpreadConstraint{MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: v1.DoNotSchedule}
}

// sets are the groups of so many sets of three zones, and a demand of pods that are spread for each.
func sets(names string, pods int) (groups []group, demands []demand) {
	for _, name := range names {
		groups = append(groups, zones(string(name), 20, 0, 0, 0)...)
		demands = append(demands, demand{machine: string(name), pods: pods, perNode: 2,
			spread: []v1.TopologySpreadConstraint{over(v1.LabelTopologyZone, 1)}})
	}
	return groups, demands
}

// spreadTrial is a trial with the sizes that the sidecar has to come to in each set, in any order.
type spreadTrial struct {
	trial
	want []int64
}

func spreadTrials() []spreadTrial {
	minimum := over(v1.LabelTopologyZone, 1)
	minimum.MinDomains = ptr.To[int32](3)
	spread := func(pods int, c ...v1.TopologySpreadConstraint) []demand {
		return []demand{{machine: "m", pods: pods, perNode: 2, spread: c}}
	}
	one, two := over(v1.LabelTopologyZone, 1), over(v1.LabelTopologyZone, 2)
	many, demands := sets("cdefghijklmn", 25)
	limited := zones("m", 20, 1, 1, 1)
	limited[2].max = 3
	return []spreadTrial{
		{trial{name: "a node per zone", groups: zones("m", 20, 1, 1, 1), demands: spread(30, one)}, []int64{6, 6, 6}},
		{trial{name: "from empty zones", groups: zones("m", 20, 0, 0, 0), demands: spread(30, one)}, []int64{5, 5, 5}},
		{trial{name: "maxSkew 2", groups: zones("m", 20, 1, 1, 1), demands: spread(30, two)}, []int64{6, 6, 6}},
		{trial{name: "minDomains 3", groups: zones("m", 20, 0, 0, 0), demands: spread(30, minimum)}, []int64{5, 5, 5}},
		{trial{name: "zone and hostname", groups: zones("m", 20, 1, 1, 1),
			demands: []demand{{machine: "m", pods: 12, perNode: 1, spread: []v1.TopologySpreadConstraint{one, over(v1.LabelHostname, 1)}}}},
			[]int64{5, 5, 5}},
		{trial{name: "two workloads", groups: slices.Concat(zones("m", 20, 1, 1, 1), zones("r", 20, 1, 1, 1)), demands: []demand{
			{machine: "m", pods: 18, perNode: 2, spread: []v1.TopologySpreadConstraint{one}},
			{machine: "r", pods: 12, perNode: 2, spread: []v1.TopologySpreadConstraint{two}},
		}}, nil},
		{trial{name: "a zone at its maximum", groups: limited, demands: spread(14, one)}, []int64{3, 4, 4}},
		{trial{name: "a zone that is too small", groups: limited, demands: spread(30, one), stuck: 16}, []int64{3, 4, 4}},
		{trial{name: "default constraints of the profile", groups: zones("m", 20, 1, 1, 1), demands: spread(30),
			defaults: []v1.TopologySpreadConstraint{one}}, []int64{6, 6, 6}},
		{trial{name: "9 free and 1 pinned", groups: zones("m", 20, 0, 0, 0), demands: []demand{{machine: "m", pods: 9, perNode: 1}}, pinned: 1},
			nil},
		{trial{name: "300 pods on 12 sets", groups: many, demands: demands}, []int64{4, 4, 5}},
	}
}

// Pods with a zone spread run as soon through the sidecar as with a stock autoscaler alone, but for
// one loop per member, and in the sizes of the exact plan. With --salvo-scale-up the autoscaler orders nodes
// too many by itself.
func TestStockAutoscalerSpreadsPods(t *testing.T) {
	autoscaler.Binary(t)
	for _, s := range spreadTrials() {
		for _, c := range boots(comparison{trial: s.trial, check: s.check}) {
			t.Run(c.name, func(t *testing.T) { t.Parallel(); c.neverLater(t) })
		}
		salvo := comparison{trial: s.trial}
		salvo.name, salvo.boot, salvo.flags = s.name+" with salvo", 20*time.Second, []string{"--salvo-scale-up"}
		t.Run(salvo.name, func(t *testing.T) { t.Parallel(); salvo.neverLater(t) })
	}
}

// check holds the sizes of the sets against those that are wanted.
func (s *spreadTrial) check(_ context.Context, t *testing.T, w *trialRun) {
	t.Helper()
	targets := w.targets()
	for i := 0; i < len(s.groups) && s.want != nil; i += 3 {
		got := []int64{targets[s.groups[i].name], targets[s.groups[i+1].name], targets[s.groups[i+2].name]}
		if slices.Sort(got); !slices.Equal(got, s.want) {
			t.Errorf("the set of %s has sizes %v, want %v", s.groups[i].name, got, s.want)
		}
	}
}
