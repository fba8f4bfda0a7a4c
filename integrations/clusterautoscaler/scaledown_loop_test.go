package clusterautoscaler

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown/budgets"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown/deletiontracker"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaledown/planner"
	catest "sigs.k8s.io/cluster-autoscaler/pkg/core/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/scaledowncandidates"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/scaledowncandidates/emptycandidates"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/scaledowncandidates/previouscandidates"
	processorstest "sigs.k8s.io/cluster-autoscaler/pkg/processors/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/resourcequotas"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/test"
)

// descents is how many clusters shrink in TestScaleDownKeepsSetsLevel.
var descents = flag.Int("descents", 60, "how many random clusters are shrunk by the real planner")

// descent is a cluster whose load has fallen and an autoscaler's real planner that shrinks it, in
// virtual time. Deletions are done at once; pods of drained nodes are placed anew by the real
// predicates.
type descent struct {
	t          *testing.T
	random     *rand.Rand
	provider   *testprovider.TestCloudProvider
	ctx        ca_context.AutoscalingContext
	processors *processors.AutoscalingProcessors
	planner    *planner.Planner
	clock      *clocktesting.FakePassiveClock
	nodes      map[string]*v1.Node
	pods       map[string]*v1.Pod
	status     *deletiontracker.NodeDeletionTracker
	interval   time.Duration

	removed, homeless int
	loops, idle       int // idle: since the last node went
}

// descentGroup is a node group of a descent. All of its nodes have some pods, or the idle ones none
// and the others so many that they are needed.
type descentGroup struct{ size, min, idle int }

// newDescent is a cluster of 10/10/10 whose load has fallen at random.
func newDescent(t *testing.T, seed uint64, deferral *time.Duration) *descent {
	t.Helper()
	d := startDescent(t, seed, 2*time.Minute, []descentGroup{{size: 10}, {size: 10}, {size: 10}})
	for _, name := range sortedNames(d.nodes) {
		d.load(d.nodes[name])
	}
	d.autoscaler(deferral)
	return d
}

// startDescent makes the nodes of a descent.
func startDescent(t *testing.T, seed uint64, interval time.Duration, groups []descentGroup) *descent {
	t.Helper()
	d := &descent{
		t: t, random: rand.New(rand.NewPCG(seed, 7)), clock: clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)),
		nodes: map[string]*v1.Node{}, pods: map[string]*v1.Pod{}, status: deletiontracker.NewNodeDeletionTracker(0), interval: interval,
	}
	d.provider = testprovider.NewTestCloudProviderBuilder().WithOnScaleDown(func(string, string) error { return nil }).Build()
	for i, group := range groups {
		zone := string(rune('a' + i))
		d.provider.AddNodeGroup("group-"+zone, group.min, 20, group.size)
		for n := range group.size {
			node := test.BuildTestNode(fmt.Sprintf("group-%s-%02d", zone, n), 4000, 16<<30,
				test.WithNodeLabels(map[string]string{"topology.kubernetes.io/zone": zone}))
			test.SetNodeReadyState(node, true, time.Time{})
			d.provider.AddNode("group-"+zone, node)
			d.nodes[node.Name] = node
		}
	}
	return d
}

// balance puts evenkeel into the autoscaler.
func (d *descent) balance(deferral time.Duration) {
	setOf := map[string]string{}
	for _, group := range d.provider.NodeGroups() {
		setOf[group.Id()] = "one"
	}
	b, err := New(config.AutoscalingOptions{}, Options{MaxBalanceDeferral: &deferral, Clock: d.clock})
	if err != nil {
		d.t.Fatal(err)
	}
	learn(b, &d.ctx, setOf)
	d.processors.ScaleDownSetProcessor = b.scaleDownSet(d.processors.ScaleDownSetProcessor)
	d.processors.ScaleDownNodeProcessor = b.scaleDownCandidates(d.processors.ScaleDownNodeProcessor)
}

// load fills a node with pods up to 60 to 95 % and takes two of three away again.
func (d *descent) load(node *v1.Node) {
	sizes := []int64{100, 250, 500, 1000}
	full := 2400 + d.random.Int64N(1400)
	for used := int64(0); used < full; {
		cpu := sizes[d.random.IntN(len(sizes))]
		used += cpu
		if used > 4000 || d.random.IntN(3) > 0 {
			continue
		}
		pod := test.BuildScheduledTestPod(fmt.Sprintf("pod-%03d", len(d.pods)), cpu, cpu<<20, node.Name)
		test.SetRSPodSpec(pod, "rs")
		d.pods[pod.Name] = pod
	}
}

