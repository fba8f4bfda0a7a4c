package clusterautoscaler

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/clusterstate"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/scaleup/orchestrator"
	catest "sigs.k8s.io/cluster-autoscaler/pkg/core/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/estimator"
	"sigs.k8s.io/cluster-autoscaler/pkg/expander"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupconfig"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupset"
	processorstest "sigs.k8s.io/cluster-autoscaler/pkg/processors/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/resourcequotas"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
	kube_util "sigs.k8s.io/cluster-autoscaler/pkg/utils/kubernetes"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/taints"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/test"
)

const zoneLabel = "topology.kubernetes.io/zone"

// growth is an autoscaler's real orchestrator before a scale-up: groups in zones, every node full,
// and pods that need a node each.
type growth struct {
	sizes      map[string]int // of the groups, which are named as their zones
	max        int
	pods       int
	chosen     string
	quotas     []resourcequotas.Quota
	options    config.AutoscalingOptions
	upstream   bool // without evenkeel
	unbalanced bool // with --balance-similar-node-groups=false
	allOrNo    bool
}

func (g growth) defaults() growth {
	g.options.EstimatorName = estimator.BinpackingEstimatorName
	g.options.BalanceSimilarNodeGroups = !g.unbalanced
	g.options.MaxNodeGroupBinpackingDuration = time.Minute
	g.options.NodeGroupSetRatios = config.NewDefaultNodeGroupDifferenceRatios()
	g.options.NodeGroupDefaults = config.NodeGroupAutoscalingOptions{MaxNodeProvisionTime: 15 * time.Minute}
	return g
}

// choice is an expander that has made its mind up.
type choice string

func (c choice) BestOption(options []expander.Option, _ map[string]*framework.NodeInfo) *expander.Option {
	i := slices.IndexFunc(options, func(o expander.Option) bool { return o.NodeGroup.Id() == string(c) })
	if i < 0 {
		return nil
	}
	return &options[i]
}

// run scales up and returns the sizes afterwards.
func (g growth) run(t *testing.T) map[string]int {
	t.Helper()
	g = g.defaults()
	now := time.Now()
	provider := testprovider.NewTestCloudProviderBuilder().WithOnScaleUp(func(string, int) error { return nil }).Build()
	var nodes []*v1.Node
	var running []*v1.Pod
	for _, zone := range slices.Sorted(maps.Keys(g.sizes)) {
		provider.AddNodeGroup(zone, 0, g.max, g.sizes[zone])
		for i := range g.sizes[zone] {
			node := test.BuildTestNode(fmt.Sprintf("%s-%d", zone, i), 100, 1000)
			node.Labels[zoneLabel] = zone
			test.SetNodeReadyState(node, true, now.Add(-time.Hour))
			pod := test.BuildTestPod("on-"+node.Name, 80, 0)
			pod.Spec.NodeName = node.Name
			nodes, running = append(nodes, node), append(running, pod)
			provider.AddNode(zone, node)
		}
	}
	processors, templates := processorstest.NewTestProcessors(g.options)
	listers := kube_util.NewListerRegistry(nil, nil, kube_util.NewTestPodLister(running), nil, nil, nil, nil, nil, nil)
	ctx, err := catest.NewScaleTestAutoscalingContext(g.options, &fake.Clientset{}, listers, provider, nil, nil, templates)
	must(t, err)
	must(t, ctx.ClusterSnapshot.SetClusterState(nodes, running, nil, nil))
	must(t, templates.Recompute(&ctx, nodes, nil, taints.TaintConfig{}, now))

	opts := coreoptions.AutoscalerOptions{
		AutoscalingOptions: g.options, Processors: processors, CloudProvider: provider, ExpanderStrategy: choice(g.chosen),
		QuotasTrackerOptions: resourcequotas.TrackerOptions{
			QuotaProvider: resourcequotas.NewCombinedQuotasProvider([]resourcequotas.Provider{
				resourcequotas.NewCloudQuotasProvider(provider), resourcequotas.NewFakeProvider(g.quotas)}),
			CustomResourcesProcessor: processors.CustomResourcesProcessor,
		},
	}
	processors.NodeGroupSetProcessor = nodegroupset.NewDefaultNodeGroupSetProcessor(nil, g.options.NodeGroupSetRatios)
	if !g.upstream {
		b, err := New(g.options, Options{})
		must(t, err)
		must(t, b.Install(&opts))
	}
	ctx.ExpanderStrategy = opts.ExpanderStrategy
	g.scaleUp(t, &ctx, opts, nodes)

	sizes := map[string]int{}
	for _, group := range provider.NodeGroups() {
		sizes[group.Id()], err = group.TargetSize()
		must(t, err)
	}
	return sizes
}

