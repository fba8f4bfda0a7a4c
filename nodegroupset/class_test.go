package nodegroupset_test

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Nine pods that run anywhere and one that runs in zone a only, each on a node of its own.
func ExampleClasses() {
	groups := []nodegroupset.Group{{Name: "a", Max: 9}, {Name: "b", Max: 9}, {Name: "c", Max: 9}}
	classes := nodegroupset.Classes(10, func(pod int) []string {
		if pod == 9 {
			return []string{"a"}
		}
		return []string{"a", "b", "c"}
	})
	for _, class := range classes {
		request := nodegroupset.SplitRequest{Nodes: int64(len(class.Items)), Groups: groups[:len(class.Members)]}
		result, err := nodegroupset.Split(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		for i, g := range result.Groups {
			groups[i].Size = g.NewSize
		}
		fmt.Println(class.Members, groups[0].Size, groups[1].Size, groups[2].Size)
	}
	// Output:
	// [a] 1 0 0
	// [a b c] 4 3 3
}

// TestEveryItemIsInTheClassOfItsTakers: items are in one class exactly if the same groups take
// them, in a stable order.
func TestEveryItemIsInTheClassOfItsTakers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := []string{"a", "b", "c", "d"}
		takers := make([][]string, rapid.IntRange(0, 30).Draw(t, "items"))
		for i := range takers {
			for _, g := range rapid.Permutation(groups).Draw(t, "order") {
				if rapid.Bool().Draw(t, g) {
					takers[i] = append(takers[i], g)
				}
			}
		}
		classes := nodegroupset.Classes(len(takers), func(i int) []string { return takers[i] })
		seen := 0
		for k, c := range classes {
			if k > 0 {
				before := classes[k-1]
				if len(before.Members) > len(c.Members) || len(before.Members) == len(c.Members) && slices.Compare(before.Members, c.Members) >= 0 {
					t.Fatalf("class of %v comes before that of %v", before.Members, c.Members)
				}
			}
			if !slices.IsSorted(c.Items) {
				t.Fatalf("items %v are not in order", c.Items)
			}
			for _, i := range c.Items {
				if want := slices.Sorted(slices.Values(takers[i])); !slices.Equal(want, c.Members) {
					t.Fatalf("item %d of %v is in the class of %v", i, want, c.Members)
				}
				seen++
			}
		}
		for _, names := range takers {
			if len(names) > 0 {
				seen--
			}
		}
		if seen != 0 {
			t.Fatalf("%d items too many in the classes", seen)
		}
	})
}
