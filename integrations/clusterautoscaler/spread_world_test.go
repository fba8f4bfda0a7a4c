package clusterautoscaler

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	kubefake "k8s.io/client-go/kubernetes/fake"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/cluster-autoscaler/pkg/builder"
	"sigs.k8s.io/cluster-autoscaler/pkg/clusterstate/scaleupfailures"
	"sigs.k8s.io/cluster-autoscaler/pkg/clusterstate/utils"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/core"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/podlistprocessor"
	"sigs.k8s.io/cluster-autoscaler/pkg/debuggingsnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/expander"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupset"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot/testsnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/scheduling"
	kube_util "sigs.k8s.io/cluster-autoscaler/pkg/utils/kubernetes"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/test"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

// A cluster is an autoscaler's whole loop on a cloud in memory, whose nodes are ready 25 seconds
// after their order, and a scheduler that binds what the real predicates allow.
type cluster struct {
	t          *testing.T
	cloud      *fake.Cloud
	clock      *clocktesting.FakeClock
	pods       []*v1.Pod
	autoscaler core.Autoscaler
	scheduler  clustersnapshot.ClusterSnapshot
}

// A trial is pods that wait for nodes.
type trial struct {
	groups  []fake.Group // two cores each
	running func(node *v1.Node) []*v1.Pod
	pending []*v1.Pod
	options config.AutoscalingOptions
	chosen  int  // the expander takes this option, or the last
	without bool // evenkeel
	off     bool // --spread-aware-split=false
	// conditions is how the conditions of pods are written; nil if they are not
	conditions coreclient.PodsGetter
}

// group is a group of its zone, whose nodes have two cores.
func group(zone string, size, most int) fake.Group {
	return fake.Group{
		ID: "ng-" + zone, Size: size, MaxSize: most, BootTime: 25 * time.Second,
		Template: cloudprovider.Template{Node: &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
			Status: v1.NodeStatus{Capacity: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourcePods: resource.MustParse("29"),
			}},
		}},
	}
}

// system is a group with a node in no zone, since the autoscaler does nothing without any.
func system() fake.Group {
	g := group("system", 1, 1)
	delete(g.Template.Node.Labels, v1.LabelTopologyZone)
	g.Template.Node.Spec.Taints = []v1.Taint{{Key: "system", Effect: v1.TaintEffectNoSchedule}}
	return g
}

func zones(size, most int) []fake.Group {
	return []fake.Group{group("a", size, most), group("b", size, most), group("c", size, most)}
}

// spreadPods are pods of one ReplicaSet that are spread over zones.
func spreadPods(set string, n int, cpu int64, constraints ...func(*v1.TopologySpreadConstraint)) []*v1.Pod {
	var pods []*v1.Pod
	for i := range n {
		pod := test.BuildTestPod(fmt.Sprintf("%s-%d", set, i), cpu, 0, test.WithLabels(map[string]string{"app": set}))
		test.SetRSPodSpec(pod, set)
		pod.CreationTimestamp = metav1.NewTime(time.Now().Add(-time.Minute))
		constraint := v1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": set}},
		}
		for _, set := range constraints {
			set(&constraint)
		}
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{constraint}
		pods = append(pods, pod)
	}
	return pods
}

// full are two pods of web on each node.
func full(node *v1.Node) []*v1.Pod {
	pods := spreadPods("web", 2, 1000)
	for _, pod := range pods {
		pod.Name = "on-" + node.Name + "-" + pod.Name
		pod.Spec.NodeName = node.Name
	}
	return pods
}

// at is an expander that takes one of the options.
type at int

func (a at) BestOption(options []expander.Option, _ map[string]*framework.NodeInfo) *expander.Option {
	return &options[min(int(a), len(options)-1)]
}

