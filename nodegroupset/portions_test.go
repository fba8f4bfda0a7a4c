package nodegroupset

import (
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// fleetOf has on-demand and spot groups in three zones, where spot has 80 parts of
// what is beyond the on-demand base of 2.
func fleetOf() (groups []Group, portions []Portion) {
	for _, of := range []string{"on-demand", "spot"} {
		p := Portion{Name: of, Weight: 20, Base: 2}
		if of == "spot" {
			p.Weight, p.Base = 80, 0
		}
		for _, zone := range []string{"a", "b", "c"} {
			name := of + "-" + zone
			groups, p.Groups = append(groups, Group{Name: name, Max: 1000}), append(p.Groups, name)
		}
		portions = append(portions, p)
	}
	return groups, portions
}

func sizesOf(result SplitResult) (sizes []int64) {
	for _, g := range result.Groups {
		sizes = append(sizes, g.NewSize)
	}
	return sizes
}

func TestSplitByPortions(t *testing.T) {
	groups, portions := fleetOf()
	with := func(policy Policy, nodes int64, change func(g []Group, p []Portion)) SplitRequest {
		r := SplitRequest{Nodes: nodes, Policy: policy, Groups: slices.Clone(groups), Portions: slices.Clone(portions)}
		if change != nil {
			change(r.Groups, r.Portions)
		}
		return r
	}
	for name, test := range map[string]struct {
		request  SplitRequest
		want     []int64
		unplaced int64
	}{
		"the base first":     {with(Proportional, 2, nil), []int64{1, 1, 0, 0, 0, 0}, 0},
		"base 2, then 20/80": {with(Proportional, 12, nil), []int64{2, 1, 1, 3, 3, 2}, 0},
		"spot has no more": {with(Proportional, 12, func(g []Group, _ []Portion) { g[3].Max, g[4].Max, g[5].Max = 1, 0, 0 }),
			[]int64{4, 4, 3, 1, 0, 0}, 0},
		"spot alone lacks a zone":    {with(Proportional, 12, func(g []Group, _ []Portion) { g[3].Max = 0 }), []int64{2, 1, 1, 0, 4, 4}, 0},
		"more on demand than wanted": {with(Proportional, 4, func(g []Group, _ []Portion) { g[0].Size = 9 }), []int64{9, 0, 0, 2, 1, 1}, 0},
		"spot first, on demand is full last": {with(Priority, 9, func(g []Group, p []Portion) {
			slices.Reverse(p)
			g[3].Max, g[4].Max, g[5].Max = 2, 2, 2
		}), []int64{1, 1, 1, 2, 2, 2}, 0},
		"no weight at all": {with(Proportional, 9, func(_ []Group, p []Portion) { p[0].Weight, p[1].Weight = 0, 0 }),
			[]int64{1, 1, 0, 0, 0, 0}, 7},
		"even, beyond the base": {with(Even, 9, func(_ []Group, p []Portion) { p[0].Base = 6 }), []int64{2, 2, 2, 1, 1, 1}, 0},
		"a min first":           {with(Proportional, 4, func(g []Group, _ []Portion) { g[5].Min = 2 }), []int64{1, 1, 0, 0, 0, 2}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Split(test.request)
			if err != nil || !slices.Equal(sizesOf(got), test.want) || got.Unplaced != test.unplaced {
				t.Errorf("sizes %v, %d unplaced, %v; want %v and %d", sizesOf(got), got.Unplaced, err, test.want, test.unplaced)
			}
		})
	}
}

// shareAt is the base and of the rest the weight's part, rounded to the nearest, up in
// the middle.
func shareAt(n, base, weight, of int64) int64 {
	if n <= base {
		return n
	}
	return base + ((n-base)*weight*2+of)/(2*of)
}

