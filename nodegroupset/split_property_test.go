package nodegroupset

import (
	"cmp"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The oracle hands out node after node.

type splitOracle struct {
	SplitRequest
	sizes []int64
	left  int64
}

func (o *splitOracle) roomUnderQuotas(i int) bool {
	for _, c := range o.Quotas {
		var used, own int64
		for k, name := range c.Groups {
			units := int64(1)
			if c.Units != nil {
				units = c.Units[k]
			}
			for j, group := range o.Groups {
				if group.Name == name {
					used += units * o.sizes[j]
					if j == i {
						own = units
					}
				}
			}
		}
		if own > 0 && used+own > c.Limit {
			return false
		}
	}
	return true
}

// earlier reports whether group i is served before its equal j.
func (o *splitOracle) earlier(i, j int) bool {
	a, b := o.Groups[i].Name, o.Groups[j].Name
	if a == o.Chosen || b == o.Chosen {
		return a == o.Chosen && b != o.Chosen
	}
	return a < b
}

// fill gives nodes to the smallest group below its bound until none is left.
func (o *splitOracle) fill(ceiling func(Group) int64) {
	for ; o.left > 0; o.left-- {
		best := -1
		for i, group := range o.Groups {
			if o.sizes[i] >= ceiling(group) || !o.roomUnderQuotas(i) {
				continue
			}
			if best < 0 || o.sizes[i] < o.sizes[best] || o.sizes[i] == o.sizes[best] && o.earlier(i, best) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		o.sizes[best]++
	}
}

func (o *splitOracle) priority() {
	for i, group := range o.Groups {
		for o.left > 0 && o.sizes[i] < group.Max && o.roomUnderQuotas(i) {
			o.sizes[i]++
			o.left--
		}
	}
}

// proportional knows no caps: it looks for the level L at which the exact sizes
// clamp(L*weight, size, max) add up, going from one kink of their sum to the next.
func (o *splitOracle) proportional() {
	low, high := slices.Clone(o.sizes), make([]int64, len(o.sizes))
	var total, room int64
	for i, group := range o.Groups {
		high[i] = max(low[i], group.Max)
		if group.Weight == 0 {
			high[i] = low[i]
		}
		total += low[i]
		room += high[i] - low[i]
	}
	given := min(room, o.left)
	total += given
	o.left -= given
	exact := func(level *big.Rat, i int) *big.Rat {
		value := new(big.Rat).Mul(level, new(big.Rat).SetInt64(o.Groups[i].Weight))
		if l := new(big.Rat).SetInt64(low[i]); value.Cmp(l) < 0 {
			return l
		}
		if h := new(big.Rat).SetInt64(high[i]); value.Cmp(h) > 0 {
			return h
		}
		return value
	}
	sum := func(level *big.Rat) *big.Rat {
		out := new(big.Rat)
		for i := range o.Groups {
			out.Add(out, exact(level, i))
		}
		return out
	}
	want := new(big.Rat).SetInt64(total)
	kinks := []*big.Rat{new(big.Rat)}
	for i, group := range o.Groups {
		if group.Weight > 0 {
			kinks = append(kinks, big.NewRat(low[i], group.Weight), big.NewRat(high[i], group.Weight))
		}
	}
	slices.SortFunc(kinks, (*big.Rat).Cmp)
	at := slices.IndexFunc(kinks, func(k *big.Rat) bool { return sum(k).Cmp(want) >= 0 })
	level := kinks[at]
	if at > 0 { // between two kinks the sum is a straight line
		from, to := kinks[at-1], kinks[at]
		rise, run := new(big.Rat).Sub(sum(to), sum(from)), new(big.Rat).Sub(to, from)
		part := new(big.Rat).Sub(want, sum(from))
		level = new(big.Rat).Add(from, part.Mul(part, run.Quo(run, rise)))
	}
	rests := make([]*big.Rat, len(o.Groups))
	for i := range o.Groups {
		value := exact(level, i)
		o.sizes[i] = new(big.Int).Quo(value.Num(), value.Denom()).Int64()
		rests[i] = new(big.Rat).Sub(value, new(big.Rat).SetInt64(o.sizes[i]))
		total -= o.sizes[i]
	}
	order := make([]int, len(o.Groups))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		if i == j {
			return 0
		}
		if c := rests[j].Cmp(rests[i]); c != 0 {
			return c
		}
		if o.earlier(i, j) {
			return -1
		}
		return 1
	})
	for _, i := range order[:total] {
		o.sizes[i]++
	}
}

