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
		demands = append(demands, demand{string(name), pods, 2, []v1.TopologySpreadConstraint{over(v1.LabelTopologyZone, 1)}})
	}
	return groups, demands
}

func spreadTrials() []trial {
	minimum := over(v1.LabelTopologyZone, 1)
	minimum.MinDomains = ptr.To[int32](3)
	spread := func(c ...v1.TopologySpreadConstraint) []demand { return []demand{{"m", 30, 2, c}} }
	one, two := over(v1.LabelTopologyZone, 1), over(v1.LabelTopologyZone, 2)
	many, demands := sets("cdefghijklmn", 25)
	return []trial{
		{name: "a node per zone", groups: zones("m", 20, 1, 1, 1), demands: spread(one)},
		{name: "from empty zones", groups: zones("m", 20, 0, 0, 0), demands: spread(one)},
		{name: "a node per zone with --salvo-scale-up", groups: zones("m", 20, 1, 1, 1), demands: spread(one), flags: []string{"--salvo-scale-up=true"}},
		{name: "maxSkew 2", groups: zones("m", 20, 1, 1, 1), demands: spread(two)},
		{name: "minDomains 3", groups: zones("m", 20, 0, 0, 0), demands: spread(minimum)},
		{name: "zone and hostname", groups: zones("m", 20, 1, 1, 1), demands: []demand{{"m", 12, 1, []v1.TopologySpreadConstraint{one, over(v1.LabelHostname, 1)}}}},
		{name: "two workloads", groups: slices.Concat(zones("m", 20, 1, 1, 1), zones("r", 20, 1, 1, 1)), demands: []demand{
			{"m", 18, 2, []v1.TopologySpreadConstraint{one}}, {"r", 12, 2, []v1.TopologySpreadConstraint{two}},
		}},
		{name: "300 pods on 12 sets", groups: many, demands: demands},
	}
}

// Pods with a zone spread run as soon through the sidecar as with a stock autoscaler alone, but for
// one loop per member, with one increase per member.
func TestStockAutoscalerSpreadsPods(t *testing.T) {
	autoscaler.Binary(t)
	for _, c := range spreadTrials() {
		c.boot = 25 * time.Second
		t.Run(c.name, func(t *testing.T) {
			took := map[bool]time.Duration{}
			for _, balanced := range []bool{false, true} {
				ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
				w := newWorld(ctx, t, c, balanced)
				w.play(ctx, t)
				w.tell(ctx, t)
				took[balanced] = w.ran.Sub(w.began)
				t.Logf("sidecar %t: all pods ran after %.0fs, %d increases of the cloud", balanced, took[balanced].Seconds(), len(autoscaler.Increases(w.ordered.Calls())))
				if balanced && len(autoscaler.Increases(w.ordered.Calls())) > len(c.groups) {
					t.Errorf("more increases than the %d members", len(c.groups))
				}
				cancel()
			}
			if limit := took[false] + time.Duration(len(c.groups))*11*time.Second; took[true] > limit {
				t.Errorf("with the sidecar all pods ran after %s, want %s at most", took[true], limit)
			}
		})
	}
}
