package plan_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/plan"
)

// drawCount draws small counts mostly, and now and then one at the end of the range.
func drawCount(t *rapid.T, label string) int64 {
	return rapid.OneOf(rapid.Int64Range(0, 20), rapid.Int64Range(0, v1alpha1.MaxCount)).Draw(t, label)
}

func drawOptional(t *rapid.T, label string) *int64 {
	if rapid.Bool().Draw(t, label+" given") {
		n := drawCount(t, label)
		return &n
	}
	return nil
}

func TestEveryValidSplitHasAnAnswerThatLosesNoNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := drawCount(t, "nodes")
		d := &v1alpha1.NodeGroupSplit{Spec: v1alpha1.NodeGroupSplitSpec{
			Nodes: &nodes,
			Policy: rapid.SampledFrom([]v1alpha1.NodeGroupSplitPolicy{"", v1alpha1.SplitEven, v1alpha1.SplitProportional,
				v1alpha1.SplitPriority}).Draw(t, "policy"),
		}}
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-e]{1,2}`), 1, 6, rapid.ID).Draw(t, "names") {
			size, most := drawCount(t, "size"), drawCount(t, "max")
			d.Spec.Groups = append(d.Spec.Groups, v1alpha1.SplitGroup{
				Name: name, Size: &size, Max: &most, Min: drawOptional(t, "min"), Weight: drawOptional(t, "weight"),
			})
		}
		if len(plan.Validate(d)) > 0 {
			return // some min above its max
		}
		status, err := plan.Answer(d)
		if err != nil {
			t.Fatalf("no answer: %v", err)
		}
		answer := status.(*v1alpha1.NodeGroupSplitStatus)
		placed := answer.Unplaced
		for i, g := range answer.Groups {
			if g.Name != d.Spec.Groups[i].Name || g.NewSize < g.Size {
				t.Fatalf("group %d became %+v", i, g)
			}
			placed += g.NewSize - g.Size
		}
		if placed != nodes {
			t.Fatalf("%d nodes became %d", nodes, placed)
		}
	})
}

func TestEveryValidDistributionHasAnAnswerThatLosesNoReplica(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		replicas := drawCount(t, "replicas")
		rebalance := rapid.Bool().Draw(t, "rebalance")
		d := &v1alpha1.ReplicaDistribution{Spec: v1alpha1.ReplicaDistributionSpec{
			Replicas: &replicas,
			Policy: rapid.SampledFrom([]v1alpha1.DistributionPolicy{"", v1alpha1.DistributeProportional, v1alpha1.DistributePriority}).Draw(t,
				"policy"),
			Rounding: rapid.SampledFrom([]v1alpha1.Rounding{"", v1alpha1.RoundLargestRemainder, v1alpha1.RoundWebster,
				v1alpha1.RoundDHondt}).Draw(t, "rounding"),
			MinMode:  rapid.SampledFrom([]v1alpha1.MinMode{"", v1alpha1.MinFloor, v1alpha1.MinAdditive}).Draw(t, "minMode"),
			Shortage: rapid.SampledFrom([]v1alpha1.Shortage{"", v1alpha1.ShortageGuaranteeMin, v1alpha1.ShortageTotalWins}).Draw(t, "shortage"),
			Pending:  rapid.SampledFrom([]v1alpha1.Pending{"", v1alpha1.PendingKeep, v1alpha1.PendingTrim}).Draw(t, "pending"),
			Relief: rapid.SampledFrom([]v1alpha1.Relief{"", v1alpha1.ReliefAny, v1alpha1.ReliefLaterOnly, v1alpha1.ReliefHealthyOnly}).Draw(t,
				"relief"),
			TieBreak:  rapid.SampledFrom([]v1alpha1.TieBreak{"", v1alpha1.TieByName, v1alpha1.TieByHash}).Draw(t, "tieBreak"),
			Rebalance: &rebalance,
		}}
		for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[a-e]{1,2}`), 0, 6, rapid.ID).Draw(t, "names") {
			d.Spec.Targets = append(d.Spec.Targets, v1alpha1.DistributionTarget{
				Name: name, Weight: drawOptional(t, "weight"), Min: drawOptional(t, "min"), Max: drawOptional(t, "max"),
				Capacity: drawOptional(t, "capacity"), Current: drawOptional(t, "current"),
			})
		}
		if len(plan.Validate(d)) > 0 {
			return // some min above its max, or LaterOnly without an order
		}
		status, err := plan.Answer(d)
		if err != nil {
			t.Fatalf("no answer: %v", err)
		}
		answer := status.(*v1alpha1.ReplicaDistributionStatus)
		running := answer.Unplaced - answer.Excess
		for _, target := range answer.Targets {
			running += target.Replicas - target.Pending
		}
		if running != replicas {
			t.Fatalf("%d replicas became %d", replicas, running)
		}
	})
}

func TestEveryValidSpreadSplitHasAnAnswerThatLosesNoPod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pods, skew, perNode := drawCount(t, "pods"), max(1, drawCount(t, "maxSkew")), max(1, drawCount(t, "podsPerNode"))
		d := &v1alpha1.SpreadSplit{Spec: v1alpha1.SpreadSplitSpec{Pods: &pods, MaxSkew: &skew, PodsPerNode: &perNode,
			ExtraNodes: drawOptional(t, "extraNodes")}}
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-e]{1,2}`), 1, 6, rapid.ID).Draw(t, "names")
		for _, name := range names {
			domain := v1alpha1.SpreadDomain{Name: name, Active: rapid.Bool().Draw(t, "active")}
			if domain.Active {
				domain.MatchingPods, domain.FreeSlots = drawOptional(t, "matchingPods"), drawOptional(t, "freeSlots")
			}
			d.Spec.Domains = append(d.Spec.Domains, domain)
			size, most := drawCount(t, "size"), drawCount(t, "max")
			d.Spec.Groups = append(d.Spec.Groups, v1alpha1.SpreadGroup{Name: name, Domain: rapid.SampledFrom(names).Draw(t, "domain"), Size: &size,
				Max: &most})
		}
		status, err := plan.Answer(d)
		if err != nil {
			t.Fatalf("no answer: %v", err)
		}
		answer := status.(*v1alpha1.SpreadSplitStatus)
		if answer.Placed+answer.Unplaced != pods || answer.Placed < 0 || answer.Unplaced == 0 && len(answer.Binding) > 0 {
			t.Fatalf("%d pods became %+v", pods, answer)
		}
		for i, g := range answer.Groups {
			if g.Name != d.Spec.Groups[i].Name || g.NewSize < g.Size || g.NewSize > max(g.Size, *d.Spec.Groups[i].Max) {
				t.Fatalf("group %d became %+v", i, g)
			}
		}
	})
}
