package topologyspread

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// The oracle tries every size of every group, counts the pods by playing every order in which the
// scheduler could place them, and adds extra nodes one by one.

// placeableByHand plays all orders, and fails unless all end with as many pods.
func placeableByHand(t fataler, r *SplitRequest, slots []int64, active []bool) int64 {
	t.Helper()
	placed := make([]int64, len(slots))
	seen := map[string]bool{}
	most, least := int64(-1), int64(-1)
	var play func()
	play = func() {
		key := fmt.Sprint(placed)
		if seen[key] {
			return
		}
		seen[key] = true
		domains, low := int64(0), int64(1<<40)
		for i, d := range r.Domains {
			if active[i] {
				domains++
				low = min(low, d.MatchingPods+placed[i])
			}
		}
		if domains < max(1, r.MinDomains) {
			low = 0
		}
		stuck := true
		for i, d := range r.Domains {
			if active[i] && placed[i] < slots[i] && d.MatchingPods+placed[i]+1-low <= r.MaxSkew {
				stuck = false
				placed[i]++
				play()
				placed[i]--
			}
		}
		if stuck {
			sum := int64(0)
			for _, n := range placed {
				sum += n
			}
			most = max(most, sum)
			if least < 0 || sum < least {
				least = sum
			}
		}
	}
	play()
	if most != least {
		t.Fatalf("%+v slots %v: between %d and %d pods, as the order will have it", r, slots, least, most)
	}
	return most
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// placeableByRule is the same by the rule that the first oracle confirms.
func placeableByRule(_ fataler, r *SplitRequest, slots []int64, active []bool) int64 {
	domains, low, sum := int64(0), int64(1<<40), int64(0)
	for i, d := range r.Domains {
		if active[i] {
			domains++
			low = min(low, d.MatchingPods+slots[i])
		}
	}
	if domains < max(1, r.MinDomains) {
		low = 0
	}
	for i, d := range r.Domains {
		if active[i] {
			sum += max(0, min(slots[i], low+r.MaxSkew-d.MatchingPods))
		}
	}
	return sum
}

// oracle is a request with the groups by name.
type oracle struct {
	t      fataler
	r      *SplitRequest
	count  func(fataler, *SplitRequest, []int64, []bool) int64
	groups []SplitGroup
	known  map[string]int64
}

func newOracle(t fataler, r *SplitRequest, count func(fataler, *SplitRequest, []int64, []bool) int64) *oracle {
	o := &oracle{t: t, r: r, count: count, groups: slices.Clone(r.Groups), known: map[string]int64{}}
	slices.SortFunc(o.groups, func(a, b SplitGroup) int { return strings.Compare(a.Name, b.Name) })
	return o
}

func (o *oracle) slots(sizes []int64) (slots []int64, active []bool) {
	for _, d := range o.r.Domains {
		n, on := d.FreeSlots, d.Active
		for i, g := range o.groups {
			if g.Domain == d.Name {
				n += o.r.PodsPerNode * (sizes[i] - g.Size)
				on = on || sizes[i] > g.Size
			}
		}
		slots, active = append(slots, n), append(active, on)
	}
	return slots, active
}

func (o *oracle) placeable(sizes []int64) int64 {
	slots, active := o.slots(sizes)
	var key strings.Builder
	for i, n := range slots {
		fmt.Fprint(&key, n, active[i], " ")
	}
	if _, ok := o.known[key.String()]; !ok {
		o.known[key.String()] = o.count(o.t, o.r, slots, active)
	}
	return o.known[key.String()]
}

func (o *oracle) answer() SplitResult {
	var best []int64
	var bestKey [3]int64
	sizes := make([]int64, len(o.groups))
	var try func(i int)
	try = func(i int) {
		if i < len(sizes) {
			g := o.groups[i]
			for sizes[i] = g.Size; sizes[i] <= max(g.Size, g.Max); sizes[i]++ {
				try(i + 1)
			}
			return
		}
		key := [3]int64{-min(o.r.Pods, o.placeable(sizes))}
		for k, size := range sizes {
			key[1] += size - o.groups[k].Size
			key[2] += size * size
		}
		if c := slices.Compare(key[:], bestKey[:]); best == nil || c < 0 || c == 0 && slices.Compare(sizes, best) > 0 {
			best, bestKey = slices.Clone(sizes), key
		}
	}
	try(0)
	placed := -bestKey[0]
	for range o.r.ExtraNodes {
		next := -1
		for i, g := range o.groups {
			if best[i] >= g.Max || next >= 0 && best[i] >= best[next] {
				continue
			}
			best[i]++
			if min(o.r.Pods, o.placeable(best)) >= placed {
				next = i
			}
			best[i]--
		}
		if next < 0 {
			break
		}
		best[next]++
	}
	out := SplitResult{Groups: []GroupSize{}, Placed: placed, Unplaced: o.r.Pods - placed, Binding: []string{}}
	for _, g := range o.r.Groups {
		i := slices.IndexFunc(o.groups, func(other SplitGroup) bool { return other.Name == g.Name })
		out.Groups = append(out.Groups, GroupSize{Name: g.Name, Size: g.Size, NewSize: best[i]})
	}
	if out.Unplaced > 0 {
		slots, active := o.slots(best)
		now := o.count(o.t, o.r, slots, active)
		for i, d := range o.r.Domains {
			if !active[i] {
				continue
			}
			slots[i]++
			if o.count(o.t, o.r, slots, active) > now {
				out.Binding = append(out.Binding, d.Name)
			}
			slots[i]--
		}
		slices.Sort(out.Binding)
	}
	return out
}

// sizes bounds what drawSplit draws.
type sizes struct{ pods, skew, perNode, domains, count, free, size, room int64 }

func drawSplit(t *rapid.T, most sizes) SplitRequest {
	draw := func(name string, least, most int64) int64 { return rapid.Int64Range(least, most).Draw(t, name) }
	r := SplitRequest{
		Pods:        draw("pods", 0, most.pods),
		MaxSkew:     draw("maxSkew", 1, most.skew),
		MinDomains:  draw("minDomains", 0, most.domains),
		PodsPerNode: draw("podsPerNode", 1, most.perNode),
		ExtraNodes:  max(0, draw("extraNodes", -4, 4)),
	}
	domains := draw("domains", 1, most.domains)
	for i := range domains {
		d := SplitDomain{Name: string(rune('z' - i)), Active: rapid.Bool().Draw(t, "active")}
		if d.Active {
			d.MatchingPods, d.FreeSlots = draw("matchingPods", 0, most.count), max(0, draw("freeSlots", -most.free, most.free))
		}
		r.Domains = append(r.Domains, d)
	}
	names := rapid.Permutation(strings.Split("abcdefghi", "")).Draw(t, "names")
	for i := range draw("groups", 0, domains+1) {
		g := SplitGroup{Name: names[i], Domain: r.Domains[draw("domain", 0, domains-1)].Name, Size: draw("size", 0, most.size)}
		if i < domains && rapid.Bool().Draw(t, "own domain") {
			g.Domain = r.Domains[i].Name
		}
		g.Max = max(0, g.Size+draw("room", -1, most.room))
		r.Groups = append(r.Groups, g)
	}
	return r
}

func plans(r *SplitRequest) int {
	plans := 1
	for _, g := range r.Groups {
		plans *= int(max(0, g.Max-g.Size)) + 1
	}
	return plans
}

func TestSplitIsTheBestOfAllPlansWhateverOrderTheSchedulerTakes(t *testing.T) {
	small := sizes{pods: 9, skew: 4, perNode: 5, domains: 4, count: 5, free: 4, size: 3, room: 5}
	rapid.Check(t, func(t *rapid.T) {
		r := drawSplit(t, small)
		if plans(&r) > 300 {
			t.Skip("too many plans")
		}
		holdsAgainst(t, &r, placeableByHand)
	})
}

func TestSplitIsTheBestOfAllPlans(t *testing.T) {
	for name, most := range map[string]sizes{
		"many levels":     {pods: 60, skew: 12, perNode: 3, domains: 4, count: 12, free: 6, size: 4, room: 9},
		"large nodes":     {pods: 60, skew: 25, perNode: 11, domains: 5, count: 12, free: 6, size: 2, room: 5},
		"tight skew":      {pods: 40, skew: 2, perNode: 9, domains: 5, count: 9, free: 4, size: 0, room: 5},
		"zones to open":   {pods: 30, skew: 3, perNode: 2, domains: 5, count: 0, free: 0, size: 1, room: 6},
		"equal and empty": {pods: 30, skew: 9, perNode: 4, domains: 5, count: 3, free: 1, size: 0, room: 5},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				r := drawSplit(t, most)
				if plans(&r) > 2000 {
					t.Skip("too many plans")
				}
				holdsAgainst(t, &r, placeableByRule)
			})
		})
	}
}