func TestRatioIsExactAtEveryCountUpAndDown(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		groups, portions := fleetOf()
		base, first, second := r.Int64N(8), 1+r.Int64N(9), 1+r.Int64N(9)
		portions[0].Base, portions[0].Weight, portions[1].Weight = base, first, second
		terms := &Terms{Set: "s", Policy: Proportional, Portions: portions}
		check := func(doing string) (n int64) {
			t.Helper()
			var onDemand int64
			for i, g := range groups {
				n += g.Size
				if i < 3 {
					onDemand += g.Size
				}
			}
			for _, three := range [][]Group{groups[:3], groups[3:]} {
				least := min(three[0].Size, three[1].Size, three[2].Size)
				if most := max(three[0].Size, three[1].Size, three[2].Size); most > least+1 {
					t.Fatalf("%s: a portion is not level: %v", doing, three)
				}
			}
			if want := shareAt(n, base, first, first+second); onDemand != want {
				t.Fatalf("%s: base %d, then %d/%d: %d of %d on demand, want %d", doing, base, first, second, onDemand, n, want)
			}
			return n
		}
		for check("empty") < 60 {
			result, err := Split(terms.Of(SplitRequest{Nodes: 1 + r.Int64N(5), Groups: groups, Chosen: groups[r.IntN(6)].Name}, ""))
			if err != nil {
				t.Fatal(err)
			}
			for i, g := range result.Groups {
				groups[i].Size = g.NewSize
			}
			check("grown")
		}
		for n := check("full"); n > 0; n = check("shrunk") {
			shrinks := make([]ShrinkGroup, len(groups))
			for i, g := range groups {
				shrinks[i] = ShrinkGroup{Name: g.Name, Set: "s", Size: g.Size}
			}
			groups[ShrinksFirst(shrinks, terms)].Size--
		}
	}
}

// portionOracle hands out node after node, and spreads portions as splitOracle does
// groups: their bases shifted away.
func portionOracle(r SplitRequest) ([]int64, int64) {
	o := splitOracle{SplitRequest: r, left: r.Nodes}
	for _, g := range r.Groups {
		o.sizes = append(o.sizes, g.Size)
	}
	o.fill(func(g Group) int64 {
		if g.Size > g.Max {
			return 0
		}
		return g.Min
	})
	within := func(p Portion, nodes int64) {
		rest := o.left - nodes
		o.left = nodes
		o.fill(func(g Group) int64 {
			if !slices.Contains(p.Groups, g.Name) {
				return 0
			}
			return g.Max
		})
		o.left += rest
	}
	size := func(p Portion) (n int64) {
		for i, g := range r.Groups {
			if slices.Contains(p.Groups, g.Name) {
				n += o.sizes[i]
			}
		}
		return n
	}
	for _, p := range r.Portions {
		within(p, max(0, min(o.left, p.Base-size(p))))
	}
	switch r.Policy {
	case Priority:
		for _, p := range r.Portions {
			within(p, o.left)
		}
	case Proportional:
		upper := splitOracle{left: o.left}
		for i, p := range r.Portions {
			has, room := size(p), int64(0)
			for k, g := range r.Groups {
				if slices.Contains(p.Groups, g.Name) {
					room += max(0, g.Max-o.sizes[k])
				}
			}
			has = max(0, has-p.Base)
			upper.sizes = append(upper.sizes, has)
			upper.Groups = append(upper.Groups, Group{Name: fmt.Sprint(i), Size: has, Max: has + room, Weight: p.Weight})
		}
		before := slices.Clone(upper.sizes)
		upper.proportional()
		for i, p := range r.Portions {
			within(p, upper.sizes[i]-before[i])
		}
	default:
		o.fill(func(g Group) int64 { return g.Max })
	}
	return o.sizes, o.left
}

func randomPortions(r *rand.Rand) SplitRequest {
	request := randomRequest(r)
	request.Quotas = nil
	for i := range 1 + r.IntN(4) {
		request.Portions = append(request.Portions, Portion{Name: fmt.Sprint("p", i), Weight: r.Int64N(6), Base: r.Int64N(8) * r.Int64N(2)})
	}
	for _, g := range request.Groups {
		p := &request.Portions[r.IntN(len(request.Portions))]
		p.Groups = append(p.Groups, g.Name)
	}
	return request
}

func TestSplitByPortionsIsNodeByNode(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 60_000 {
		request := randomPortions(r)
		got, err := Split(request)
		if err != nil {
			t.Fatal(err)
		}
		if sizes, left := portionOracle(request); !slices.Equal(sizesOf(got), sizes) || got.Unplaced != left {
			t.Fatalf("%+v\nnode by node: %v, %d unplaced\nsplit: %v, %d", request, sizes, left, sizesOf(got), got.Unplaced)
		}
	}
}