func (g trial) build(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{t: t, clock: clocktesting.NewFakeClock(time.Now()), scheduler: testsnapshot.NewTestSnapshotOrDie(t), pods: g.pending}
	var err error
	c.cloud, err = fake.New(fake.Config{Groups: append(g.groups, system())}, c.clock)
	must(t, err)
	for _, node := range c.cloud.RegisteredNodes() {
		if g.running != nil && node.Labels[v1.LabelTopologyZone] != "" {
			c.pods = append(c.pods, g.running(node)...)
		}
	}
	o := g.options
	o.BalanceSimilarNodeGroups, o.NodeGroupSetRatios = true, config.NewDefaultNodeGroupDifferenceRatios()
	o.EstimatorName, o.MaxNodeGroupBinpackingDuration, o.MaxNodesPerScaleUp = "binpacking", 10*time.Second, cmp.Or(o.MaxNodesPerScaleUp, 1000)
	o.MaxBinpackingTime = 5 * time.Minute
	o.MaxTotalUnreadyPercentage, o.OkTotalUnreadyCount = 45, 3
	o.NodeGroupDefaults.MaxNodeProvisionTime, o.NodeGroupDefaults.MaxNodeStartupTime = 15*time.Minute, 15*time.Minute
	if o.MaxCoresTotal == 0 {
		o.MaxCoresTotal = 100000
	}
	o.MaxMemoryTotal = 1 << 60
	shown, err := newMemoryCloud(c.cloud, ca_context.NewResourceLimiterFromAutoscalingOptions(o))
	must(t, err)
	client := kubefake.NewClientset()
	events := record.NewFakeRecorder(10000)
	log, err := utils.NewStatusMapRecorder(client, "kube-system", events, false, "status")
	must(t, err)
	snapshot, handle, err := testsnapshot.NewTestSnapshotAndHandle()
	must(t, err)
	failures := scaleupfailures.NewRegistry()
	opts := coreoptions.AutoscalerOptions{
		AutoscalingOptions: o, KubeClient: client, Processors: processors.DefaultProcessors(o), CloudProvider: shown,
		ExpanderStrategy: at(g.chosen),
		FrameworkHandle:  handle, ClusterSnapshot: snapshot, DebuggingSnapshotter: debuggingsnapshot.NewDebuggingSnapshotter(false),
		ScaleUpFailuresRegistry: failures,
		AutoscalingKubeClients: &ca_context.AutoscalingKubeClients{ClientSet: client, Recorder: events, LogRecorder: log,
			ListerRegistry: c.listers()},
	}
	opts.Processors.PodListProcessor = podlistprocessor.NewDefaultPodListProcessor(scheduling.ScheduleAnywhere)
	if g.without {
		opts.Processors.NodeGroupSetProcessor = nodegroupset.NewDefaultNodeGroupSetProcessor(nil, o.NodeGroupSetRatios)
	} else {
		b, err := New(o, Options{DisableSpreadSplit: g.off, PodConditions: g.conditions != nil, Pods: g.conditions})
		must(t, err)
		must(t, b.Install(&opts))
	}
	autoscaler, aErr := builder.NewAutoscaler(t.Context(), opts, informers.NewSharedInformerFactory(client, 0))
	if aErr != nil {
		t.Fatal(aErr)
	}
	c.autoscaler = autoscaler
	return c
}

// listers show the autoscaler what there is.
func (c *cluster) listers() kube_util.ListerRegistry {
	return kube_util.NewListerRegistry(allNodes{c}, allNodes{c}, allPods{c}, kube_util.NewTestPodDisruptionBudgetLister(nil), noDaemons{}, nil,
		nil, nil, nil)
}

type allNodes struct{ *cluster }

func (l allNodes) List() ([]*v1.Node, error) { return l.cloud.RegisteredNodes(), nil }
func (l allNodes) Get(name string) (*v1.Node, error) {
	for _, node := range l.cloud.RegisteredNodes() {
		if node.Name == name {
			return node, nil
		}
	}
	return nil, fmt.Errorf("there is no node %s", name)
}

type allPods struct{ *cluster }

func (l allPods) List() ([]*v1.Pod, error) { return l.pods, nil }

type noDaemons struct{ appslisters.DaemonSetLister }

func (noDaemons) List(labels.Selector) ([]*appsv1.DaemonSet, error) { return nil, nil }

// An outcome is what a trial came to.
type outcome struct {
	Loops     int // with an increase
	Increases int
	Sizes     string
	Pending   int
}

// play runs loops until nothing has happened for a minute.
func (g trial) play(t *testing.T) outcome {
	t.Helper()
	c := g.build(t)
	var out outcome
	for quiet := 0; quiet < 7; quiet++ {
		c.bind()
		c.cloud.ForgetCalls()
		if err := c.autoscaler.RunOnce(t.Context(), c.clock.Now()); err != nil {
			t.Fatal(err)
		}
		increased := 0
		for _, call := range c.cloud.Calls() {
			if call.Method == fake.MethodIncreaseSize {
				increased++
			}
		}
		if out.Increases += increased; increased > 0 {
			out.Loops++
			quiet = 0
		}
		if increased > 0 {
			c.clock.Step(time.Second) // a loop that has done something is followed at once
		} else {
			c.clock.Step(10 * time.Second)
		}
		if c.bind() > 0 {
			quiet = 0
		}
	}
	for _, pod := range c.pods {
		if pod.Spec.NodeName == "" {
			out.Pending++
		}
	}
	out.Sizes = c.sizes()
	return out
}

func (c *cluster) sizes() string {
	sizes := map[string]int{}
	for _, state := range c.cloud.State() {
		if state.ID != "ng-system" {
			sizes[state.ID] = state.Target
		}
	}
	text := ""
	for _, id := range slices.Sorted(maps.Keys(sizes)) {
		text += fmt.Sprint("/", sizes[id])
	}
	return text[1:]
}

// bind puts pods on nodes as the scheduler does, and marks the others.
func (c *cluster) bind() (bound int) {
	var running []*v1.Pod
	for _, pod := range c.pods {
		if pod.Spec.NodeName != "" {
			running = append(running, pod)
		}
	}
	must(c.t, c.scheduler.SetClusterState(c.cloud.RegisteredNodes(), running, nil, nil))
	for again := true; again; {
		again = false
		for i, pod := range c.pods {
			if pod.Spec.NodeName != "" {
				continue
			}
			node, err := c.scheduler.SchedulePodOnAnyNodeMatching(pod,
				clustersnapshot.SchedulingOptions{IsNodeAcceptable: scheduling.ScheduleAnywhere})
			copied := pod.DeepCopy()
			if err == nil {
				copied.Spec.NodeName, copied.Status.Phase = node, v1.PodRunning
				bound++
				again = true
			} else {
				test.MarkUnschedulable()(copied)
			}
			c.pods[i] = copied
		}
	}
	return bound
}
