package expander_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
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

// From kinds of pending pods to a choice that explains itself.
func Example() {
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	web, batch := pod("web", "500m", "1Gi"), pod("batch", "3", "6Gi")
	workload := expander.NewWorkload([]predicates.Kind{
		{Pod: web, Pods: []int{0, 2, 3, 4, 5, 6, 7, 8}},
		{Pod: batch, Pods: []int{1, 9}},
	})
	estimator := expander.NewEstimator(checker.Cluster(nil))

	var options []expander.Option
	for _, node := range []*v1.Node{machine("small", "4", "8Gi"), machine("large", "16", "64Gi")} {
		phases := []expander.Phase{{
			Template: predicates.Node{Node: node},
			Shape:    node.Name,
			Demands:  workload.Demands(0, 1),
			MaxNodes: expander.NoLimit,
		}}
		estimation, err := estimator.Estimate(phases, 10)
		if err != nil {
			fmt.Println(err)
			return
		}
		option := workload.Option(node.Name, phases, estimation)
		option.Template = cloudprovider.Template{Node: node}
		options = append(options, option)
	}

	chain, err := expander.New([]string{"most-pods", "least-waste"}, expander.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	chosen, trail, err := chain.Choose(options)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d nodes of %s for %d pods\n%s", chosen.NodeCount, chosen.Group, chosen.Pods.Len(), trail)
	// Output:
	// 3 nodes of small for 10 pods
	// most-pods: keeps large (10 pods), small (10 pods)
	// least-waste: keeps small (16.67 % wasted (cpu 16.67 %, memory 16.67 %)); drops large (53.13 % wasted (cpu 37.50 %, memory 68.75 %))
}

func ExampleParsePriorities() {
	priorities, err := expander.ParsePriorities([]byte(`
apiVersion: v1
kind: ConfigMap
metadata: {name: cluster-autoscaler-priority-expander}
data:
  priorities: |
    10: [on-demand]
    50: [spot-.*-large, spot-.*-xlarge]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	match, _ := priorities.Match("spot-m5-xlarge")
	fmt.Println(match.Priority, match.Rule)

	_, err = expander.ParsePriorities([]byte("10: [on-demand, '*spot']"))
	fmt.Println(err)
	// Output:
	// 50 spot-.*-xlarge
	// priorities[10][1]: Invalid value: "*spot": error parsing regexp: missing argument to repetition operator: `*`
}

func ExampleParseNames() {
	_, err := expander.ParseNames("random,least-waste")
	fmt.Println(err)
	// Output:
	// expander never reached: least-waste stands behind random, which always leaves one option
}

func ExampleRepresentatives() {
	options := []expander.Option{
		{Group: "m5-b", Set: "m5", NodeCount: 3},
		{Group: "m5-a", Set: "m5", NodeCount: 3},
		{Group: "gpu", NodeCount: 1},
	}
	for _, o := range expander.Representatives(options) {
		fmt.Println(o.Group)
	}
	// Output:
	// gpu
	// m5-a
}
