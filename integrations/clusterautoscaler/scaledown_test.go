package clusterautoscaler

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown/actuation"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown/budgets"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown/deletiontracker"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodes"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot/testsnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/taints"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/test"
)

// fataler is *testing.T and *rapid.T.
type fataler interface{ Fatalf(string, ...any) }

// downGroup is a group of a test. Names of nodes are those of groups with a number: b-3.
type downGroup struct {
	name, set string
	size, min int
	going     int // nodes on their way out, empty
	draining  int // and with pods
	whole     bool
}

// downCluster is what a scale-down processor decides on.
type downCluster struct {
	ctx      *ca_context.AutoscalingContext
	down     *nodes.ScaleDownContext
	provider *testprovider.TestCloudProvider
	clock    *clocktesting.FakePassiveClock
	balancer *Balancer
	nodes    map[string]*v1.Node
}

func newDownCluster(t fataler, deferral time.Duration, groups ...downGroup) *downCluster {
	c := &downCluster{
		clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)), nodes: map[string]*v1.Node{},
		provider: testprovider.NewTestCloudProviderBuilder().WithNodeProcessingError([]string{"lost-0"}).Build(),
	}
	setOf := map[string]string{}
	status := deletiontracker.NewNodeDeletionTracker(0)
	snapshot := testsnapshot.NewTestSnapshotOrDie(t)
	for _, g := range groups {
		if g.set != "" {
			setOf[g.name] = g.set
		}
		c.provider.AddNodeGroupWithCustomOptions(g.name, g.min, 1000, g.size, &config.NodeGroupAutoscalingOptions{ZeroOrMaxNodeScaling: g.whole})
		for i := range g.size {
			node := test.BuildTestNode(fmt.Sprintf("%s-%d", g.name, i), 1000, 1000)
			node.Spec.ProviderID = node.Name
			c.provider.AddNode(g.name, node)
			c.nodes[node.Name] = node
			if err := snapshot.AddNodeInfo(framework.NewTestNodeInfo(node)); err != nil {
				t.Fatalf("snapshot: %v", err)
			}
		}
		for i := range g.going {
			status.StartDeletion(g.name, fmt.Sprintf("%s-%d", g.name, g.size-1-i))
		}
		for i := range g.draining {
			status.StartDeletionWithDrain(g.name, fmt.Sprintf("%s-%d", g.name, g.size-1-g.going-i))
		}
	}
	c.ctx = &ca_context.AutoscalingContext{CloudProvider: c.provider, ClusterSnapshot: snapshot}
	c.ctx.MaxScaleDownParallelism, c.ctx.MaxDrainParallelism = 10, 1
	c.ctx.ScaleDownActuator = actuation.NewActuator(c.ctx, nil, status, options.NodeDeleteOptions{}, nil, nil)
	c.down = &nodes.ScaleDownContext{ActuationStatus: status}
	balancer, err := New(config.AutoscalingOptions{}, Options{MaxBalanceDeferral: &deferral, Clock: c.clock})
	if err != nil {
		t.Fatalf("balancer: %v", err)
	}
	learn(balancer, c.ctx, setOf)
	c.balancer = balancer
	return c
}

// removable makes candidates of words such as "b-3", "b-3!" with pods to move, "b-3?" risky too,
// "b-3~" with pods to run to completion.
func (c *downCluster) removable(words ...string) []simulator.NodeToBeRemoved {
	var out []simulator.NodeToBeRemoved
	for _, word := range words {
		name := strings.TrimRight(word, "!?~")
		node := c.nodes[name]
		if node == nil {
			node = test.BuildTestNode(name, 1000, 1000)
		}
		r := simulator.NodeToBeRemoved{Node: node}
		switch {
		case strings.HasSuffix(word, "?"):
			r.IsRisky = true
			fallthrough
		case strings.HasSuffix(word, "!"):
			r.PodsToReschedule = []*v1.Pod{{}}
		case strings.HasSuffix(word, "~"):
			r.OnCompletionPods = []*v1.Pod{{}}
		}
		out = append(out, r)
	}
	return out
}

func names(removable []simulator.NodeToBeRemoved) string {
	var out []string
	for _, r := range removable {
		out = append(out, r.Node.Name)
	}
	return strings.Join(out, " ")
}

func reasons(unremovable []simulator.UnremovableNode) map[string]simulator.UnremovableReason {
	out := map[string]simulator.UnremovableReason{}
	for _, u := range unremovable {
		out[u.Node.Name] = u.Reason
	}
	return out
}

