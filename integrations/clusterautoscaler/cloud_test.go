package clusterautoscaler

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/test"
)

// cloudInLoops is a cloud and the templates of a loop.
type cloudInLoops struct {
	*testprovider.TestCloudProvider
	ctx       *ca_context.AutoscalingContext
	templates map[string]*framework.NodeInfo
	loop      int
}

func newCloud() *cloudInLoops {
	f := &cloudInLoops{TestCloudProvider: testprovider.NewTestCloudProviderBuilder().Build(), templates: map[string]*framework.NodeInfo{}}
	f.ctx = &ca_context.AutoscalingContext{CloudProvider: f}
	return f
}

// template makes the template of a group, with a name and hostname that no other has.
func (f *cloudInLoops) template(id, pool string, change ...func(*v1.Node)) {
	f.loop++
	node := test.BuildTestNode(fmt.Sprintf("template-%s-%d", id, f.loop), 4000, 16<<30)
	node.Labels[v1.LabelHostname] = node.Name
	node.Labels["pool"] = pool
	node.Status.NodeInfo.KubeletVersion = "v1.36.3"
	for _, c := range change {
		c(node)
	}
	f.templates[id] = framework.NewTestNodeInfo(node)
}

func (f *cloudInLoops) group(id, pool string, change ...func(*v1.Node)) {
	f.AddNodeGroup(id, 0, 10, 1)
	f.template(id, pool, change...)
}

func balancer(t rapid.TB, change ...func(*config.AutoscalingOptions)) *Balancer {
	t.Helper()
	options := config.AutoscalingOptions{BalanceSimilarNodeGroups: true, NodeGroupSetRatios: config.NewDefaultNodeGroupDifferenceRatios()}
	for _, c := range change {
		c(&options)
	}
	b, err := New(options, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// learn makes the balancer know sets of groups, from templates that differ in nothing but the set.
func learn(b *Balancer, ctx *ca_context.AutoscalingContext, setOf map[string]string) {
	templates := map[string]*framework.NodeInfo{}
	for group, set := range setOf {
		node := test.BuildTestNode("template-of-"+group, 1000, 1000)
		node.Labels["set"] = set
		templates[group] = framework.NewTestNodeInfo(node)
	}
	b.sets.Update(templates, cloudOf(ctx))
}

// What is read of a template and of a cloud is what decides with whom a group is similar.
func TestTemplatesAreTranslated(t *testing.T) {
	f, b := newCloud(), balancer(t)
	f.group("a", "one")
	f.group("b", "one")
	f.group("other", "two")
	f.AddNodeGroup("bare", 0, 10, 0) // has no template
	f.AddNodeGroupWithCustomOptions("whole", 0, 10, 0, &config.NodeGroupAutoscalingOptions{ZeroOrMaxNodeScaling: true})
	f.template("whole", "one")
	f.group("busy", "one")
	f.templates["busy"].AddPod(framework.NewPodInfo(test.BuildTestPod("daemon", 3000, 0), nil))
	for id, want := range map[string][]string{"a": {"b"}, "b": {"a"}, "other": {}, "whole": {}, "busy": {}} {
		var got []string
		for _, group := range b.sets.Similar(id, f.templates, cloudOf(f.ctx)) {
			got = append(got, group.Id())
		}
		if !slices.Equal(got, want) && len(got)+len(want) > 0 {
			t.Errorf("similar to %s are %v, want %v", id, got, want)
		}
	}
}
