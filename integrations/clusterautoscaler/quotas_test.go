package clusterautoscaler

import (
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/expander"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupset"
	"sigs.k8s.io/cluster-autoscaler/pkg/resourcequotas"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot/testsnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/test"
)

// town is similar groups in zones a, b and c with their nodes, and a scale-up in it as the
// autoscaler prepares it.
type town struct {
	*cloudInLoops
	groups  []cloudprovider.NodeGroup
	nodes   []*v1.Node
	options coreoptions.AutoscalerOptions
	tracker *resourcequotas.Tracker // the autoscaler's own
}

func newTown(t rapid.TB, snapshot clustersnapshot.ClusterSnapshot, sizes []int, quotas resourcequotas.Provider) *town {
	t.Helper()
	w := &town{cloudInLoops: newCloud()}
	for i, size := range sizes {
		id := fmt.Sprintf("group-%d", i)
		inZone := func(n *v1.Node) {
			n.Labels[zoneLabel] = string(rune('a' + i%3))
			n.Status.Capacity[v1.ResourceMemory] = *resource.NewQuantity(16<<30+int64(i)<<20, resource.BinarySI)
		}
		w.group(id, "one", inZone)
		group := w.GetNodeGroup(id)
		group.(*testprovider.TestNodeGroup).SetTargetSize(size)
		w.groups = append(w.groups, group)
		for k := range size {
			node := test.BuildTestNode(fmt.Sprintf("%s-%d", id, k), 4000, 16<<30)
			inZone(node)
			w.AddNode(id, node)
			w.nodes = append(w.nodes, node)
		}
	}
	w.nodes = append(w.nodes, test.BuildTestNode("of-no-group", 8000, 1<<30))
	if err := snapshot.SetClusterState(w.nodes, nil, nil, nil); err != nil {
		t.Fatal(err)
	}
	w.ctx.ClusterSnapshot = snapshot
	w.options = coreoptions.AutoscalerOptions{
		CloudProvider: w, Processors: processors.DefaultProcessors(config.AutoscalingOptions{}), ExpanderStrategy: choice("group-0"),
	}
	w.options.QuotasTrackerOptions.QuotaProvider = quotas
	if err := balancer(t).Install(&w.options); err != nil {
		t.Fatal(err)
	}
	w.ctx.ExpanderStrategy = w.options.ExpanderStrategy
	from := w.options.Processors.NodeGroupSetProcessor.(*groupSet).quotas.from()
	w.tracker, _ = resourcequotas.NewTrackerFactory(from).NewMaxQuotasTracker(w.ctx, w.nodes)
	return w
}

// allowed is what the quotas leave for a group, in the eyes of the autoscaler.
func (w *town) allowed(t rapid.TB, group cloudprovider.NodeGroup, nodes int) int {
	t.Helper()
	result, err := w.tracker.CheckQuota(w.ctx, group, w.templates[group.Id()].Node(), nodes)
	if err != nil {
		t.Fatal(err)
	}
	return result.AllowedDelta
}

// scaleUp does what the autoscaler does from the choice of the first group to the plan that it cuts
// by the quotas.
func (w *town) scaleUp(t rapid.TB, processor nodegroupset.NodeGroupSetProcessor, need int) (asked int, infos []nodegroupset.ScaleUpInfo) {
	t.Helper()
	chosen := w.groups[0]
	if _, err := processor.FindSimilarNodeGroups(w.ctx, chosen, w.templates); err != nil { // of every option, before the choice
		t.Fatal(err)
	}
	w.ctx.ExpanderStrategy.BestOption([]expander.Option{{NodeGroup: chosen, NodeCount: need}}, w.templates)
	asked = need
	if w.ctx.MaxNodesTotal > 0 {
		asked = min(asked, w.ctx.MaxNodesTotal-len(w.nodes))
	}
	asked = w.allowed(t, chosen, max(0, asked))
	if asked < 1 {
		return 0, nil
	}
	partners, err := processor.FindSimilarNodeGroups(w.ctx, chosen, w.templates)
	if err != nil {
		t.Fatal(err)
	}
	groups := []cloudprovider.NodeGroup{chosen}
	for _, partner := range partners {
		if w.allowed(t, partner, 1) == 1 {
			groups = append(groups, partner)
		}
	}
	if infos, err = processor.BalanceScaleUpBetweenGroups(w.ctx, groups, asked); err != nil {
		t.Fatal(err)
	}
	return asked, infos
}

// cut consumes the quotas as the autoscaler does and says how many nodes of a plan are left, and
// how many are cut.
func (w *town) cut(t rapid.TB, infos []nodegroupset.ScaleUpInfo) (left, lost int) {
	t.Helper()
	for _, info := range infos {
		delta := info.NewSize - info.CurrentSize
		allowed := w.allowed(t, info.Group, delta)
		if _, err := w.tracker.ConsumeQuota(w.ctx, info.Group, w.templates[info.Group.Id()].Node(), allowed); err != nil {
			t.Fatal(err)
		}
		left, lost = left+allowed, lost+delta-allowed
	}
	return left, lost
}

