package expander_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/podfit"
)

// Two ways to run ten pods that request 10 cores and 20 GiB together.
func Example() {
	requested := podfit.Resources{v1.ResourceCPU: 10_000, v1.ResourceMemory: 20 << 30}
	machine := func(cpu, memory string) cloudprovider.Template {
		resources := v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory)}
		return cloudprovider.Template{Node: &v1.Node{Status: v1.NodeStatus{Capacity: resources, Allocatable: resources}}}
	}
	options := []expander.Option{
		{Group: "small", NodeCount: 3, Pods: 10, Requested: requested, Template: machine("4", "8Gi")},
		{Group: "large", NodeCount: 1, Pods: 10, Requested: requested, Template: machine("16", "64Gi")},
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
	fmt.Printf("%d nodes of %s for %d pods\n%s", chosen.NodeCount, chosen.Group, chosen.Pods, trail)
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