// TestNoOtherSplitIsNearerToTheWeights tries all ways of sharing what is beyond the
// bases between portions without bounds.
func TestNoOtherSplitIsNearerToTheWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 3_000 {
		request := SplitRequest{Policy: Proportional, Nodes: r.Int64N(25)}
		var weights, bases int64
		for i := range 2 + r.IntN(2) {
			g := Group{Name: fmt.Sprint("g", i), Max: 100, Weight: 1 + r.Int64N(7), Base: r.Int64N(4)}
			request.Groups = append(request.Groups, g)
			weights, bases = weights+g.Weight, bases+g.Base
		}
		if request.Nodes <= bases {
			continue
		}
		got, err := Split(request)
		if err != nil {
			t.Fatal(err)
		}
		worst := func(sizes []int64) (most int64) { // largest distance from the exact share, times weights
			for i, g := range request.Groups {
				off := (sizes[i]-g.Base)*weights - (request.Nodes-bases)*g.Weight
				most = max(most, off, -off)
			}
			return most
		}
		best := worst(sizesOf(got))
		var try func(sizes []int64, left int64)
		try = func(sizes []int64, left int64) {
			if len(sizes) == len(request.Groups)-1 {
				if all := append(slices.Clone(sizes), left); worst(all) < best {
					t.Fatalf("%+v: %v is nearer to the weights than %v", request, all, sizesOf(got))
				}
				return
			}
			for n := range left + 1 {
				try(append(slices.Clone(sizes), n), left-n)
			}
		}
		try(nil, request.Nodes)
	}
}

func TestSplitByPortionsKeepsQuotasAndWastesNothing(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 20_000 {
		request := randomPortions(r)
		request.Policy = []Policy{Even, Priority, Proportional}[r.IntN(3)]
		for i := range request.Portions {
			request.Portions[i].Weight++
		}
		if r.IntN(3) == 0 { // by capacity
			for i := range request.Groups {
				request.Groups[i].Capacity = 1 + r.Int64N(4)
			}
		}
		for i := range 1 + r.IntN(3) {
			q := Quota{Name: fmt.Sprint("quota-", i), Limit: r.Int64N(80)}
			for _, g := range request.Groups {
				if r.IntN(2) == 0 {
					q.Groups, q.Units = append(q.Groups, g.Name), append(q.Units, r.Int64N(3))
				}
			}
			request.Quotas = append(request.Quotas, q)
		}
		got, err := Split(request)
		if err != nil {
			t.Fatal(err)
		}
		after := splitOracle{SplitRequest: request, sizes: sizesOf(got)}
		var added int64
		for i, g := range got.Groups {
			added += g.NewSize - g.Size
			if g.NewSize < g.Size || g.NewSize > max(g.Size, request.Groups[i].Max) {
				t.Fatalf("%+v: %+v is out of bounds", request, g)
			}
			if got.Unplaced > 0 && g.NewSize < request.Groups[i].Max && after.roomUnderQuotas(i) {
				t.Fatalf("%+v: %d unplaced, and %+v has room", request, got.Unplaced, g)
			}
		}
		if added+got.Unplaced != request.Nodes {
			t.Fatalf("%+v: %d added and %d unplaced", request, added, got.Unplaced)
		}
		for _, q := range request.Quotas {
			var before, used int64
			for k, name := range q.Groups {
				i := slices.IndexFunc(request.Groups, func(g Group) bool { return g.Name == name })
				before, used = before+q.Units[k]*got.Groups[i].Size, used+q.Units[k]*got.Groups[i].NewSize
			}
			if used > max(q.Limit, before) {
				t.Fatalf("%+v: %+v is exceeded: %d", request, q, used)
			}
		}
	}
}

