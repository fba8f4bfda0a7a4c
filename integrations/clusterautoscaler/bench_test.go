package clusterautoscaler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/integrations/clusterautoscaler"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/clusterstate"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaleup/orchestrator"
	coretest "sigs.k8s.io/cluster-autoscaler/pkg/core/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/estimator"
	"sigs.k8s.io/cluster-autoscaler/pkg/expander/random"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupconfig"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupset"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/status"
	processorstest "sigs.k8s.io/cluster-autoscaler/pkg/processors/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/resourcequotas"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot/store"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot/testsnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
	kube_util "sigs.k8s.io/cluster-autoscaler/pkg/utils/kubernetes"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/taints"
	catest "sigs.k8s.io/cluster-autoscaler/pkg/utils/test"
)

// benchOptions are the autoscaler's defaults, balancing on, and no limit that would end a scale-up
// early.
func benchOptions() config.AutoscalingOptions {
	return config.AutoscalingOptions{
		BalanceSimilarNodeGroups:       true,
		EstimatorName:                  estimator.BinpackingEstimatorName,
		MaxNodeGroupBinpackingDuration: time.Hour,
		NodeGroupDefaults:              config.NodeGroupAutoscalingOptions{MaxNodeProvisionTime: 15 * time.Minute},
		NodeGroupSetRatios:             config.NewDefaultNodeGroupDifferenceRatios(),
	}
}

// benchUpstream ignores the labels of EKS, as evenkeel does on every cloud; so both find three
// groups to a set.
func benchUpstream() nodegroupset.NodeGroupSetProcessor {
	ratios := config.NewDefaultNodeGroupDifferenceRatios()
	return &nodegroupset.BalancingNodeGroupSetProcessor{Comparator: nodegroupset.CreateAwsNodeInfoComparator(nil, ratios)}
}

func benchGroup(i int) string { return fmt.Sprintf("group-%04d", i) }

// benchNode is the node of a group, with 15 labels and 6 resources. Three groups are alike, one per
// zone.
func benchNode(i int) *v1.Node {
	set, zone := i/3, string(rune('a'+i%3))
	node := catest.BuildTestNode("node-of-"+benchGroup(i), 8000, 64<<30)
	node.Labels = map[string]string{
		"kubernetes.io/hostname": node.Name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
		"topology.kubernetes.io/zone": "eu-west-1" + zone, "topology.kubernetes.io/region": "eu-west-1",
		"failure-domain.beta.kubernetes.io/zone": "eu-west-1" + zone, "failure-domain.beta.kubernetes.io/region": "eu-west-1",
		"eks.amazonaws.com/nodegroup": benchGroup(i), "alpha.eksctl.io/nodegroup-name": benchGroup(i),
		"topology.k8s.aws/zone-id": "euw1-az" + zone, "topology.ebs.csi.aws.com/zone": "eu-west-1" + zone,
		"node.kubernetes.io/instance-type": "m5.2xlarge", "family": "m5", "team": fmt.Sprintf("team-%d", set), "example.com/stage": "production",
	}
	for _, list := range []v1.ResourceList{node.Status.Capacity, node.Status.Allocatable} {
		list[v1.ResourceEphemeralStorage] = resource.MustParse("400Gi")
		list["hugepages-1Gi"], list["hugepages-2Mi"] = resource.MustParse("0"), resource.MustParse("0")
	}
	node.Status.NodeInfo.KubeletVersion = "v1.36.0"
	catest.SetNodeReadyState(node, true, time.Now().Add(-time.Hour))
	return node
}

// benchTemplates are templates as a loop of the autoscaler has them: made anew.
func benchTemplates(groups int) map[string]*framework.NodeInfo {
	out := map[string]*framework.NodeInfo{}
	for i := range groups {
		pod := podRequesting(v1.ResourceList{v1.ResourceCPU: resource.MustParse("150m"), v1.ResourceMemory: resource.MustParse("100Mi")})
		out[benchGroup(i)] = template{benchNode(i), []*v1.Pod{pod}}.nodeInfo()
	}
	return out
}

