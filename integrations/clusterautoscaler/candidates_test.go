package clusterautoscaler

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodeinfosprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodes"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/taints"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/test"
)

// order returns the candidates of a cluster in the order in which they are tried. The names of
// nodes with a pod end in "!".
func (c *downCluster) order(t fataler, seed uint64, busy ...string) []string {
	all := make([]*v1.Node, 0, len(c.nodes))
	for _, name := range sortedNames(c.nodes) {
		all = append(all, c.nodes[name])
	}
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, name := range busy {
		pod := test.BuildScheduledTestPod("of-"+name, 1, 1, name)
		test.SetRSPodSpec(pod, "rs")
		if err := c.ctx.ClusterSnapshot.ForceAddPod(pod, name); err != nil {
			t.Fatalf("snapshot: %v", err)
		}
	}
	candidates, err := c.balancer.scaleDownCandidates(nodes.NewPreFilteringScaleDownNodeProcessor()).GetScaleDownCandidates(c.ctx, all)
	if err != nil {
		t.Fatalf("candidates: %v", err)
	}
	var out []string
	for _, node := range candidates {
		out = append(out, node.Name)
	}
	return out
}

func TestOrderOfCandidates(t *testing.T) {
	for name, test := range map[string]struct {
		groups []downGroup
		busy   []string
		want   string
	}{
		"empty nodes first": {
			groups: []downGroup{{name: "a", set: "a", size: 3}, {name: "b", set: "a", size: 3}}, busy: []string{"a-0", "a-1", "a-2", "b-1"},
			want: "b-0 b-2 a-0 a-1 b-1 a-2"},
		"nodes on their way out are not counted twice": {
			groups: []downGroup{{name: "a", set: "a", size: 3, going: 1}, {name: "b", set: "a", size: 3}}, want: "b-0 b-1 a-2 a-0 b-2 a-1"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(newDownCluster(t, time.Hour, test.groups...).order(t, 0, test.busy...), " "); got != test.want {
				t.Errorf("order %s, want %s", got, test.want)
			}
		})
	}
}

// Sets are known from the templates alone, before anything was scaled up.
func TestOrderOfCandidatesLearnsTheSets(t *testing.T) {
	c := newDownCluster(t, time.Hour, downGroup{name: "a", size: 2}, downGroup{name: "b", size: 2})
	balancer, err := New(config.AutoscalingOptions{BalanceSimilarNodeGroups: true,
		NodeGroupSetRatios: config.NewDefaultNodeGroupDifferenceRatios()}, Options{Clock: c.clock})
	if err != nil {
		t.Fatal(err)
	}
	c.balancer = balancer
	registry := nodeinfosprovider.NewTemplateNodeInfoRegistry(nodeinfosprovider.NewDefaultTemplateNodeInfoProvider(nil, false))
	c.ctx.TemplateNodeInfoRegistry = registry
	if got, want := strings.Join(c.order(t, 0), " "), "a-0 a-1 b-0 b-1"; got != want {
		t.Errorf("without templates %s, want %s", got, want)
	}
	all := make([]*v1.Node, 0, len(c.nodes))
	for _, name := range sortedNames(c.nodes) {
		test.SetNodeReadyState(c.nodes[name], true, time.Time{})
		all = append(all, c.nodes[name])
	}
	if err := registry.Recompute(c.ctx, all, nil, taints.TaintConfig{}, c.clock.Now()); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(c.order(t, 0), " "), "b-0 a-0 b-1 a-1"; got != want {
		t.Errorf("with templates %s, want %s", got, want)
	}
}