// autoscaler makes the real planner and its processors, with evenkeel unless the deferral is nil.
func (d *descent) autoscaler(deferral *time.Duration) {
	o := config.AutoscalingOptions{
		NodeGroupDefaults: config.NodeGroupAutoscalingOptions{
			ScaleDownUtilizationThreshold: 0.5, ScaleDownUnneededTime: 10 * time.Minute, ScaleDownUnreadyTime: 20 * time.Minute},
		ScaleDownSimulationTimeout: time.Hour, UnremovableNodeRecheckTimeout: 5 * time.Minute,
		MaxScaleDownParallelism: 10, MaxDrainParallelism: 1,
	}
	var registry ca_context.TemplateNodeInfoRegistry
	d.processors, registry = processorstest.NewTestProcessors(o)
	var err error
	d.ctx, err = catest.NewScaleTestAutoscalingContext(o, &fake.Clientset{}, nil, d.provider, nil, nil, registry)
	if err != nil {
		d.t.Fatal(err)
	}
	previous := previouscandidates.NewPreviousCandidates()
	d.processors.ScaleDownCandidatesNotifier.Register(previous)
	combined := scaledowncandidates.NewCombinedScaleDownCandidatesProcessor()
	combined.Register(scaledowncandidates.NewScaleDownCandidatesSortingProcessor([]scaledowncandidates.CandidatesComparer{
		emptycandidates.NewEmptySortingProcessor(emptycandidates.NewNodeInfoGetter(d.ctx.ClusterSnapshot), options.NodeDeleteOptions{}, nil),
		previous,
	}))
	d.processors.ScaleDownNodeProcessor = combined
	if deferral != nil {
		d.balance(*deferral)
	}
	quota := resourcequotas.NewTrackerFactory(resourcequotas.TrackerOptions{
		CustomResourcesProcessor: d.processors.CustomResourcesProcessor, QuotaProvider: resourcequotas.NewCloudMinProvider(d.provider)})
	d.planner = planner.New(&d.ctx, d.processors, options.NodeDeleteOptions{}, nil, quota)
}

// loop is one loop of the autoscaler, as far as scale-down goes.
func (d *descent) loop() {
	now := d.clock.Now().Add(d.interval)
	d.clock.SetTime(now)
	all := make([]*v1.Node, 0, len(d.nodes))
	for _, name := range sortedNames(d.nodes) {
		all = append(all, d.nodes[name])
	}
	d.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] }) // the lister's order is that of a map
	pods := make([]*v1.Pod, 0, len(d.pods))
	for _, name := range sortedNames(d.pods) {
		pods = append(pods, d.pods[name])
	}
	clustersnapshot.InitializeClusterSnapshotOrDie(d.t, d.ctx.ClusterSnapshot, all, pods)
	candidates, err := d.processors.ScaleDownNodeProcessor.GetScaleDownCandidates(&d.ctx, all)
	if err != nil {
		d.t.Fatal(err)
	}
	if err := d.planner.UpdateClusterState(all, candidates, d.status, now); err != nil {
		d.t.Fatal(err)
	}
	d.processors.ScaleDownCandidatesNotifier.Update(d.planner.UnneededNodes(), now)
	empty, drain := d.planner.NodesToDelete(now)
	empties, drains := budgets.NewScaleDownBudgetProcessor(&d.ctx).CropNodes(d.status, empty, drain)
	d.loops++
	d.idle++
	for _, view := range slices.Concat(empties, drains) {
		d.idle = 0
		if err := view.Group.DeleteNodes(view.Nodes); err != nil {
			d.t.Fatal(err)
		}
		for _, node := range view.Nodes {
			d.remove(node)
		}
	}
}

// remove takes a node away and places its pods anew as the scheduler does: rather not where the
// autoscaler has put its soft taint, and on the least allocated node. When that leaves a pod
// without room, nodes are filled up instead, as the autoscaler simulated it.
func (d *descent) remove(node *v1.Node) {
	if err := d.ctx.ClusterSnapshot.RemoveNodeInfo(node.Name); err != nil {
		d.t.Fatal(err)
	}
	d.provider.DeleteNode(node)
	delete(d.nodes, node.Name)
	d.removed++
	var homeless []*v1.Pod
	for _, name := range sortedNames(d.pods) {
		if d.pods[name].Spec.NodeName == node.Name {
			homeless = append(homeless, d.pods[name])
		}
	}
	slices.SortStableFunc(homeless, func(a, b *v1.Pod) int { return cmp.Compare(cpuOf(b), cpuOf(a)) })
	if !d.place(homeless, 1) && !d.place(homeless, -1) {
		d.homeless++
		for _, pod := range homeless {
			delete(d.pods, pod.Name)
		}
	}
}

func cpuOf(pod *v1.Pod) int64 { return pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue() }

