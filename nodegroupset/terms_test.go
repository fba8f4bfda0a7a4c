package nodegroupset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomTerms are terms of a set with empty groups.
func randomTerms(r *rand.Rand) (*Terms, []Group) {
	terms := &Terms{Set: "s", Policy: []Policy{Even, Priority, Proportional}[r.IntN(3)], Capacity: map[string]int64{}}
	var groups []Group
	for i := range 1 + r.IntN(3) {
		p := Portion{Name: fmt.Sprint("p", i), Weight: 1 + r.Int64N(9), Base: r.Int64N(9) * r.Int64N(2)}
		for k := range 1 + r.IntN(3) {
			g := Group{Name: fmt.Sprintf("%d%d", i, k), Max: 1 + r.Int64N(12)}
			p.Groups, groups = append(p.Groups, g.Name), append(groups, g)
			terms.Capacity[g.Name] = 1 + r.Int64N(3)
		}
		terms.Portions = append(terms.Portions, p)
	}
	return terms, groups
}

// TestShrinkTakesBackWhatSplitGave grows sets node by node, by capacities that differ
// and so without remainders that a further node moves, and shrinks them again.
func TestShrinkTakesBackWhatSplitGave(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	for range 3_000 {
		terms, groups := randomTerms(r)
		var before [][]int64
		for {
			sizes := make([]int64, len(groups))
			for i := range groups {
				sizes[i] = groups[i].Size
			}
			result, err := Split(terms.Of(SplitRequest{Nodes: 1, Groups: groups}, ""))
			if err != nil {
				t.Fatal(err)
			}
			if result.Unplaced > 0 {
				break
			}
			before = append(before, sizes)
			for i, size := range sizesOf(result) {
				groups[i].Size = size
			}
		}
		if !terms.differ() {
			continue // the largest remainder of three portions may move
		}
		for _, want := range slices.Backward(before) {
			shrinks := make([]ShrinkGroup, len(groups))
			for i, g := range groups {
				shrinks[i] = ShrinkGroup{Name: g.Name, Set: "s", Size: g.Size}
			}
			at := ShrinksFirst(shrinks, terms)
			groups[at].Size--
			for i, g := range groups {
				if g.Size != want[i] {
					t.Fatalf("%+v: %s went, which leaves %v, want %v", terms, groups[at].Name, groups, want)
				}
			}
		}
	}
}

func (t *Terms) differ() bool {
	var groups []Group
	for name, capacity := range t.Capacity {
		groups = append(groups, Group{Name: name, Capacity: capacity})
	}
	return SplitRequest{Groups: groups, Portions: t.Portions}.capacitiesDiffer()
}

func TestShrinkUnderTermsTakesTheGroupsThatShrinkFirst(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 5_000 {
		terms, groups := randomTerms(r)
		request := ShrinkRequest{Nodes: Unlimited, Drains: Unlimited, Terms: map[string]*Terms{"s": terms}}
		for _, g := range groups {
			size := r.Int64N(9)
			request.Groups = append(request.Groups, ShrinkGroup{Name: g.Name, Set: "s", Size: size, Min: r.Int64N(3)})
			for range size {
				request.Candidates = append(request.Candidates, ShrinkCandidate{Group: g.Name, Overdue: true})
			}
		}
		got, err := Shrink(request)
		if err != nil {
			t.Fatal(err)
		}
		left := slices.Clone(request.Groups)
		for _, at := range got.Go {
			first := ShrinksFirst(left, terms)
			if first < 0 || left[first].Name != request.Candidates[at].Group {
				t.Fatalf("%+v of %+v: %s goes, want position %d", terms, left, request.Candidates[at].Group, first)
			}
			left[first].Size--
		}
		if ShrinksFirst(left, terms) >= 0 {
			t.Fatalf("%+v: could shrink further: %+v", terms, left)
		}
	}
}

func TestShrinkUnderTermsWaitsForThePortionAboveItsWeight(t *testing.T) {
	_, portions := fleetOf()
	request := ShrinkRequest{
		Nodes: Unlimited, Drains: Unlimited,
		Terms: map[string]*Terms{"s": {Set: "s", Policy: Proportional, Portions: portions}},
		// 2 and 20/80 of 10 are 4 and 8; one on demand is too many.
		Groups: []ShrinkGroup{
			{Name: "on-demand-a", Set: "s", Size: 3}, {Name: "on-demand-b", Set: "s", Size: 2}, {Name: "on-demand-c", Set: "s"},
			{Name: "spot-a", Set: "s", Size: 3}, {Name: "spot-b", Set: "s", Size: 3}, {Name: "spot-c", Set: "s", Size: 2},
		},
		Candidates: []ShrinkCandidate{{Group: "spot-a"}, {Group: "spot-b", Overdue: true}},
	}
	got, err := Shrink(request)
	if err != nil {
		t.Fatal(err)
	}
	want := ShrinkResult{Go: []int{1}, Waits: []ShrinkWait{{Candidate: 0, Reason: ReasonWaitsForLevel, Behind: "on-demand-a"}}}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
