package nodegroupset

import (
	"fmt"
	"testing"
)

// benchShrink has every node for a candidate, in sets of three groups: one in
// three has pods to move, and one in five has waited long enough.
func benchShrink(groups, nodes int) ShrinkRequest {
	request := ShrinkRequest{Nodes: Unlimited, Drains: int64(nodes) / 20}
	for i := range groups {
		request.Groups = append(request.Groups, ShrinkGroup{
			Name: fmt.Sprintf("group-%04d", i), Set: fmt.Sprintf("set-%04d", i/3), Size: int64(nodes/groups + i*37%5), Min: 1,
		})
	}
	for i := range nodes {
		request.Candidates = append(request.Candidates, ShrinkCandidate{
			Group: request.Groups[i*31%groups].Name, Drain: i%3 == 0, Overdue: i%5 == 0,
		})
	}
	return request
}

func BenchmarkShrink(b *testing.B) {
	for _, groups := range []int{3, 300, 3000} {
		b.Run(fmt.Sprintf("groups=%d/nodes=10000", groups), func(b *testing.B) {
			request := benchShrink(groups, 10_000)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Shrink(request); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