func drawQuotas(t *rapid.T) (list []resourcequotas.Quota, nodesOnly bool) {
	draw := func(name, resource string, applies func(*v1.Node) bool, unit int64) {
		if rapid.Bool().Draw(t, name+" "+resource) {
			limit := unit * int64(rapid.IntRange(0, 30).Draw(t, "limit"))
			list = append(list, &resourcequotas.FakeQuota{Name: name, LimitsVal: map[string]int64{resource: limit}, AppliesToFn: applies})
		}
	}
	for _, zone := range []string{"a", "b", "c"} {
		inZone := func(n *v1.Node) bool { return n.Labels[zoneLabel] == zone }
		draw("zone-"+zone, "nodes", inZone, 1)
	}
	draw("all", "nodes", resourcequotas.MatchEveryNode, 2)
	if nodesOnly = rapid.Bool().Draw(t, "nodes only"); !nodesOnly {
		draw("all-cores", "cpu", resourcequotas.MatchEveryNode, 8)
		draw("all-memory", "memory", resourcequotas.MatchEveryNode, 32<<30)
		draw("a-and-b", "memory", func(n *v1.Node) bool { return n.Labels[zoneLabel] < "c" }, 16<<30)
	}
	return list, nodesOnly
}

// TestNothingIsOverOrderedAndNothingCut has the autoscaler's own tracker as the judge.
func TestNothingIsOverOrderedAndNothingCut(t *testing.T) {
	snapshot := testsnapshot.NewTestSnapshotOrDie(t)
	rapid.Check(t, func(t *rapid.T) {
		sizes := rapid.SliceOfN(rapid.IntRange(0, 6), 1, 7).Draw(t, "sizes")
		list, nodesOnly := drawQuotas(t)
		need := rapid.IntRange(1, 40).Draw(t, "need")
		most := rapid.IntRange(0, 60).Draw(t, "max nodes")
		build := func() *town {
			w := newTown(t, snapshot, sizes, resourcequotas.NewFakeProvider(list))
			w.ctx.MaxNodesTotal = most
			return w
		}
		ours := build()
		asked, infos := ours.scaleUp(t, ours.options.Processors.NodeGroupSetProcessor, need)
		left, lost := ours.cut(t, infos)
		switch {
		case lost > 0:
			t.Fatalf("the autoscaler cuts %d nodes of %v", lost, infos)
		case left > need:
			t.Fatalf("%d nodes are ordered, %d needed: %v", left, need, infos)
		case asked > 0 && most > 0 && left+len(ours.nodes) > most:
			t.Fatalf("%d nodes are ordered beside %d, %d may be: %v", left, len(ours.nodes), most, infos)
		}
		theirs := build()
		upstream := nodegroupset.NewDefaultNodeGroupSetProcessor([]string{zoneLabel}, config.NewDefaultNodeGroupDifferenceRatios())
		_, plan := theirs.scaleUp(t, upstream, need)
		if before, _ := theirs.cut(t, plan); nodesOnly && left < before {
			t.Fatalf("%d nodes are ordered, without evenkeel %d: %v, %v", left, before, infos, plan)
		}
	})
}

func TestUnreadableQuotasAreLeftToTheAutoscaler(t *testing.T) {
	w := newTown(t, testsnapshot.NewTestSnapshotOrDie(t), []int{1, 1, 1},
		resourcequotas.NewFailingProvider(errors.New("no quota can be read")))
	processor := w.options.Processors.NodeGroupSetProcessor
	if _, err := processor.FindSimilarNodeGroups(w.ctx, w.groups[0], w.templates); err != nil {
		t.Fatal(err)
	}
	w.ctx.ExpanderStrategy.BestOption([]expander.Option{{NodeGroup: w.groups[0], NodeCount: 9}}, w.templates)
	infos, err := processor.BalanceScaleUpBetweenGroups(w.ctx, w.groups, 3)
	if err != nil || len(infos) != 3 {
		t.Errorf("%v, %v; want one node for each group, as asked", infos, err)
	}
}

// TestTheNeedHoldsForOneSplit: the autoscaler may split again, for another reason, before it
// chooses again.
func TestTheNeedHoldsForOneSplit(t *testing.T) {
	w := newTown(t, testsnapshot.NewTestSnapshotOrDie(t), []int{0, 0}, resourcequotas.NewFakeProvider(nil))
	processor := w.options.Processors.NodeGroupSetProcessor
	if _, err := processor.FindSimilarNodeGroups(w.ctx, w.groups[0], w.templates); err != nil {
		t.Fatal(err)
	}
	w.ctx.ExpanderStrategy.BestOption([]expander.Option{{NodeGroup: w.groups[0], NodeCount: 6}}, w.templates)
	for _, want := range []int{6, 2} {
		infos, err := processor.BalanceScaleUpBetweenGroups(w.ctx, w.groups, 2)
		if err != nil {
			t.Fatal(err)
		}
		if left, _ := w.cut(t, infos); left != want {
			t.Errorf("%d nodes, want %d", left, want)
		}
	}
}

func TestLimitsBeyondAllNumbers(t *testing.T) {
	w := newTown(t, testsnapshot.NewTestSnapshotOrDie(t), []int{1, 1}, resourcequotas.NewFakeProvider([]resourcequotas.Quota{
		&resourcequotas.FakeQuota{Name: "none", AppliesToFn: resourcequotas.MatchEveryNode,
			LimitsVal: map[string]int64{"cpu": 1<<63 - 1, "memory": 1<<63 - 1, "x": -5}},
	}))
	if _, infos := w.scaleUp(t, w.options.Processors.NodeGroupSetProcessor, 4); len(infos) != 2 {
		t.Errorf("%v", infos)
	}
}
