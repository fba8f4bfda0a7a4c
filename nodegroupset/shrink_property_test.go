package nodegroupset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// shrinkOracle looks at everything again for every node that goes.
type shrinkOracle struct {
	ShrinkRequest
	sizes map[string]int64
	gone  []bool
	order []int
}

func (o *shrinkOracle) group(name string) ShrinkGroup {
	return o.Groups[slices.IndexFunc(o.Groups, func(g ShrinkGroup) bool { return g.Name == name })]
}

// setOf names a set, that of a group without one as no set can be named.
func setOf(g ShrinkGroup) string {
	if g.Set == "" {
		return "alone " + g.Name
	}
	return "set " + g.Set
}

func (o *shrinkOracle) canShrink(g ShrinkGroup) bool { return o.sizes[g.Name] > g.Min }

// largest is the size of the largest groups of a set that can shrink.
func (o *shrinkOracle) largest(set string) int64 {
	level := int64(-1)
	for _, g := range o.Groups {
		if setOf(g) == set && o.canShrink(g) {
			level = max(level, o.sizes[g.Name])
		}
	}
	return level
}

// first is the first candidate of a group that may go, or -1.
func (o *shrinkOracle) first(group string, overdue bool) int {
	for i, c := range o.Candidates {
		if c.Group == group && !o.gone[i] && (!c.Drain || o.Drains > 0) && (!overdue || c.Overdue) {
			return i
		}
	}
	return -1
}

// best is the group of a set to shrink next and its candidate; -1 if there is none.
func (o *shrinkOracle) best(set string, overdue bool) int {
	best := -1
	var rank []string
	for _, g := range o.Groups {
		if setOf(g) != set || !o.canShrink(g) || !overdue && o.sizes[g.Name] < o.largest(set) {
			continue
		}
		next := o.first(g.Name, overdue)
		if next < 0 {
			continue
		}
		claim := []string{
			fmt.Sprintf("%012d", o.sizes[g.Name]), fmt.Sprint(!o.Candidates[next].Drain), fmt.Sprint(o.first(g.Name, true) >= 0), g.Name,
		}
		if best < 0 || slices.Compare(claim, rank) > 0 {
			best, rank = next, claim
		}
	}
	return best
}

// next is the candidate that goes next, or -1.
func (o *shrinkOracle) next() int {
	next := -1
	for _, g := range o.Groups {
		pick := o.best(setOf(g), false)
		if pick < 0 {
			pick = o.best(setOf(g), true)
		}
		if pick >= 0 && (next < 0 || pick < next) {
			next = pick
		}
	}
	return next
}

func (o *shrinkOracle) run() {
	o.gone = make([]bool, len(o.Candidates))
	o.sizes = map[string]int64{}
	for _, g := range o.Groups {
		o.sizes[g.Name] = g.Size
	}
	for o.Nodes > 0 {
		pick := o.next()
		if pick < 0 {
			return
		}
		o.order = append(o.order, pick)
		o.gone[pick] = true
		o.Nodes--
		if o.Candidates[pick].Drain {
			o.Drains--
		}
		o.sizes[o.Candidates[pick].Group]--
	}
}

// reason is why a candidate that is left waits.
func (o *shrinkOracle) reason(i int) ShrinkReason {
	g := o.group(o.Candidates[i].Group)
	switch {
	case !o.canShrink(g):
		return ReasonAtMin
	case o.sizes[g.Name] < o.largest(setOf(g)) && !o.Candidates[i].Overdue:
		return ReasonWaitsForLevel
	}
	return ReasonWaitsForLimit
}

