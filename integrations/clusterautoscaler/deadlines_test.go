package clusterautoscaler

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/fake"
	clocktesting "k8s.io/utils/clock/testing"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/clusterstate"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	catest "sigs.k8s.io/cluster-autoscaler/pkg/core/test"
	processorstest "sigs.k8s.io/cluster-autoscaler/pkg/processors/test"
	kube_util "sigs.k8s.io/cluster-autoscaler/pkg/utils/kubernetes"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/taints"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/test"
)

const lateSpot = `
apiVersion: evenkeel.dev/v1alpha1
kind: NodeGroupPolicies
spec:
  sets:
  - name: web
    policy: Priority
    startupDeadline: 5m
    portions:
    - {name: spot, groups: [spot]}
    - {name: on-demand, groups: [on-demand]}
`

// TestStartupDeadlineInTheAutoscalersOwnRegistry: the autoscaler gives up a scale-up of a declared set
// at its deadline and leaves the group alone, and others after the provision time.
func TestStartupDeadlineInTheAutoscalersOwnRegistry(t *testing.T) {
	options := growth{}.defaults().options
	policies := filepath.Join(t.TempDir(), "policies.yaml")
	must(t, os.WriteFile(policies, []byte(lateSpot), 0o600))
	now := time.Now()
	clock := clocktesting.NewFakeClock(now)
	provider := testprovider.NewTestCloudProviderBuilder().WithOnScaleUp(func(string, int) error { return nil }).Build()
	var nodes []*v1.Node
	for _, id := range []string{"spot", "on-demand", "other"} {
		provider.AddNodeGroup(id, 0, 10, 1)
		node := test.BuildTestNode(id+"-0", 100, 1000)
		test.SetNodeReadyState(node, true, now.Add(-time.Hour))
		provider.AddNode(id, node)
		nodes = append(nodes, node)
	}
	processors, templates := processorstest.NewTestProcessors(options)
	listers := kube_util.NewListerRegistry(nil, nil, kube_util.NewTestPodLister(nil), nil, nil, nil, nil, nil, nil)
	ctx, err := catest.NewScaleTestAutoscalingContext(options, &fake.Clientset{}, listers, provider, nil, nil, templates)
	must(t, err)
	must(t, ctx.ClusterSnapshot.SetClusterState(nodes, nil, nil, nil))
	must(t, templates.Recompute(&ctx, nodes, nil, taints.TaintConfig{}, now))
	b, err := New(options, Options{NodeGroupPolicies: policies, Clock: clock})
	must(t, err)
	must(t, b.Install(&coreoptions.AutoscalerOptions{AutoscalingOptions: options, Processors: processors, CloudProvider: provider}))
	spot := provider.GetNodeGroup("spot")
	_, problem := b.groupSet.FindSimilarNodeGroups(&ctx, spot, templates.GetNodeInfos())
	if problem != nil {
		t.Fatal(problem)
	}

	state := clusterstate.NewNotifiedClusterStateRegistry(provider, ctx.LogRecorder, catest.NewBackoff(), processors.NodeGroupConfigProcessor,
		ctx.TemplateNodeInfoRegistry, clusterstate.WithScaleStateNotifier(processors.ScaleStateNotifier))
	must(t, state.UpdateNodes(nodes, now))
	for _, id := range []string{"spot", "other"} {
		group := provider.GetNodeGroup(id)
		must(t, group.IncreaseSize(2))
		processors.ScaleStateNotifier.RegisterScaleUp(group, 2, now)
	}
	for _, step := range []struct {
		after       time.Duration
		spot, other bool // may grow
	}{{4 * time.Minute, true, true}, {6 * time.Minute, false, true}, {16 * time.Minute, true, false}} {
		at := now.Add(step.after)
		clock.SetTime(at)
		must(t, state.UpdateNodes(nodes, at))
		for id, want := range map[string]bool{"spot": step.spot, "other": step.other} {
			if got := !state.BackoffStatusForNodeGroup(provider.GetNodeGroup(id), at).IsBackedOff; got != want {
				t.Errorf("after %s %s may grow: %t, want %t", step.after, id, got, want)
			}
		}
	}
}