// BenchmarkFindSimilarNodeGroups asks about every group, as a scale-up does: upstream, evenkeel in
// its first loop, and evenkeel in a later loop with new templates that say the same.
func BenchmarkFindSimilarNodeGroups(b *testing.B) {
	for _, groups := range []int{30, 300, 999} {
		provider := testprovider.NewTestCloudProviderBuilder().Build()
		for i := range groups {
			provider.AddNodeGroup(benchGroup(i), 0, 100, 1)
		}
		ctx := &ca_context.AutoscalingContext{AutoscalingOptions: benchOptions(), CloudProvider: provider}
		loops := []map[string]*framework.NodeInfo{benchTemplates(groups), benchTemplates(groups)}
		all := provider.NodeGroups()
		ask := func(b *testing.B, processor nodegroupset.NodeGroupSetProcessor, loop int) {
			for _, group := range all {
				if similar, err := processor.FindSimilarNodeGroups(ctx, group, loops[loop%2]); err != nil || len(similar) != 2 {
					b.Fatalf("%s has %d similar groups: %v", group.Id(), len(similar), err)
				}
			}
		}
		b.Run(fmt.Sprintf("groups=%d/upstream", groups), func(b *testing.B) {
			b.ReportAllocs()
			for loop := 0; b.Loop(); loop++ {
				ask(b, benchUpstream(), loop)
			}
		})
		b.Run(fmt.Sprintf("groups=%d/evenkeel", groups), func(b *testing.B) {
			b.ReportAllocs()
			for loop := 0; b.Loop(); loop++ {
				ask(b, balancingProcessor(b, benchOptions()), loop)
			}
		})
		b.Run(fmt.Sprintf("groups=%d/evenkeelNextLoop", groups), func(b *testing.B) {
			processor := balancingProcessor(b, benchOptions())
			ask(b, processor, 1)
			b.ReportAllocs()
			for loop := 0; b.Loop(); loop++ {
				ask(b, processor, loop)
			}
		})
	}
}

// benchScaleUp is an autoscaler right before a scale-up: a full node in every group, and pods that
// fit any of them.
type benchScaleUp struct {
	options   config.AutoscalingOptions
	provider  *testprovider.TestCloudProvider
	nodes     []*v1.Node
	running   []*v1.Pod
	pending   []*v1.Pod
	templates map[string]*framework.NodeInfo
}

func newBenchScaleUp(groups, pods, replicas int) *benchScaleUp {
	s := &benchScaleUp{
		options:  benchOptions(),
		provider: testprovider.NewTestCloudProviderBuilder().WithOnScaleUp(func(string, int) error { return nil }).Build(),
	}
	for i := range groups {
		node := benchNode(i)
		full := catest.BuildTestPod("on-"+node.Name, 7900, 60<<30)
		full.Spec.NodeName = node.Name
		s.nodes, s.running = append(s.nodes, node), append(s.running, full)
		s.provider.AddNodeGroup(benchGroup(i), 0, 100, 1)
		s.provider.AddNode(benchGroup(i), node)
	}
	for i := range pods {
		pod := catest.BuildTestPod(fmt.Sprintf("pending-%d", i), 1500, 8<<30)
		owner := fmt.Sprintf("replicas-%d", i/replicas)
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: owner, UID: types.UID(owner), Controller: ptr.To(true)}}
		s.pending = append(s.pending, pod)
	}
	return s
}