func TestWhichNodesGo(t *testing.T) {
	const count, partly = simulator.NodeGroupMaxDeletionCountReached, simulator.AtomicScaleDownFailed
	three := func(a, b, c int) []downGroup {
		return []downGroup{{name: "a", set: "a", size: a}, {name: "b", set: "a", size: b}, {name: "c", set: "a", size: c}}
	}
	for name, test := range map[string]struct {
		groups      []downGroup
		candidates  []string
		nodes       int // 10 when 0
		drains      int // 1 when 0
		goes        string
		unremovable map[string]simulator.UnremovableReason
	}{
		"others wait for the largest": {
			groups: three(5, 3, 3), candidates: []string{"b-0", "a-1"}, goes: "a-1",
			unremovable: map[string]simulator.UnremovableReason{"b-0": count}},
		"a group reaches its min": {
			groups: []downGroup{{name: "x", size: 3, min: 2}}, candidates: []string{"x-0", "x-1"}, goes: "x-0",
			unremovable: map[string]simulator.UnremovableReason{"x-1": simulator.NodeGroupMinSizeReached}},
		"empty ones before others, these before risky ones": {
			groups: []downGroup{{name: "x", size: 9}}, candidates: []string{"x-1?", "x-2!", "x-3"}, drains: 5, goes: "x-3 x-2 x-1"},
		"the parallel limit": {
			groups: three(3, 3, 3), candidates: []string{"a-0", "b-0", "c-0"}, nodes: 2, goes: "c-0 b-0",
			unremovable: map[string]simulator.UnremovableReason{"a-0": count}},
		"the limit less what is going": {
			groups:     []downGroup{{name: "x", size: 9, going: 1, draining: 1}},
			candidates: []string{"x-0", "x-1", "x-2"}, nodes: 4, drains: 3, goes: "x-0 x-1",
			unremovable: map[string]simulator.UnremovableReason{"x-2": count}},
		"the drain limit": {
			groups: []downGroup{{name: "x", size: 9}}, candidates: []string{"x-0!", "x-1!", "x-2"}, goes: "x-2 x-0",
			unremovable: map[string]simulator.UnremovableReason{"x-1": count}},
		"groups that are all or nothing stay whole": {
			groups: []downGroup{{name: "a", set: "a", size: 2}, {name: "b", set: "a", size: 2}, {name: "w", set: "a", size: 4, whole: true},
				{name: "v", size: 3, whole: true}},
			candidates: []string{"w-0", "w-1", "w-2", "w-3", "a-0", "v-1"}, nodes: 5, goes: "a-0 w-0 w-1 w-2 w-3",
			unremovable: map[string]simulator.UnremovableReason{"v-1": partly}},
		"and leave what the crop leaves": {
			groups:     []downGroup{{name: "a", size: 2}, {name: "w", size: 4, whole: true}},
			candidates: []string{"w-0", "w-1", "w-2", "w-3", "a-0", "a-1"}, nodes: 5, goes: "a-0 w-0 w-1 w-2 w-3",
			unremovable: map[string]simulator.UnremovableReason{"a-1": count}},
		"nodes that run pods to completion are neither counted nor waited for": {
			groups: three(3, 3, 3), candidates: []string{"c-0~", "c-1", "b-0"}, nodes: 2, goes: "c-1 b-0 c-0"},
		"errors of some stop no others": {
			groups:     []downGroup{{name: "a", set: "a", size: 2}, {name: "b", set: "a", size: 2}, {name: "lost", size: 1}},
			candidates: []string{"a-0", "b-0", "lost-0", "stranger-0"}, goes: "b-0 a-0",
			unremovable: map[string]simulator.UnremovableReason{"lost-0": simulator.UnexpectedError, "stranger-0": simulator.NotAutoscaled}},
	} {
		t.Run(name, func(t *testing.T) {
			c := newDownCluster(t, time.Hour, test.groups...)
			c.ctx.MaxScaleDownParallelism, c.ctx.MaxDrainParallelism = cmp.Or(test.nodes, 10), cmp.Or(test.drains, 1)
			processor := c.balancer.scaleDownSet(nodes.NewAtomicResizeFilteringProcessor())
			goes, stay := processor.FilterUnremovableNodes(c.ctx, c.down, c.removable(test.candidates...))
			if got := names(goes); got != test.goes {
				t.Errorf("goes %q, want %q", got, test.goes)
			}
			if diff := gocmp.Diff(test.unremovable, reasons(stay)); diff != "" && len(test.unremovable)+len(stay) > 0 {
				t.Errorf("the others (-want +got):\n%s", diff)
			}
		})
	}
}

// A set is no more level with a node that is not ready than without it.
func TestUnreadyNodesAreNeverDeferred(t *testing.T) {
	c := newDownCluster(t, time.Hour, downGroup{name: "a", set: "a", size: 5}, downGroup{name: "b", set: "a", size: 3})
	for name, ready := range map[string]bool{"b-0": true, "b-1": false} {
		test.SetNodeReadyState(c.nodes[name], ready, c.clock.Now())
	}
	processor := c.balancer.scaleDownSet(nodes.NewAtomicResizeFilteringProcessor())
	goes, _ := processor.FilterUnremovableNodes(c.ctx, c.down, c.removable("b-0", "b-1", "b-2"))
	if got := names(goes); got != "b-1" {
		t.Errorf("%q goes, want the unready one alone", got)
	}
}

