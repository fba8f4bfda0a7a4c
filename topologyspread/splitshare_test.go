package topologyspread_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// TestShareKeepsTheNodesOfEachDomain: whichever groups are chosen, each domain has as many nodes as the
// split gave it, of groups that were chosen, and the domains take turns. A choice of none leaves the
// result as it was.
func TestShareKeepsTheNodesOfEachDomain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := topologyspread.SplitRequest{Pods: rapid.Int64Range(0, 40).Draw(t, "pods"), MaxSkew: 1, PodsPerNode: 2}
		domainOf := map[string]string{}
		for _, domain := range []string{"a", "b", "c"} {
			r.Domains = append(r.Domains, topologyspread.SplitDomain{Name: domain, Active: true})
			for i := range rapid.IntRange(1, 3).Draw(t, "groups") {
				g := topologyspread.SplitGroup{Name: domain + string(rune('0'+i)), Domain: domain, Size: rapid.Int64Range(0, 3).Draw(t, "size"),
					Max: 40}
				r.Groups, domainOf[g.Name] = append(r.Groups, g), domain
			}
		}
		split, err := topologyspread.Split(r)
		if err != nil {
			t.Fatal(err)
		}
		nodes := func(result *topologyspread.SplitResult) map[string]int64 {
			out := map[string]int64{}
			for _, g := range result.Groups {
				out[domainOf[g.Name]] += g.NewSize - g.Size
			}
			return out
		}
		want, total := nodes(&split), int64(0)
		for _, n := range want {
			total += n
		}
		shared, chosen, turns := split, map[string]int64{}, map[string]int64{}
		refuse := rapid.Int64Range(0, 60).Draw(t, "choices before none")
		ok := r.Share(&shared, func(groups []string) int {
			domain := domainOf[groups[0]]
			for other, n := range turns {
				if n < turns[domain] && n < want[other] {
					t.Fatalf("%s gets its node %d before %s, which has %d", domain, turns[domain]+1, other, n)
				}
			}
			if refuse--; refuse < 0 {
				return -1
			}
			i := rapid.IntRange(0, len(groups)-1).Draw(t, "choice")
			chosen[groups[i]]++
			turns[domain]++
			return i
		})
		if !ok {
			if refuse >= 0 || !slices.Equal(shared.Groups, split.Groups) {
				t.Fatalf("%+v instead of %+v", shared.Groups, split.Groups)
			}
			return
		}
		for domain, n := range nodes(&shared) {
			if n != want[domain] {
				t.Fatalf("%s gets %d nodes, want %d", domain, n, want[domain])
			}
		}
		for _, g := range shared.Groups {
			if g.NewSize-g.Size != chosen[g.Name] {
				t.Fatalf("%s gets %d nodes and was chosen %d times", g.Name, g.NewSize-g.Size, chosen[g.Name])
			}
		}
		if turns["a"]+turns["b"]+turns["c"] != total {
			t.Fatalf("turns %v for %d nodes", turns, total)
		}
	})
}
