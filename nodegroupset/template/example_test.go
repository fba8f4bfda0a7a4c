package template_test

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// A group with a node, and an empty one of which the cloud does not know the ephemeral storage.
func Example() {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-0-1", Labels: map[string]string{v1.LabelHostname: "ip-10-0-0-1", v1.LabelTopologyZone: "a"}},
		Spec:       v1.NodeSpec{Taints: []v1.Taint{{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoExecute}}},
		Status: v1.NodeStatus{Capacity: v1.ResourceList{
			v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"),
			v1.ResourceEphemeralStorage: resource.MustParse("80Gi"),
		}},
	}
	node.Status.Allocatable = node.Status.Capacity
	populated := template.OfNode("m5-a", node, nil, nil)
	fmt.Printf("m5-a: %s, %d taints\n", populated.Node.Name, len(populated.Node.Spec.Taints))

	catalogue := node.DeepCopy()
	catalogue.Labels[v1.LabelTopologyZone] = "b"
	delete(catalogue.Status.Capacity, v1.ResourceEphemeralStorage)
	delete(catalogue.Status.Allocatable, v1.ResourceEphemeralStorage)
	empty := template.OfCloud("m5-b", cloudprovider.Template{Node: catalogue}, nil, nil)

	completions, err := template.Complete(
		map[string]cloudprovider.Template{"m5-a": *populated, "m5-b": *empty}, map[string]bool{"m5-b": true},
		nodegroupset.Options{}, slices.Values([]*v1.PodSpec{}))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("m5-b:", completions["m5-b"].Note)
	// Output:
	// m5-a: template-node-for-m5-a, 0 taints
	// m5-b: completed from m5-a (ephemeral-storage)
}