func holdsAgainst(t *rapid.T, r *SplitRequest, count func(fataler, *SplitRequest, []int64, []bool) int64) {
	t.Helper()
	got, err := Split(*r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(newOracle(t, r, count).answer(), got); diff != "" {
		t.Fatalf("%+v (-oracle +got):\n%s", *r, diff)
	}
}

// Which zones are opened follows from bounds that rule most choices out. Here each choice is searched.
func TestSplitOpensTheSameZonesAsASearchOfEachChoice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawSplit(t, sizes{pods: 600, skew: 150, perNode: 4, domains: 8, count: 60, free: 6, size: 50, room: 200})
		p, err := newProblem(&r)
		if err != nil {
			t.Fatal(err)
		}
		placed := p.most()
		if placed == 0 {
			return
		}
		var closed []int
		nodes := make([]bounds, len(p.zones))
		for i, z := range p.zones {
			if nodes[i].most = z.room; !z.active && z.room > 0 {
				closed = append(closed, i)
			}
		}
		each := &splitSearch{problem: p, placed: placed}
		for choice := range 1 << len(closed) {
			for k, i := range closed {
				nodes[i] = bounds{}
				if choice>>k&1 == 1 {
					nodes[i] = bounds{1, p.zones[i].room}
				}
			}
			each.search(slices.Clone(nodes))
		}
		if diff := cmp.Diff(each.best.sizes, p.fewest(placed).sizes); diff != "" {
			t.Fatalf("%+v (-each choice of zones +all together):\n%s", r, diff)
		}
	})
}