// place puts all pods on nodes, the least (1) or most (-1) allocated first, or none.
func (d *descent) place(pods []*v1.Pod, preference int64) bool {
	snapshot := d.ctx.ClusterSnapshot
	tainted, used := map[string]int{}, map[string]int64{}
	for _, unneeded := range d.planner.UnneededNodes() {
		tainted[unneeded.Node.Name] = 1
	}
	for _, pod := range d.pods {
		used[pod.Spec.NodeName] += preference * cpuOf(pod)
	}
	snapshot.Fork()
	var placed []*v1.Pod
	for _, pod := range pods {
		pod = pod.DeepCopy()
		pod.Spec.NodeName = ""
		targets := sortedNames(d.nodes)
		slices.SortStableFunc(targets, func(a, b string) int {
			return cmp.Or(cmp.Compare(tainted[a], tainted[b]), cmp.Compare(used[a], used[b]))
		})
		at := slices.IndexFunc(targets, func(target string) bool { return snapshot.SchedulePod(pod, target) == nil })
		if at < 0 {
			snapshot.Revert()
			return false
		}
		pod.Spec.NodeName = targets[at]
		used[targets[at]] += preference * cpuOf(pod)
		placed = append(placed, pod)
	}
	if err := snapshot.Commit(); err != nil {
		d.t.Fatal(err)
	}
	for _, pod := range placed {
		d.pods[pod.Name] = pod
	}
	return true
}

// sizes are the target sizes by group, and how far they are apart.
func (d *descent) sizes() (sizes map[string]int, apart int) {
	sizes = map[string]int{}
	smallest := 0
	for i, group := range d.provider.NodeGroups() {
		size, err := group.TargetSize()
		if err != nil {
			d.t.Fatal(err)
		}
		sizes[group.Id()] = size
		if i == 0 || size < smallest {
			smallest = size
		}
		apart = max(apart, size)
	}
	return sizes, apart - smallest
}

// run shrinks the cluster until nothing happens for longer than all times to wait together. It
// returns how far apart the sizes are then, how often a removal brought them further apart than
// one, and in how many of these cases a largest group had an unneeded node.
func (d *descent) run() (apart, uneven, avoidable int) {
	for d.idle < 16 {
		before, was := d.sizes()
		d.loop()
		if _, apart = d.sizes(); apart <= max(1, was) {
			continue
		}
		uneven++
		largest := slices.Max(slices.Collect(maps.Values(before)))
		if slices.ContainsFunc(d.planner.UnneededNodes(), func(n *scaledown.UnneededNode) bool {
			group, err := d.provider.NodeGroupForNode(n.Node)
			return err == nil && group != nil && before[group.Id()] == largest
		}) {
			avoidable++
		}
	}
	return apart, uneven, avoidable
}

func sortedNames[T any](m map[string]T) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// figures are the results of many clusters.
type figures struct {
	mu                                          sync.Mutex
	apart                                       map[int]int // how many ended with sizes so far apart
	removed, homeless, loops, uneven, avoidable int
}

func (f *figures) add(d *descent, apart, uneven, avoidable int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apart[apart]++
	f.removed += d.removed
	f.homeless += d.homeless
	f.loops += d.loops
	f.uneven += uneven
	f.avoidable += avoidable
}

// From 10/10/10, with two of three pods gone at random, by the autoscaler's real planner,
// predicates and crop.
func TestScaleDownKeepsSetsLevel(t *testing.T) {
	clusters, level := *descents, 80
	if testing.Short() { // of few, chance may drive some more apart: the planner's order is that of a map
		clusters, level = min(clusters, 10), 60
	}
	deferral := DefaultMaxBalanceDeferral
	var stock, ours figures
	stock.apart, ours.apart = map[int]int{}, map[int]int{}
	t.Run("clusters", func(t *testing.T) {
		for seed := range clusters {
			t.Run(strconv.Itoa(seed), func(t *testing.T) {
				t.Parallel()
				for deferral, f := range map[*time.Duration]*figures{nil: &stock, &deferral: &ours} {
					d := newDescent(t, uint64(seed), deferral)
					apart, uneven, avoidable := d.run()
					f.add(d, apart, uneven, avoidable)
				}
			})
		}
	})
	for name, f := range map[string]*figures{"stock": &stock, "evenkeel": &ours} {
		t.Logf("%s: apart %v, removed %d in %d loops, %d of them drove sizes apart, %d with an unneeded node in a largest "+
			"group; %d nodes' pods found no room",
			name, f.apart, f.removed, f.loops, f.uneven, f.avoidable, f.homeless)
	}
	if ended := ours.apart[0] + ours.apart[1]; ended*100 < clusters*level {
		t.Errorf("only %d of %d clusters ended level", ended, clusters)
	}
	if ours.avoidable > 0 {
		t.Errorf("sizes were driven apart %d times although a largest group had an unneeded node", ours.avoidable)
	}
	if lost := stock.removed - ours.removed; lost*100 > 2*stock.removed {
		t.Errorf("removed %d nodes, stock removes %d", ours.removed, stock.removed)
	}
}