// What an autoscaler before this one has seen of a wait is in the taint of the node.
func TestDeferralSurvivesARestart(t *testing.T) {
	for name, c := range map[string]struct {
		unneeded time.Duration // since the start
		want     string
	}{
		"could have gone long before":        {-time.Hour, "b-0"},
		"could have gone for a while":        {-15 * time.Minute, ""},
		"could go only afterwards":           {time.Minute, ""},
		"of a clock that is ahead":           {24 * time.Hour, ""},
		"waited as long as it may, just now": {-20 * time.Minute, "b-0"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDownCluster(t, 10*time.Minute, downGroup{name: "a", set: "a", size: 5}, downGroup{name: "b", set: "a", size: 3})
			d.ctx.NodeGroupDefaults.ScaleDownUnneededTime = 10 * time.Minute
			d.nodes["b-0"].Spec.Taints = []v1.Taint{{
				Key: taints.DeletionCandidateTaintKey, Effect: v1.TaintEffectPreferNoSchedule,
				Value: strconv.FormatInt(d.clock.Now().Add(c.unneeded).Unix(), 10),
			}}
			processor := d.balancer.scaleDownSet(nodes.NewAtomicResizeFilteringProcessor())
			processor.FilterUnremovableNodes(d.ctx, d.down, d.removable("b-0"))
			d.clock.SetTime(d.clock.Now().Add(time.Second))
			goes, _ := processor.FilterUnremovableNodes(d.ctx, d.down, d.removable("b-0"))
			if got := names(goes); got != c.want {
				t.Errorf("%q goes, want %q", got, c.want)
			}
		})
	}
}

// downCase is a random cluster with candidates.
type downCase struct {
	groups     []downGroup
	candidates []string
	limits     [2]int
}

func drawDownCase(t *rapid.T) downCase {
	var out downCase
	for _, name := range []string{"a", "b", "c", "d", "x", "w"} {
		g := downGroup{name: name, size: rapid.IntRange(0, 8).Draw(t, name), min: rapid.IntRange(0, 3).Draw(t, "min"), whole: name == "w"}
		if name < "e" {
			g.set = rapid.SampledFrom([]string{"a", "c"}).Draw(t, "set")
		}
		out.groups = append(out.groups, g)
		for i := range g.size {
			kind := rapid.SampledFrom([]string{"", "!", "?", "~", "-", "-", "-"}).Draw(t, "node")
			if kind != "-" && (g.whole || i >= g.min) {
				out.candidates = append(out.candidates, fmt.Sprintf("%s-%d%s", name, i, kind))
			}
		}
	}
	out.limits = [2]int{rapid.IntRange(0, 12).Draw(t, "nodes"), rapid.IntRange(0, 4).Draw(t, "drains")}
	return out
}

func (d downCase) cluster(t fataler) *downCluster {
	c := newDownCluster(t, 10*time.Minute, d.groups...)
	c.ctx.MaxScaleDownParallelism, c.ctx.MaxDrainParallelism = d.limits[0], d.limits[1]
	return c
}

// What evenkeel lets go the autoscaler's crop leaves as it is.
func TestTheCropCutsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		test := drawDownCase(t)
		c := test.cluster(t)
		goes, _ := c.balancer.scaleDownSet(nodes.NewAtomicResizeFilteringProcessor()).FilterUnremovableNodes(c.ctx, c.down,
			c.removable(test.candidates...))
		checkCrop(t, c, goes)
	})
}

// checkCrop fails if the autoscaler's crop would cut a node whose group is not all or nothing.
func checkCrop(t *rapid.T, c *downCluster, goes []simulator.NodeToBeRemoved) {
	var empty, drain []*v1.Node
	passed, whole := 0, 0
	for _, node := range goes {
		switch {
		case len(node.OnCompletionPods) > 0:
			continue
		case needsDrain(node):
			drain = append(drain, node.Node)
		default:
			empty = append(empty, node.Node)
		}
		if strings.HasPrefix(node.Node.Name, "w") {
			whole++
		} else {
			passed++
		}
	}
	emptyViews, drainViews := budgets.NewScaleDownBudgetProcessor(c.ctx).CropNodes(c.down.ActuationStatus, empty, drain)
	cropped := 0
	for _, view := range slices.Concat(emptyViews, drainViews) {
		if view.Group.Id() != "w" {
			cropped += len(view.Nodes)
		}
	}
	if cropped != passed {
		t.Fatalf("of %d nodes that go, and %d in a whole group, the crop leaves %d", passed, whole, cropped)
	}
}
