package nodegroupset_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Nine pods that run anywhere and one that runs in zone a only, and then pods of two kinds that have
// zone b in common, each pod on a node of its own.
func ExampleClasses() {
	show := func(pods map[string]int) {
		var takers [][]string
		for zones, n := range pods {
			takers = append(takers, slices.Repeat([][]string{strings.Split(zones, "")}, n)...)
		}
		request := nodegroupset.SplitRequest{
			Nodes:   int64(len(takers)),
			Groups:  []nodegroupset.Group{{Name: "a", Max: 9}, {Name: "b", Max: 9}, {Name: "c", Max: 9}},
			Classes: nodegroupset.Classes(len(takers), func(pod int) []string { return takers[pod] }),
		}
		for i := range request.Classes {
			request.Classes[i].Nodes = int64(len(request.Classes[i].Items))
		}
		result, err := nodegroupset.Split(request)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(result.Groups[0].NewSize, result.Groups[1].NewSize, result.Groups[2].NewSize)
		for i, class := range result.Classes {
			fmt.Println(request.Classes[i].Members, class.Nodes)
		}
	}
	show(map[string]int{"a": 1, "abc": 9})
	show(map[string]int{"ab": 2, "bc": 4})
	// Output:
	// 4 3 3
	// [a] map[a:1]
	// [a b c] map[a:3 b:3 c:3]
	// 2 2 2
	// [a b] map[a:2]
	// [b c] map[b:2 c:2]
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