// randomShrink makes a request whose numbers are close enough to meet.
func randomShrink(number func(high int) int) ShrinkRequest {
	flag := func(oneIn int) bool { return number(oneIn-1) == 0 }
	request := ShrinkRequest{Nodes: Unlimited, Drains: Unlimited}
	if flag(2) {
		request.Nodes = int64(number(12))
	}
	if flag(2) {
		request.Drains = int64(number(6))
	}
	sets := []string{"", "x", "y", "z"}[:number(3)+1]
	for i := range number(6) + 1 {
		request.Groups = append(request.Groups, ShrinkGroup{
			Name: string(rune('a' + i)), Set: sets[number(len(sets)-1)], Size: int64(number(7)), Min: int64(max(0, number(5)-2)),
		})
	}
	for range number(24) {
		group := request.Groups[number(len(request.Groups)-1)].Name
		request.Candidates = append(request.Candidates, ShrinkCandidate{Group: group, Drain: flag(2), Overdue: flag(3)})
	}
	return request
}

func TestShrinkIsTheSlowWalk(t *testing.T) {
	cases := 100_000
	if testing.Short() {
		cases = 20_000
	}
	random := rand.New(rand.NewPCG(1, 2))
	for range cases {
		request := randomShrink(func(high int) int { return random.IntN(high + 1) })
		oracle := shrinkOracle{ShrinkRequest: request}
		oracle.run()
		got, err := Shrink(request)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(oracle.order, got.Go) {
			t.Fatalf("%+v:\ngo %v, want %v", request, got.Go, oracle.order)
		}
		for _, wait := range got.Waits {
			if want := oracle.reason(wait.Candidate); wait.Reason != want {
				t.Fatalf("%+v:\n%d waits for %s, want %s", request, wait.Candidate, wait.Reason, want)
			}
			group := oracle.group(request.Candidates[wait.Candidate].Group)
			if wait.Reason == ReasonWaitsForLevel {
				behind := oracle.group(wait.Behind)
				if setOf(behind) != setOf(group) || oracle.sizes[behind.Name] != oracle.largest(setOf(group)) || !oracle.canShrink(behind) {
					t.Fatalf("%+v:\n%d waits behind %q, which is no largest group of its set", request, wait.Candidate, wait.Behind)
				}
			} else if wait.Behind != "" {
				t.Fatalf("%+v:\n%d waits for %s behind %q", request, wait.Candidate, wait.Reason, wait.Behind)
			}
		}
	}
}

// drawShrink draws a request, its answer and the sizes after it.
func drawShrink(t *rapid.T) (ShrinkRequest, ShrinkResult, map[string]int64) {
	request := randomShrink(func(high int) int { return rapid.IntRange(0, high).Draw(t, "n") })
	result, err := Shrink(request)
	if err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, g := range request.Groups {
		sizes[g.Name] = g.Size
	}
	for _, i := range result.Go {
		sizes[request.Candidates[i].Group]--
	}
	return request, result, sizes
}

func TestShrinkPutsEachCandidateInOneList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, result, _ := drawShrink(t)
		var all []int
		for i, wait := range result.Waits {
			all = append(all, wait.Candidate)
			if i > 0 && result.Waits[i-1].Candidate >= wait.Candidate {
				t.Fatalf("waits are not by position: %+v", result.Waits)
			}
		}
		all = append(all, result.Go...)
		slices.Sort(all)
		for i := range request.Candidates {
			if i >= len(all) || all[i] != i || len(all) != len(request.Candidates) {
				t.Fatalf("%d candidates, listed are %v", len(request.Candidates), all)
			}
		}
	})
}

func TestShrinkKeepsToLimitsAndMins(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, result, sizes := drawShrink(t)
		drains := int64(0)
		for _, i := range result.Go {
			if request.Candidates[i].Drain {
				drains++
			}
		}
		if int64(len(result.Go)) > request.Nodes || drains > request.Drains {
			t.Fatalf("%d go and %d of them with pods, the limits are %d and %d", len(result.Go), drains, request.Nodes, request.Drains)
		}
		for _, g := range request.Groups {
			if sizes[g.Name] < min(g.Size, g.Min) {
				t.Fatalf("%+v becomes %d", g, sizes[g.Name])
			}
		}
	})
}

