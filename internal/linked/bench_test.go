package linked

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// oneSet is a cloud whose groups are all similar, with nodes whose memory differs a little, as of
// real machines. Every second group is empty if asked for.
func oneSet(groups int, empty bool) *testCloud {
	c := newCloud()
	for i := range groups {
		c.group(fmt.Sprintf("group-%04d", i), "one", func(n *v1.Node) {
			n.Status.Allocatable[v1.ResourceMemory] = *resource.NewQuantity(15<<30+int64(i%100)<<12, resource.BinarySI)
			if empty && i%2 == 1 {
				n.Status.NodeInfo.KubeletVersion = ""
				return
			}
			n.Status.Capacity["hugepages-2Mi"] = resource.MustParse("64Mi")
		})
	}
	return c
}

// BenchmarkLoop asks about every group of one large set in a loop with new templates, as a scale-up
// does: where the templates say what they said before, and where one has changed.
func BenchmarkLoop(b *testing.B) {
	for _, groups := range []int{30, 300, 1000, 3000} {
		for _, changed := range []bool{false, true} {
			b.Run(fmt.Sprintf("groups=%d/changed=%t", groups, changed), func(b *testing.B) {
				c, s := oneSet(groups, true), newSets(b)
				c.similar(s, "group-0000")
				b.ReportAllocs()
				for b.Loop() {
					b.StopTimer()
					c.next()
					if changed {
						c.template("group-0000", "one", func(n *v1.Node) { n.Status.Capacity["pods"] = resource.MustParse(fmt.Sprint(50 + c.loop%2)) })
					}
					b.StartTimer()
					for id := range c.templates {
						if partners := s.Similar(id, c.templates, c); !changed && len(partners) != groups-1 {
							b.Fatalf("%s has %d partners", id, len(partners))
						}
					}
				}
			})
		}
	}
}

// BenchmarkCandidates orders two nodes each of the groups of one large set.
func BenchmarkCandidates(b *testing.B) {
	for _, groups := range []int{30, 300, 1000, 3000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			var all []downGroup
			for i := range groups {
				all = append(all, downGroup{name: fmt.Sprintf("group-%04d", i), set: "group-0000", size: 2})
			}
			c := newDownCluster(time.Hour, all...)
			c.index()
			var nodes []*v1.Node
			for _, node := range c.nodes {
				nodes = append(nodes, node)
			}
			order := Candidates[*testGroup]{Cloud: c.testCloud, Deletions: c.deletions, SetOf: c.setOf,
				Moves: func(n *v1.Node) bool { return n.Name[len(n.Name)-1] == '0' }}
			b.ReportAllocs()
			for b.Loop() {
				if got := order.Order(ByName(nodes)); len(got) != len(nodes) {
					b.Fatal(len(got))
				}
			}
		})
	}
}