func TestSplitByCapacity(t *testing.T) {
	groups := func(sizes, cores []int64) (all []Group) {
		for i, size := range sizes {
			all = append(all, Group{Name: string(rune('a' + i)), Size: size, Max: 100, Capacity: 1000 * cores[i], Weight: 1})
		}
		return all
	}
	for name, test := range map[string]struct {
		request SplitRequest
		want    []int64
	}{
		"10/5/2 and 16 equal machines": {
			SplitRequest{Nodes: 16, NodeCapacity: 4000, Groups: groups([]int64{10, 5, 2}, []int64{4, 4, 4})}, []int64{11, 11, 11},
		},
		"machines of twice the size need half the number": {
			SplitRequest{Nodes: 12, NodeCapacity: 4000, Groups: groups([]int64{0, 0}, []int64{4, 8})}, []int64{6, 3},
		},
		"the need is that of large machines": {
			SplitRequest{Nodes: 6, NodeCapacity: 8000, Groups: groups([]int64{0, 0}, []int64{4, 8})}, []int64{6, 3},
		},
		"nodes are counted": {
			SplitRequest{Nodes: 12, Groups: groups([]int64{0, 0}, []int64{4, 8})}, []int64{8, 4},
		},
		"the need of large machines in equal small ones": {
			SplitRequest{Nodes: 3, NodeCapacity: 8000, Groups: groups([]int64{0, 0}, []int64{4, 4})}, []int64{3, 3},
		},
		"a base in cores, then half and half": {
			SplitRequest{Nodes: 10, NodeCapacity: 4000, Policy: Proportional, Groups: func() []Group {
				g := groups([]int64{0, 0}, []int64{4, 8})
				g[0].Base = 8000
				return g
			}()}, []int64{6, 2},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Split(test.request)
			if err != nil || !slices.Equal(sizesOf(got), test.want) || got.Unplaced != 0 {
				t.Errorf("%v, %d unplaced, %v; want %v", sizesOf(got), got.Unplaced, err, test.want)
			}
		})
	}
}

// TestEqualCapacitiesAreCounted compares sharing node by node, which bases that are no
// whole nodes bring about, with sharing numbers of nodes.
func TestEqualCapacitiesAreCounted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := func(high int64) int64 { return rapid.Int64Range(0, high).Draw(t, "n") }
		request := SplitRequest{Nodes: n(40), Policy: rapid.SampledFrom([]Policy{Even, Priority, Proportional}).Draw(t, "policy")}
		for i := range 2 {
			p := Portion{Name: fmt.Sprint("p", i), Weight: n(5), Base: n(6)}
			for k := range 1 + int(n(2)) {
				name := fmt.Sprint(i, k)
				p.Groups = append(p.Groups, name)
				request.Groups = append(request.Groups, Group{Name: name, Size: n(9), Max: n(20)})
			}
			request.Portions = append(request.Portions, p)
		}
		counted := mustSplit(t, request)
		measured := request
		measured.Groups, measured.Portions = slices.Clone(request.Groups), slices.Clone(request.Portions)
		for i := range measured.Groups {
			measured.Groups[i].Capacity = 3
		}
		for i := range measured.Portions {
			measured.Portions[i].Base *= 3
		}
		// One group more keeps the capacities different, and takes part in nothing.
		measured.Groups = append(measured.Groups, Group{Name: "none", Capacity: 5})
		measured.Portions = append(measured.Portions, Portion{Name: "none", Groups: []string{"none"}})
		for _, worth := range []int64{0, 3} {
			measured.NodeCapacity = worth
			got := mustSplit(t, measured)
			if !slices.Equal(sizesOf(got)[:len(request.Groups)], sizesOf(counted)) || got.Unplaced != counted.Unplaced {
				t.Fatalf("%+v\nby capacity %v, %d unplaced; counted %v, %d", request, sizesOf(got), got.Unplaced, sizesOf(counted), counted.Unplaced)
			}
		}
	})
}