// unevenness is the difference between the largest and the smallest group of each
// set that can shrink.
func unevenness(groups []ShrinkGroup, size func(ShrinkGroup) int64) map[string]int64 {
	low, high, out := map[string]int64{}, map[string]int64{}, map[string]int64{}
	for _, g := range groups {
		n, set := size(g), setOf(g)
		if n <= g.Min {
			continue
		}
		if _, known := high[set]; !known {
			low[set], high[set] = n, n
		}
		low[set], high[set] = min(low[set], n), max(high[set], n)
		out[set] = high[set] - low[set]
	}
	return out
}

func TestShrinkNeverMakesSetsLessLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, result, sizes := drawShrink(t)
		forced := map[string]bool{}
		for _, i := range result.Go {
			if request.Candidates[i].Overdue {
				for _, g := range request.Groups {
					forced[setOf(g)] = forced[setOf(g)] || g.Name == request.Candidates[i].Group
				}
			}
		}
		before := unevenness(request.Groups, func(g ShrinkGroup) int64 { return g.Size })
		for set, after := range unevenness(request.Groups, func(g ShrinkGroup) int64 { return sizes[g.Name] }) {
			if after > max(1, before[set]) && !forced[set] {
				t.Fatalf("%s: the difference grows from %d to %d", set, before[set], after)
			}
		}
	})
}

func TestShrinkKeepsTheOrderWithinAGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, result, _ := drawShrink(t)
		last := map[string]int{}
		for _, i := range result.Go {
			group := request.Candidates[i].Group
			if before, known := last[group]; known && before > i {
				t.Fatalf("%s: %d goes before %d", group, before, i)
			}
			last[group] = i
		}
	})
}

func TestShrinkIsTheSameForShuffledGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, want, _ := drawShrink(t)
		request.Groups = rapid.Permutation(request.Groups).Draw(t, "order")
		got, err := Shrink(request)
		if diff := gocmp.Diff(want, got); err != nil || diff != "" {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func TestShrinkLetsAllOverdueGoWithoutLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request, _, _ := drawShrink(t)
		request.Nodes, request.Drains = Unlimited, Unlimited
		for i := range request.Candidates {
			request.Candidates[i].Overdue = true
		}
		got, err := Shrink(request)
		if err != nil {
			t.Fatal(err)
		}
		for _, wait := range got.Waits {
			if wait.Reason != ReasonAtMin {
				t.Fatalf("%d waits for %s", wait.Candidate, wait.Reason)
			}
		}
	})
}

func TestShrinkLeavesItsInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := randomShrink(func(high int) int { return rapid.IntRange(0, high).Draw(t, "n") })
		before := ShrinkRequest{slices.Clone(request.Groups), slices.Clone(request.Candidates), request.Nodes, request.Drains, nil}
		if _, err := Shrink(request); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(before, request); diff != "" {
			t.Fatalf("changed (-before +after):\n%s", diff)
		}
	})
}

// TestShrinkBeginsWhereShrinksFirstSays: with equal candidates everywhere both choose the same
// group.
func TestShrinkBeginsWhereShrinksFirstSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var request ShrinkRequest
		request.Nodes, request.Drains = 1, Unlimited
		for i := range rapid.IntRange(0, 5).Draw(t, "groups") {
			name := string(rune('a' + i))
			request.Groups = append(request.Groups, ShrinkGroup{
				Name: name, Set: "s", Size: rapid.Int64Range(0, 4).Draw(t, "size"), Min: rapid.Int64Range(0, 4).Draw(t, "min"),
			})
			request.Candidates = append(request.Candidates, ShrinkCandidate{Group: name})
		}
		result, err := Shrink(request)
		if err != nil {
			t.Fatal(err)
		}
		got := -1
		if len(result.Go) > 0 {
			got = result.Go[0]
		}
		if want := ShrinksFirst(request.Groups, nil); got != want {
			t.Fatalf("Shrink begins with group %d, ShrinksFirst says %d: %+v", got, want, request.Groups)
		}
	})
}
