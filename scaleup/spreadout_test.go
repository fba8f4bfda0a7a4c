package scaleup

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/predicates"
)

// A node counts as empty if and only if no pod is on it, however its pods came there.
func TestARehearsalKnowsWhichNodesAreEmpty(t *testing.T) {
	checker, err := predicates.New(t.Context(), predicates.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		c := checker.Cluster(nil)
		var spans []span
		for i := range rapid.IntRange(3, 8).Draw(t, "groups") {
			n := rapid.IntRange(1, 3).Draw(t, "nodes")
			node := &v1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: "template", Labels: map[string]string{
					v1.LabelHostname: "template", v1.LabelTopologyZone: fmt.Sprintf("z%d", rapid.IntRange(0, 1).Draw(t, "zone")),
				}},
				Status: v1.NodeStatus{Allocatable: v1.ResourceList{
					v1.ResourceCPU:  *resource.NewQuantity(rapid.Int64Range(1, 2).Draw(t, "cores"), resource.DecimalSI),
					v1.ResourcePods: resource.MustParse("110"),
				}},
			}
			spans = append(spans, span{fmt.Sprintf("g%d", i), c.AddCopies(predicates.Node{Node: node}, n), n})
		}
		nodes := c.Len()
		for i := range rapid.IntRange(2, 5).Draw(t, "workloads") {
			name := fmt.Sprintf("w%d", i)
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": name}}}
			pod.Spec.Containers = []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU: *resource.NewMilliQuantity(100*rapid.Int64Range(1, 6).Draw(t, "cpu"), resource.DecimalSI),
			}}}}
			if key := rapid.SampledFrom([]string{"", v1.LabelTopologyZone, v1.LabelHostname}).Draw(t, "spread over"); key != "" {
				pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
					TopologyKey: key, MaxSkew: rapid.Int32Range(1, 3).Draw(t, "maxSkew"), WhenUnsatisfiable: v1.DoNotSchedule,
					LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
				}}
			}
			var err error
			if _, spans, err = spreadOut(c, spans, pod, rapid.IntRange(1, 40).Draw(t, "pods")); err != nil {
				t.Fatal(err)
			}
			empty := map[int]bool{}
			for _, s := range spans {
				for id := range s.n {
					empty[s.first+id] = true
				}
			}
			for id := range nodes {
				if on := c.PodCount(id); (on == 0) != empty[id] {
					t.Fatalf("node %d with %d pods counts as empty: %t", id, on, empty[id])
				}
			}
		}
	})
}
