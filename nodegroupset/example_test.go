package nodegroupset_test

import (
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// machine is a template of 2 cores whose daemon set asks for some of them.
func machine(zone, daemonCPU string) cloudprovider.Template {
	amounts := func(cpu string) v1.ResourceList {
		return v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("8Gi")}
	}
	node := &v1.Node{}
	node.Labels = map[string]string{"topology.kubernetes.io/zone": zone, "family": "m5"}
	node.Status.Capacity, node.Status.Allocatable = amounts("2"), amounts("1930m")
	requests := v1.ResourceList{"cpu": resource.MustParse(daemonCPU)}
	daemon := &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: requests}}}}}
	return cloudprovider.Template{Node: node, Pods: []*v1.Pod{daemon}}
}

func ExampleIndex() {
	index, err := nodegroupset.NewIndex(nodegroupset.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for name, template := range map[string]cloudprovider.Template{
		"m5-a": machine("a", "150m"), "m5-b": machine("b", "50m"), "m5-c": machine("c", "50m"),
	} {
		if err := index.Set(name, template); err != nil {
			fmt.Println(err)
			return
		}
	}
	fmt.Println("similar to m5-b:", index.Similar("m5-b"))
	fmt.Println("sets:", index.Sets())
	for _, d := range index.Differences("m5-a", "m5-b") {
		fmt.Printf("%s: %s and %s differ by %s, the limit is %s\n", d.Field, *d.Left, *d.Right, d.Ratio, d.Limit)
	}
	for _, miss := range index.Explain().Misses {
		fmt.Println("would join them:", miss.Remedy.Flags, miss.Remedy.Joined)
	}
	// Output:
	// similar to m5-b: [m5-c]
	// sets: [[m5-a] [m5-b m5-c]]
	// free.cpu: 1780m and 1880m differ by 0.0532, the limit is 0.05
	// would join them: [--max-free-difference-ratio=0.0532] [[m5-a m5-b m5-c]]
}

func ExampleSplit() {
	result, err := nodegroupset.Split(nodegroupset.SplitRequest{
		Nodes:  4,
		Chosen: "c",
		Groups: []nodegroupset.Group{
			{Name: "a", Size: 1, Max: 10}, {Name: "b", Size: 3, Max: 10}, {Name: "c", Size: 6, Max: 10},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, group := range result.Groups {
		fmt.Printf("%s: %d -> %d\n", group.Name, group.Size, group.NewSize)
	}
	// Output:
	// a: 1 -> 4
	// b: 3 -> 4
	// c: 6 -> 6
}

func ExampleSplit_quota() {
	result, err := nodegroupset.Split(nodegroupset.SplitRequest{
		Nodes:  6,
		Groups: []nodegroupset.Group{{Name: "a", Max: 10}, {Name: "b", Max: 10}},
		Quotas: []nodegroupset.Quota{{Name: "zone-a", Groups: []string{"a"}, Limit: 2}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, group := range result.Groups {
		fmt.Println(group.Name, group.NewSize, group.Reason, group.Detail)
	}
	// Output:
	// a 2 quota zone-a
	// b 4
}

func ExampleShrink() {
	result, err := nodegroupset.Shrink(nodegroupset.ShrinkRequest{
		Groups: []nodegroupset.ShrinkGroup{
			{Name: "a", Set: "m5", Size: 6}, {Name: "b", Set: "m5", Size: 5}, {Name: "c", Set: "m5", Size: 6, Min: 6},
		},
		Candidates: []nodegroupset.ShrinkCandidate{
			{Group: "b"}, {Group: "a"}, {Group: "a"}, {Group: "c"}, {Group: "b"}, {Group: "b"},
		},
		Nodes:  nodegroupset.Unlimited,
		Drains: nodegroupset.Unlimited,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("go:", result.Go)
	for _, wait := range result.Waits {
		fmt.Printf("%d waits for %s %q\n", wait.Candidate, wait.Reason, wait.Behind)
	}
	// Output:
	// go: [1 0 2 4]
	// 3 waits for min ""
	// 5 waits for level "a"
}

func ExampleParseRatio() {
	ratio, err := nodegroupset.ParseRatio("0.0532")
	fmt.Println(ratio, err)
	_, err = nodegroupset.ParseRatio("5")
	fmt.Println(err)
	// Output:
	// 0.0532 <nil>
	// invalid value: "5": must be between 0 and 1
}