func (o *splitOracle) split() ([]int64, int64) {
	o.left = o.Nodes
	for _, group := range o.Groups {
		o.sizes = append(o.sizes, group.Size)
	}
	o.fill(func(g Group) int64 {
		if g.Size > g.Max {
			return 0
		}
		return g.Min
	})
	switch o.Policy {
	case Priority:
		o.priority()
	case Proportional:
		o.proportional()
	default:
		o.fill(func(g Group) int64 { return g.Max })
	}
	return o.sizes, o.left
}

func drawRequest(t *rapid.T) SplitRequest {
	number := func(high int64, label string) int64 { return rapid.Int64Range(0, high).Draw(t, label) }
	request := SplitRequest{
		Nodes:  number(40, "nodes"),
		Policy: rapid.SampledFrom([]Policy{"", Even, Proportional, Priority}).Draw(t, "policy"),
	}
	names := []string{"a", "b", "c", "d", "e", "f", "g"}
	for i := range rapid.IntRange(1, 7).Draw(t, "groups") {
		maximum := number(14, "max")
		request.Groups = append(request.Groups, Group{
			Name: names[i], Size: number(12, "size"), Min: number(min(maximum, 6), "min"), Max: maximum, Weight: number(5, "weight"),
		})
	}
	request.Groups = rapid.Permutation(request.Groups).Draw(t, "order")
	if rapid.Bool().Draw(t, "hasChosen") {
		request.Chosen = rapid.SampledFrom(request.Groups).Draw(t, "chosen").Name
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "caps") {
		c := Quota{Name: fmt.Sprint("cap-", i), Limit: number(40, "limit")}
		for _, group := range request.Groups {
			if rapid.Bool().Draw(t, "member") {
				c.Groups = append(c.Groups, group.Name)
				c.Units = append(c.Units, number(3, "units"))
			}
		}
		if rapid.Bool().Draw(t, "plain") {
			c.Units = nil
		}
		request.Quotas = append(request.Quotas, c)
	}
	return request
}

func mustSplit(t *rapid.T, request SplitRequest) SplitResult {
	result, err := Split(request)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

func TestSplitIsNodeByNode(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 11))
	for range 60_000 {
		request := randomRequest(r)
		oracle := splitOracle{SplitRequest: request}
		sizes, left := oracle.split()
		got, err := Split(request)
		if err != nil {
			t.Fatal(err)
		}
		for i, group := range got.Groups {
			if group.NewSize != sizes[i] || got.Unplaced != left {
				t.Fatalf("%+v\nnode by node: %v, %d unplaced\nsplit: %+v", request, sizes, left, got)
			}
		}
	}
}

// randomRequest has caps only where the oracle knows them.
func randomRequest(r *rand.Rand) SplitRequest {
	request := SplitRequest{Nodes: r.Int64N(60), Policy: []Policy{"", Even, Proportional, Priority}[r.IntN(4)]}
	for i := range 1 + r.IntN(8) {
		maximum := r.Int64N(20)
		request.Groups = append(request.Groups, Group{
			Name: fmt.Sprint("g", i), Size: r.Int64N(16), Max: maximum, Min: r.Int64N(min(maximum, 6) + 1), Weight: r.Int64N(6),
		})
	}
	r.Shuffle(len(request.Groups), func(i, j int) {
		request.Groups[i], request.Groups[j] = request.Groups[j], request.Groups[i]
	})
	if r.IntN(2) == 0 {
		request.Chosen = request.Groups[r.IntN(len(request.Groups))].Name
	}
	if request.Policy == Proportional {
		return request
	}
	for i := range r.IntN(4) {
		c := Quota{Name: fmt.Sprint("cap-", i), Limit: r.Int64N(60)}
		for _, group := range request.Groups {
			if r.IntN(2) == 0 {
				c.Groups = append(c.Groups, group.Name)
				c.Units = append(c.Units, r.Int64N(4))
			}
		}
		if r.IntN(2) == 0 {
			c.Units = nil
		}
		request.Quotas = append(request.Quotas, c)
	}
	return request
}

func TestSplitConservesNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		result := mustSplit(t, request)
		placed := result.Unplaced
		for i, group := range result.Groups {
			if group.Name != request.Groups[i].Name || group.Size != request.Groups[i].Size {
				t.Fatalf("group %d is %+v", i, group)
			}
			placed += group.NewSize - group.Size
		}
		if placed != request.Nodes || result.Unplaced < 0 {
			t.Fatalf("%d of %d nodes accounted for", placed, request.Nodes)
		}
	})
}

func TestSplitKeepsBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		result := mustSplit(t, request)
		added := map[string]int64{}
		sizes := map[string]int64{}
		for i, group := range result.Groups {
			if group.NewSize < group.Size || group.NewSize > max(group.Size, request.Groups[i].Max) {
				t.Fatalf("%+v breaks its bounds", group)
			}
			added[group.Name], sizes[group.Name] = group.NewSize-group.Size, group.NewSize
		}
		for _, c := range request.Quotas {
			var used, grown int64
			for k, name := range c.Groups {
				units := int64(1)
				if c.Units != nil {
					units = c.Units[k]
				}
				used += units * sizes[name]
				grown += units * added[name]
			}
			if grown > 0 && used > c.Limit {
				t.Fatalf("%s holds %d, its limit is %d", c.Name, used, c.Limit)
			}
		}
	})
}

func TestSplitDoesNotDependOnTheOrderOfGroups(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		if request.Policy == Priority {
			request.Policy = Even
		}
		shuffled := request
		shuffled.Groups = rapid.Permutation(request.Groups).Draw(t, "shuffled")
		byName := func(result SplitResult) []GroupSplit {
			slices.SortFunc(result.Groups, func(a, b GroupSplit) int { return strings.Compare(a.Name, b.Name) })
			return result.Groups
		}
		if diff := gocmp.Diff(byName(mustSplit(t, request)), byName(mustSplit(t, shuffled))); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestSplitEvensOutWhatIsNotHeld(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		request.Policy, request.Quotas = Even, nil
		for i := range request.Groups {
			request.Groups[i].Min = 0
		}
		result := mustSplit(t, request)
		for _, grown := range result.Groups {
			for _, other := range result.Groups {
				if grown.NewSize > grown.Size && other.Reason == ReasonNone && grown.NewSize > other.NewSize+1 {
					t.Fatalf("%+v grew although %+v is smaller", grown, other)
				}
			}
		}
	})
}

func TestSplitOfASplitAddsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		before := mustSplit(t, request)
		again := request
		again.Nodes = 0
		again.Groups = slices.Clone(request.Groups)
		for i, group := range before.Groups {
			again.Groups[i].Size = group.NewSize
		}
		for _, group := range mustSplit(t, again).Groups {
			if group.NewSize != group.Size {
				t.Fatalf("%+v grew without a node", group)
			}
		}
		if request.Policy != Proportional { // nodes that found no place find none later
			again.Nodes = before.Unplaced
			if result := mustSplit(t, again); result.Unplaced != before.Unplaced {
				t.Fatalf("%d of %d unplaced nodes find a place", before.Unplaced-result.Unplaced, before.Unplaced)
			}
		}
	})
}

func TestSplitPlacesAllThatNestedQuotasAllow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		for i := range request.Groups {
			request.Groups[i].Weight++
			request.Groups[i].Min = 0
		}
		request.Quotas = nil
		names := make([]string, len(request.Groups))
		for i, group := range request.Groups {
			names[i] = group.Name
		}
		for i, end := 0, len(names); end > 0 && i < 3; i++ {
			request.Quotas = append(request.Quotas, Quota{
				Name: fmt.Sprint("cap-", i), Groups: names[:end], Limit: rapid.Int64Range(0, 40).Draw(t, "limit"),
			})
			end = rapid.IntRange(0, end-1).Draw(t, "end")
		}
		slices.SortFunc(request.Quotas, func(a, b Quota) int { return cmp.Compare(a.Limit, b.Limit) })
		// The largest plan under nested quotas is found greedily, innermost first.
		plan := splitOracle{SplitRequest: request}
		plan.Policy = Priority
		_, left := plan.split()
		if got := mustSplit(t, request); got.Unplaced != left {
			t.Fatalf("%s leaves %d, all but %d can be placed", request.Policy, got.Unplaced, left)
		}
	})
}

func TestSplitLeavesItsInputAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		request := drawRequest(t)
		before := fmt.Sprintf("%+v", request)
		mustSplit(t, request)
		if after := fmt.Sprintf("%+v", request); after != before {
			t.Fatalf("%s\nbecame\n%s", before, after)
		}
	})
}
