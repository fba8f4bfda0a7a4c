package template

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// TestNearLeavesOutNoModel: what is not near a template is no model for it, by the whole comparison.
func TestNearLeavesOutNoModel(t *testing.T) {
	packs, err := nodegroupset.ShippedPacks()
	if err != nil {
		t.Fatal(err)
	}
	keys := []string{"pool", "team", v1.LabelTopologyZone, "eks.amazonaws.com/nodegroup", "kubernetes.azure.com/agentpool", "agentpool",
		v1.LabelInstanceTypeStable, v1.LabelInstanceType}
	rapid.Check(t, func(t *rapid.T) {
		options := nodegroupset.Options{
			Labels:       rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 0, 1, rapid.ID[string]).Draw(t, "labels"),
			IgnoreLabels: rapid.SliceOfNDistinct(rapid.SampledFrom(keys), 0, 2, rapid.ID[string]).Draw(t, "ignored"),
		}
		index, err := nodegroupset.NewIndex(options)
		if err != nil {
			t.Fatal(err)
		}
		draw := func(id string) group {
			capacity := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}
			if rapid.Bool().Draw(t, "disk") {
				capacity[v1.ResourceEphemeralStorage] = resource.MustParse("20Gi")
			}
			labels := rapid.MapOfN(rapid.SampledFrom(keys), rapid.SampledFrom([]string{"", "a", "b"}), 0, 5).Draw(t, id)
			n := &v1.Node{Status: v1.NodeStatus{Capacity: capacity, Allocatable: capacity}}
			n.Name, n.Labels = id, labels
			return group{id, cloudprovider.Template{Node: n}}
		}
		empty := draw("empty")
		var all []group
		for i := range rapid.IntRange(1, 6).Draw(t, "groups") {
			g := draw(fmt.Sprintf("g%d", i))
			if err := index.Set(g.id, g.Template); err != nil {
				t.Fatal(err)
			}
			all = append(all, g)
		}
		c := completer{index: index, packs: packs, selectors: func() map[string]bool { return nil }}
		near := newModels(all, packs, options).near(empty.Node)
		for _, g := range all {
			isNear := slices.ContainsFunc(near, func(n group) bool { return n.id == g.id })
			if missing := c.onlyMissing(empty, g); len(missing) > 0 && !isNear {
				t.Fatalf("%s is a model for %v, which lacks %v", g.id, empty.Node.Labels, missing)
			}
		}
	})
}
