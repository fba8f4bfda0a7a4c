package estimator_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/estimator"
	"github.com/evenkeel/evenkeel/predicates"
)

func list(cpu, memory string) v1.ResourceList {
	return v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse(cpu),
		v1.ResourceMemory: resource.MustParse(memory),
		v1.ResourcePods:   resource.MustParse("110"),
	}
}

func machine(name, cpu, memory string) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Status:     v1.NodeStatus{Capacity: list(cpu, memory), Allocatable: list(cpu, memory)},
	}
}

func pod(name, cpu, memory string) *v1.Pod {
	requests := list(cpu, memory)
	delete(requests, v1.ResourcePods)
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec:       v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: requests}}}},
	}
}

// From kinds of pending pods to the nodes of two groups.
func Example() {
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	web, batch := pod("web", "500m", "1Gi"), pod("batch", "3", "6Gi")
	estimates := estimator.New(checker.Cluster(nil))

	for _, node := range []*v1.Node{machine("small", "4", "8Gi"), machine("large", "16", "64Gi")} {
		estimation, err := estimates.Estimate(estimator.Request{
			Template: predicates.Node{Node: node},
			Class:    node.Name,
			Demands:  []estimator.Demand{{Pod: web, Count: 8}, {Pod: batch, Count: 2}},
		}, 10)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%d nodes of %s for %d web and %d batch pods\n", estimation.NodeCount, node.Name, estimation.Placed[0], estimation.Placed[1])
	}
	// Output:
	// 3 nodes of small for 8 web and 2 batch pods
	// 1 nodes of large for 8 web and 2 batch pods
}