func (g growth) scaleUp(t *testing.T, ctx *ca_context.AutoscalingContext, opts coreoptions.AutoscalerOptions, nodes []*v1.Node) {
	t.Helper()
	state := clusterstate.NewClusterStateRegistry(ctx.CloudProvider, ctx.LogRecorder, catest.NewBackoff(),
		nodegroupconfig.NewDefaultNodeGroupConfigProcessor(g.options.NodeGroupDefaults), ctx.TemplateNodeInfoRegistry,
		clusterstate.WithScaleStateNotifier(opts.Processors.ScaleStateNotifier))
	must(t, state.UpdateNodes(nodes, time.Now()))
	estimators, err := estimator.NewEstimatorBuilder(estimator.BinpackingEstimatorName,
		estimator.NewThresholdBasedEstimationLimiter([]estimator.Threshold{estimator.NewSngCapacityThreshold(),
			estimator.NewClusterCapacityThreshold()}),
		estimator.NewDecreasingPodOrderer(), nil, false)
	must(t, err)
	var pending []*v1.Pod
	for i := range g.pods {
		pending = append(pending, test.BuildTestPod(fmt.Sprintf("pending-%d", i), 80, 0))
	}
	o := orchestrator.New()
	o.Initialize(ctx, opts.Processors, state, estimators, taints.TaintConfig{}, resourcequotas.NewTrackerFactory(opts.QuotasTrackerOptions))
	if _, err := o.ScaleUp(pending, nodes, nil, ctx.TemplateNodeInfoRegistry.GetNodeInfos(), g.allOrNo); err != nil {
		t.Fatal(err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// zonalQuota lets a zone have so many nodes.
func zonalQuota(zone string, nodes int64) resourcequotas.Quota {
	return &resourcequotas.FakeQuota{
		Name: "zone-" + zone, LimitsVal: map[string]int64{"nodes": nodes},
		AppliesToFn: func(node *v1.Node) bool { return node.Labels[zoneLabel] == zone },
	}
}

func TestScaleUpOfTheWholeOrchestrator(t *testing.T) {
	three := map[string]int{"a": 1, "b": 1, "c": 1}
	for _, test := range []struct {
		name     string
		growth   growth
		want     map[string]int
		upstream map[string]int // where it differs
	}{
		{"even", growth{sizes: three, max: 10, pods: 6}, map[string]int{"a": 3, "b": 3, "c": 3}, nil},
		{"uneven before", growth{sizes: map[string]int{"a": 4, "b": 1, "c": 1}, max: 10, pods: 4}, map[string]int{"a": 4, "b": 3, "c": 3}, nil},
		{"max", growth{sizes: map[string]int{"a": 2, "b": 1, "c": 2}, max: 3, pods: 9}, map[string]int{"a": 3, "b": 3, "c": 3}, nil},
		{
			"a quota of another zone cuts nothing", growth{sizes: three, max: 10, pods: 9, quotas: []resourcequotas.Quota{zonalQuota("b", 2)}},
			map[string]int{"a": 5, "b": 2, "c": 5}, map[string]int{"a": 4, "b": 2, "c": 4},
		},
		{
			"a quota of the chosen zone takes nothing from the others",
			growth{sizes: three, max: 10, pods: 9, quotas: []resourcequotas.Quota{zonalQuota("a", 2)}},
			map[string]int{"a": 2, "b": 5, "c": 5}, map[string]int{"a": 2, "b": 1, "c": 1},
		},
		{
			"the whole cluster's limits hold", growth{
				sizes: three, max: 10, pods: 9, quotas: []resourcequotas.Quota{zonalQuota("a", 2)},
				options: config.AutoscalingOptions{MaxNodesTotal: 8},
			},
			map[string]int{"a": 2, "b": 3, "c": 3}, map[string]int{"a": 2, "b": 1, "c": 1},
		},
		{
			"all or nothing is nothing where the autoscaler says so",
			growth{sizes: three, max: 10, pods: 9, quotas: []resourcequotas.Quota{zonalQuota("a", 2)}, allOrNo: true},
			three, nil,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.growth.chosen = "a"
			if got := test.growth.run(t); !maps.Equal(got, test.want) {
				t.Errorf("with evenkeel %v, want %v", got, test.want)
			}
			test.growth.upstream = true
			if test.upstream == nil {
				test.upstream = test.want
			}
			if got := test.growth.run(t); !maps.Equal(got, test.upstream) {
				t.Errorf("without evenkeel %v, want %v", got, test.upstream)
			}
		})
	}
}

func TestScaleUpIsTheSameWhoeverIsChosen(t *testing.T) {
	for _, chosen := range []string{"a", "b", "c"} {
		got := growth{
			sizes: map[string]int{"a": 1, "b": 1, "c": 1}, max: 10, pods: 9, chosen: chosen,
			quotas: []resourcequotas.Quota{zonalQuota("a", 2)},
		}.run(t)
		if want := map[string]int{"a": 2, "b": 5, "c": 5}; !maps.Equal(got, want) {
			t.Errorf("%s is chosen: %v, want %v", chosen, got, want)
		}
	}
}

func TestNothingChangesWithBalancingOff(t *testing.T) {
	g := growth{sizes: map[string]int{"a": 1, "b": 1, "c": 1}, max: 10, pods: 6, chosen: "b", unbalanced: true}
	got := g.run(t)
	g.upstream = true
	if want := g.run(t); !maps.Equal(got, want) || !maps.Equal(got, map[string]int{"a": 1, "b": 7, "c": 1}) {
		t.Errorf("with evenkeel installed %v, without %v", got, want)
	}
}
