package plan_test

import (
	"fmt"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/plan"
)

// Four nodes over three groups: the sizes come out even as far as they can.
func Example() {
	n := func(i int64) *int64 { return &i }
	question := &v1alpha1.NodeGroupSplit{Spec: v1alpha1.NodeGroupSplitSpec{
		Nodes:  n(4),
		Chosen: "c",
		Groups: []v1alpha1.SplitGroup{
			{Name: "a", Size: n(1), Max: n(10)},
			{Name: "b", Size: n(3), Max: n(10)},
			{Name: "c", Size: n(6), Max: n(10)},
		},
	}}
	answer, err := plan.Answer(question)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, g := range answer.(*v1alpha1.NodeGroupSplitStatus).Groups {
		fmt.Println(g.Name, g.Size, "->", g.NewSize)
	}
	// Output:
	// a 1 -> 4
	// b 3 -> 4
	// c 6 -> 6
}