func TestSplitRefusesPortions(t *testing.T) {
	groups := []Group{{Name: "a", Max: 3}, {Name: "b", Max: 3}}
	both := Portion{Name: "p", Groups: []string{"a", "b"}}
	for path, request := range map[string]SplitRequest{
		"portions[0].base":      {Portions: []Portion{{Name: "p", Base: -1}}},
		"portions[0].weight":    {Portions: []Portion{{Name: "p", Weight: -1}}},
		"portions[0].name":      {Portions: []Portion{{}}},
		"portions[1].name":      {Portions: []Portion{both, {Name: "p"}}},
		"portions[0].groups[1]": {Portions: []Portion{{Name: "p", Groups: []string{"a", "x"}}}},
		"portions[1].groups[0]": {Portions: []Portion{both, {Name: "q", Groups: []string{"a"}}}},
		"groups[1].name":        {Portions: []Portion{{Name: "p", Groups: []string{"a"}}}},
		"groups[1].capacity":    {Groups: []Group{{Name: "a", Capacity: 1}, {Name: "b"}}},
		"groups[1].base":        {Groups: []Group{{Name: "a"}, {Name: "b", Base: -1}}},
		"nodeCapacity":          {NodeCapacity: 1},
		"nodes":                 {Nodes: MaxSize + 1, Groups: []Group{{Name: "a", Capacity: 1}, {Name: "b", Capacity: 2}}},
	} {
		if request.Groups == nil {
			request.Groups = groups
		}
		_, err := Split(request)
		wantInvalid(t, err, path)
	}
}

// TestOneNodeThatStandsForVeryMany: the cost does not grow with what a node stands for.
func TestOneNodeThatStandsForVeryMany(t *testing.T) {
	for policy, want := range map[Policy][]int64{Even: {1<<30 - 1, 1 << 29}, Priority: {MaxSize, 0}, Proportional: {1<<30 - 1, 1 << 29}} {
		request := SplitRequest{Nodes: 1, NodeCapacity: MaxSize, Policy: policy, Groups: []Group{
			{Name: "a", Max: MaxSize, Capacity: 1, Weight: 1}, {Name: "b", Max: MaxSize, Capacity: 2, Weight: 1},
		}}
		got, err := Split(request)
		if err != nil || !slices.Equal(sizesOf(got), want) {
			t.Errorf("%s: %v, %v, want %v", policy, sizesOf(got), err, want)
		}
		request.Nodes, request.NodeCapacity = MaxSize, MaxSize
		if got, err := Split(request); err != nil || !slices.Equal(sizesOf(got), []int64{MaxSize, MaxSize}) || got.Unplaced != MaxSize-3 {
			t.Errorf("%s: %v, %d unplaced, %v", policy, sizesOf(got), got.Unplaced, err)
		}
	}
}

// placeOneByOne is Split for groups whose capacities differ, as its rules are written down.
func placeOneByOne(r SplitRequest) (sizes []int64, unplaced int64) {
	at := map[string]int{}
	for i, g := range r.Groups {
		at[g.Name], sizes = i, append(sizes, g.Size)
	}
	byName := slices.Sorted(maps.Keys(at)) // with the chosen group in front
	if i := slices.Index(byName, r.Chosen); i >= 0 {
		byName = slices.Insert(slices.Delete(byName, i, i+1), 0, r.Chosen)
	}
	portions := r.Portions
	if portions == nil {
		names := byName
		if r.Policy == Priority || r.hasBases() {
			names = nil
			for _, g := range r.Groups {
				names = append(names, g.Name)
			}
		}
		for _, name := range names {
			g := r.Groups[at[name]]
			portions = append(portions, Portion{Groups: []string{name}, Weight: g.Weight, Base: g.Base})
		}
	}
	left := r.Nodes * max(1, r.NodeCapacity)
	room := func(i int) bool {
		for _, q := range r.Quotas {
			used := int64(0)
			for k, name := range q.Groups {
				size := sizes[at[name]]
				if at[name] == i {
					size++
				}
				if q.Units != nil {
					size *= q.Units[k]
				}
				used += size
			}
			if slices.Contains(q.Groups, r.Groups[i].Name) && used > q.Limit &&
				(q.Units == nil || q.Units[slices.Index(q.Groups, r.Groups[i].Name)] > 0) {
				return false
			}
		}
		return sizes[i] < r.Groups[i].Max
	}
	capacity := func(names []string) (sum int64) {
		for _, name := range names {
			sum += sizes[at[name]] * r.Groups[at[name]].Capacity
		}
		return sum
	}
	least := func(names []string, size func(i int) int64) int { // -1 if none has room
		best := -1
		for _, name := range byName {
			if i := at[name]; slices.Contains(names, name) && room(i) && size(i) >= 0 && (best < 0 || size(i) < size(best)) {
				best = i
			}
		}
		return best
	}
	byCapacity := func(i int) int64 { return sizes[i] * r.Groups[i].Capacity }
	next := func() int {
		if i := least(byName, func(i int) int64 {
			if sizes[i] >= r.Groups[i].Min {
				return -1
			}
			return sizes[i]
		}); i >= 0 {
			return i
		}
		for _, p := range portions {
			if i := least(p.Groups, byCapacity); i >= 0 && capacity(p.Groups) < p.Base {
				return i
			}
		}
		if r.Policy != Priority && r.Policy != Proportional {
			return least(byName, byCapacity)
		}
		best, share := -1, new(big.Rat)
		for _, p := range portions {
			i := least(p.Groups, byCapacity)
			switch {
			case i < 0:
			case r.Policy == Priority:
				return i
			case p.Weight > 0:
				if of := big.NewRat(2*(capacity(p.Groups)-p.Base)+r.Groups[i].Capacity, p.Weight); best < 0 || of.Cmp(share) < 0 {
					best, share = i, of
				}
			}
		}
		return best
	}
	for left > 0 {
		i := next()
		if i < 0 {
			break
		}
		sizes[i]++
		if left--; r.NodeCapacity > 0 {
			left -= r.Groups[i].Capacity - 1
		}
	}
	return sizes, (max(0, left) + max(1, r.NodeCapacity) - 1) / max(1, r.NodeCapacity)
}