// orchestrator makes everything an autoscaler has at the start of a scale-up, with its own
// processors or with evenkeel's.
func (s *benchScaleUp) orchestrator(withEvenkeel bool) (*orchestrator.ScaleUpOrchestrator, error) {
	standard, registry := processorstest.NewTestProcessors(s.options)
	standard.NodeGroupSetProcessor = benchUpstream()
	listers := kube_util.NewListerRegistry(nil, nil, kube_util.NewTestPodLister(s.running), nil, nil, nil, nil, nil, nil)
	ctx, err := coretest.NewScaleTestAutoscalingContext(s.options, &fake.Clientset{}, listers, s.provider, nil, nil, registry)
	if err != nil {
		return nil, err
	}
	// The test context has the simple store; an autoscaler has this one, which is quicker to fork.
	ctx.ClusterSnapshot, ctx.FrameworkHandle, err = testsnapshot.NewCustomTestSnapshotAndHandle(store.NewDeltaSnapshotStore())
	if err != nil {
		return nil, err
	}
	if err := ctx.ClusterSnapshot.SetClusterState(s.nodes, s.running, nil, nil); err != nil {
		return nil, err
	}
	if err := registry.Recompute(&ctx, s.nodes, nil, taints.TaintConfig{}, time.Now()); err != nil {
		return nil, err
	}
	s.templates = registry.GetNodeInfos()
	linked := &coreoptions.AutoscalerOptions{
		AutoscalingOptions: s.options, CloudProvider: s.provider, Processors: standard, ExpanderStrategy: random.NewStrategy(),
		QuotasTrackerOptions: resourcequotas.TrackerOptions{
			QuotaProvider: resourcequotas.NewCloudQuotasProvider(s.provider), CustomResourcesProcessor: standard.CustomResourcesProcessor,
		},
	}
	if withEvenkeel {
		balancer, err := clusterautoscaler.New(s.options, clusterautoscaler.Options{})
		if err != nil {
			return nil, err
		}
		if err := balancer.Install(linked); err != nil {
			return nil, err
		}
	}
	ctx.ExpanderStrategy = linked.ExpanderStrategy
	state := clusterstate.NewClusterStateRegistry(s.provider, ctx.LogRecorder, coretest.NewBackoff(),
		nodegroupconfig.NewDefaultNodeGroupConfigProcessor(s.options.NodeGroupDefaults), registry,
		clusterstate.WithScaleStateNotifier(standard.ScaleStateNotifier))
	if err := state.UpdateNodes(s.nodes, time.Now()); err != nil {
		return nil, err
	}
	estimators, err := estimator.NewEstimatorBuilder(s.options.EstimatorName,
		estimator.NewThresholdBasedEstimationLimiter([]estimator.Threshold{
			estimator.NewStaticThreshold(1000, time.Hour), estimator.NewSngCapacityThreshold(), estimator.NewClusterCapacityThreshold(),
		}), estimator.NewDecreasingPodOrderer(), nil, s.options.FastpathBinpackingEnabled)
	if err != nil {
		return nil, err
	}
	out := orchestrator.New()
	out.Initialize(&ctx, standard, state, estimators, taints.TaintConfig{}, resourcequotas.NewTrackerFactory(linked.QuotasTrackerOptions))
	return out, nil
}

// check says whether the scale-up went to a set of three, evenly.
func (s *benchScaleUp) check(b *testing.B, result *status.ScaleUpStatus) {
	b.Helper()
	if len(result.ScaleUpInfos) != 3 || len(result.PodsRemainUnschedulable) > 0 {
		b.Fatalf("%v, %d pods left", result.ScaleUpInfos, len(result.PodsRemainUnschedulable))
	}
	least, most := result.ScaleUpInfos[0].NewSize, result.ScaleUpInfos[0].NewSize
	for _, info := range result.ScaleUpInfos {
		least, most = min(least, info.NewSize), max(most, info.NewSize)
	}
	if most-least > 1 {
		b.Fatalf("uneven: %v", result.ScaleUpInfos)
	}
}

// BenchmarkScaleUp is the whole call of the autoscaler's orchestrator at 300 groups, which fits
// pods, estimates and splits; with evenkeel in its first loop, so that all templates are read in
// it. The estimates, one per group, are the same for both; with
// --fastpath-binpacking-enabled they cost least for the replicas of one controller.
func BenchmarkScaleUp(b *testing.B) {
	const groups = 300
	for _, c := range []struct {
		pods, replicas int
		fastpath       bool
	}{{30, 10, false}, {100, 10, false}, {300, 10, false}, {300, 300, true}} {
		for _, side := range []string{"upstream", "evenkeel"} {
			b.Run(fmt.Sprintf("groups=%d/pods=%d/replicas=%d/fastpath=%v/%s", groups, c.pods, c.replicas, c.fastpath, side), func(b *testing.B) {
				b.ReportAllocs()
				for range b.N {
					b.StopTimer()
					s := newBenchScaleUp(groups, c.pods, c.replicas)
					s.options.FastpathBinpackingEnabled = c.fastpath
					o, err := s.orchestrator(side == "evenkeel")
					if err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					result, aErr := o.ScaleUp(s.pending, s.nodes, nil, s.templates, false)
					if aErr != nil {
						b.Fatal(aErr)
					}
					b.StopTimer()
					s.check(b, result)
					b.StartTimer()
				}
			})
		}
	}
}
