package apportion_test

import (
	"fmt"
	"math"

	"github.com/evenkeel/evenkeel/apportion"
)

// Nine nodes over three groups; the first two share a quota of three.
func ExampleLevel() {
	bins := []apportion.Bin{
		{Size: 0, Max: 10},
		{Size: 1, Max: 10},
		{Size: 2, Max: 10},
	}
	quota := apportion.Quota{Members: []int{0, 1}, Limit: 3}
	got, err := apportion.Level(9, bins, []apportion.Quota{quota})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("sizes", got.Sizes, "unplaced", got.Unplaced, "held by", got.HeldBy)
	// Output: sizes [2 1 9] unplaced 0 held by [0 0 -1]
}

// 50 replicas over three clusters, of which one can run only six.
func ExampleDistribute() {
	got, err := apportion.Distribute(apportion.Request{
		Replicas: 50,
		Targets: []apportion.Target{
			{Name: "a", Capacity: new(int64(6))},
			{Name: "b"},
			{Name: "c"},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, t := range got.Targets {
		fmt.Println(t.Name, t.Replicas, "pending", t.Pending, t.Reason)
	}
	// Output:
	// a 17 pending 11 capacity
	// b 22 pending 0 weight
	// c 22 pending 0 weight
}

// Today's sizes are the lower bounds of a split by weight.
func ExampleSpread() {
	claims := []apportion.Claim{
		{Weight: 2, Low: 1, High: math.MaxInt64},
		{Weight: 1, Low: 4, High: math.MaxInt64},
	}
	fmt.Println(apportion.Spread(9, claims, apportion.LargestRemainder))
	// Output: [5 4]
}