// TestSplitByCapacityIsNodeByNode: nodes that are placed at once are where one after the other would be.
func TestSplitByCapacityIsNodeByNode(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	for range 20_000 {
		request := SplitRequest{Nodes: r.Int64N([]int64{5, 50, 500}[r.IntN(3)]), Policy: []Policy{Even, Priority, Proportional}[r.IntN(3)]}
		for i := range 2 + r.IntN(5) {
			g := Group{Name: string(rune('a' + i)), Size: r.Int64N(8), Max: r.Int64N([]int64{10, 1000}[r.IntN(2)]), Capacity: 1 + r.Int64N(5)}
			g.Min = r.Int64N(min(g.Max, 6) + 1)
			request.Groups = append(request.Groups, g)
		}
		r.Shuffle(len(request.Groups), func(i, j int) { request.Groups[i], request.Groups[j] = request.Groups[j], request.Groups[i] })
		if !request.capacitiesDiffer() {
			continue
		}
		if r.IntN(2) == 0 {
			request.NodeCapacity = 1 + r.Int64N(6)
		}
		if r.IntN(2) == 0 {
			request.Chosen = request.Groups[r.IntN(len(request.Groups))].Name
		}
		if r.IntN(2) == 0 {
			parts := 1 + r.IntN(len(request.Groups))
			request.Portions = make([]Portion, parts)
			for i, g := range request.Groups {
				p := &request.Portions[i%parts]
				p.Name, p.Weight, p.Base = string(rune('p'+i%parts)), r.Int64N(4), max(0, r.Int64N(80)-40)
				p.Groups = append(p.Groups, g.Name)
			}
		} else {
			for i := range request.Groups {
				request.Groups[i].Weight = r.Int64N(4)
			}
		}
		for range r.IntN(3) {
			q := Quota{Limit: r.Int64N(400)}
			for _, g := range request.Groups {
				if r.IntN(2) == 0 {
					q.Groups, q.Units = append(q.Groups, g.Name), append(q.Units, r.Int64N(4))
				}
			}
			if r.IntN(2) == 0 {
				q.Units = nil
			}
			request.Quotas = append(request.Quotas, q)
		}
		got, err := Split(request)
		if err != nil {
			t.Fatal(err)
		}
		if sizes, unplaced := placeOneByOne(request); !slices.Equal(sizesOf(got), sizes) || got.Unplaced != unplaced {
			t.Fatalf("%+v\nat once %v, %d unplaced; one by one %v, %d", request, sizesOf(got), got.Unplaced, sizes, unplaced)
		}
	}
}
