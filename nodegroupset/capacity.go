package nodegroupset

import (
	"fmt"
	"math"
	"math/big"
	"math/bits"
	"slices"
	"sort"

	"github.com/evenkeel/evenkeel/apportion"
)

// checkCapacities refuses capacities that some groups have and others have not.
func (r SplitRequest) checkCapacities() error {
	if r.NodeCapacity < 0 || r.NodeCapacity > MaxSize {
		return apportion.Invalid("nodeCapacity", r.NodeCapacity, fmt.Sprintf("must be between 0 and %d", MaxSize))
	}
	for i, g := range r.Groups {
		if (g.Capacity > 0) != (r.Groups[0].Capacity > 0) {
			return apportion.Invalid(fmt.Sprintf("groups[%d].capacity", i), g.Capacity, "all groups need a capacity, or none")
		}
	}
	if r.NodeCapacity > 0 && r.Groups[0].Capacity == 0 {
		return apportion.Invalid("nodeCapacity", r.NodeCapacity, "the groups have no capacity")
	}
	if r.capacitiesDiffer() && r.Nodes > MaxSize {
		return apportion.Invalid("nodes", r.Nodes, fmt.Sprintf("must not be greater than %d where the groups' capacities differ", MaxSize))
	}
	return nil
}

// capacitiesDiffer reports whether it makes a difference to share capacity instead
// of nodes: groups have different ones, or a base is no whole number of nodes.
func (r SplitRequest) capacitiesDiffer() bool {
	each := r.Groups[0].Capacity
	if each == 0 {
		return false
	}
	for i := range r.Groups {
		if r.Groups[i].Capacity != each || r.Groups[i].Base%each != 0 {
			return true
		}
	}
	for i := range r.Portions {
		if r.Portions[i].Base%each != 0 {
			return true
		}
	}
	return false
}

// counted is the request in nodes, where all groups have the same capacity, and how
// its nodes that are left are counted in those of the request.
func (r SplitRequest) counted() (SplitRequest, func(left int64) int64) {
	each := r.Groups[0].Capacity
	if each == 0 {
		return r, func(left int64) int64 { return left }
	}
	groups, portions := make([]Group, len(r.Groups)), make([]Portion, len(r.Portions))
	for i, g := range r.Groups {
		g.Base /= each
		groups[i] = g
	}
	for i, p := range r.Portions {
		p.Base /= each
		portions[i] = p
	}
	asked, worth := r.Nodes, r.NodeCapacity
	r.Groups, r.Portions = groups, portions
	if worth == 0 || worth == each {
		return r, func(left int64) int64 { return left }
	}
	r.Nodes = scaledUp(asked, worth, each)
	return r, func(left int64) int64 { return min(asked, scaledUp(left, each, worth)) }
}

// scaledUp is n*by/over, rounded up, and at most the largest number.
func scaledUp(n, by, over int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(by))
	lo, carry := bits.Add64(lo, uint64(over-1), 0)
	if hi += carry; hi >= uint64(over) {
		return 1<<63 - 1
	}
	quotient, _ := bits.Div64(hi, lo, uint64(over))
	return int64(min(quotient, 1<<63-1))
}

// capacitySplitter shares nodes as if one after the other were placed. Each goes to the group that is
// below its min, the smallest first; else to the first portion below its base; else to the portion that
// the policy favours: with Proportional the one that a further node leaves least above its weight
// (Webster's method, which for two portions is that of the largest remainder). Within a portion it goes
// to the group with the least capacity.
//
// What a group or a portion has only grows, so nearly all nodes can be placed at once: those for which
// it is below a level that all of them reach. The level is found by bisection, in floating point and a
// little too low, and the nodes that remain are placed one after the other.
type capacitySplitter struct {
	*splitter
	worth int64  // of one of the nodes that are asked for; 0 if nodes are counted
	open  []bool // the groups that quotas do not keep from growing
}

func (s *splitter) shareByCapacity() {
	c := capacitySplitter{s, s.request.NodeCapacity, make([]bool, len(s.groups))}
	s.left *= max(1, c.worth) // both are MaxSize at most
	c.fill(s.all(), func(k int) int64 { return s.groups[k].Min }, func(int) int64 { return 1 }, nil)
	parts := s.parts()
	for i := range parts {
		c.fill(&parts[i], c.most, c.each, &parts[i].Base)
	}
	switch s.request.Policy {
	case Proportional:
		c.proportional(parts)
	case Priority:
		for i := range parts {
			c.fill(&parts[i], c.most, c.each, nil)
		}
	default:
		c.fill(s.all(), c.most, c.each, nil)
	}
	s.left = (max(0, s.left) + max(1, c.worth) - 1) / max(1, c.worth)
}

func (c *capacitySplitter) most(k int) int64 { return c.groups[k].Max }

// each is the capacity of one node of a group.
func (c *capacitySplitter) each(k int) int64 { return c.groups[k].Capacity }

// fill gives nodes to the least of the groups of a portion, each up to a number of nodes, and the portion
// up to a capacity, if one is given. A group is as large as its nodes times what each counts.
func (c *capacitySplitter) fill(p *part, most, each func(k int) int64, end *int64) {
	left := func() float64 {
		if end == nil {
			return math.Inf(1)
		}
		room, _ := new(big.Float).SetInt(new(big.Int).Sub(big.NewInt(*end), p.capacity(c.splitter))).Float64()
		return room
	}
	for placed := 0; c.left > 0 && left() > 0; placed++ {
		if c.worthwhile(placed) {
			c.placeMany(math.MaxInt64/2, left(), func(level int, _ bool, more []int64) { c.upTo(p, int64(level), most, each, more) })
		}
		k := c.least(p, most, each)
		if k < 0 {
			return
		}
		c.place(k, 1)
	}
}

// upTo says how many more nodes groups of a portion get that are smaller than a level before each of
// them, and how much capacity the portion has with them.
func (c *capacitySplitter) upTo(p *part, level int64, most, each func(k int) int64, more []int64) (capacity float64) {
	for _, k := range p.members {
		more[k] = 0
		if below := level - c.sizes[k]*each(k); c.open[k] && below > 0 {
			more[k] = max(0, min(most(k)-c.sizes[k], (below-1)/each(k)+1))
		}
		capacity += float64(c.sizes[k]+more[k]) * float64(c.groups[k].Capacity)
	}
	return capacity
}

// worthwhile reports whether to place many nodes at once, after so many that were placed one by one: that
// costs as much as dozens of single nodes for each group.
func (c *capacitySplitter) worthwhile(placed int) bool {
	often := min(32*len(c.groups), 1000)
	return placed%often == often-1
}

// placeMany places what groups get below the highest level at which neither the nodes nor a quota nor
// so much capacity are used up. Below a level upTo says how many more nodes each gets at least, or of
// all of them at most.
func (c *capacitySplitter) placeMany(levels int, capacity float64, upTo func(level int, all bool, more []int64)) {
	for k := range c.open {
		c.open[k] = !slices.ContainsFunc(c.quotas, func(q quota) bool { return q.headroom(k) < 1 })
	}
	more := make([]int64, len(c.groups))
	level := sort.Search(levels, func(below int) bool {
		upTo(below+1, true, more)
		return !c.fits(more, capacity)
	})
	if level == 0 {
		return
	}
	upTo(level, false, more)
	for k, n := range more {
		c.place(k, n)
	}
}

// fits reports whether so many more nodes leave something of all that bounds them. What is summed in
// floating point may be a little less than it is.
func (c *capacitySplitter) fits(more []int64, capacity float64) bool {
	const upward = 1 + 1e-9
	var nodes, units float64
	for k, n := range more {
		nodes += float64(n)
		units += float64(n) * float64(c.groups[k].Capacity)
	}
	used := nodes
	if c.worth > 0 {
		used = units
	}
	if used*upward >= float64(c.left) || units*upward >= capacity {
		return false
	}
	for i := range c.quotas {
		q, used := &c.quotas[i], 0.0
		for k, n := range more {
			used += float64(n) * float64(q.units[k])
		}
		if used > 0 && used*upward > float64(q.limit)-float64(q.used) {
			return false
		}
	}
	return true
}

// least is the least group with room that may have more; -1 if there is none.
func (c *capacitySplitter) least(p *part, most, each func(k int) int64) int {
	best, least := -1, int64(0)
	for _, k := range p.members {
		if size := c.sizes[k] * each(k); (best < 0 || size < least) && c.sizes[k] < most(k) && c.hasRoom(k) {
			best, least = k, size
		}
	}
	return best
}

// place adds nodes to a group.
func (c *capacitySplitter) place(k int, nodes int64) {
	c.sizes[k] += nodes
	for q := range c.quotas {
		c.quotas[q].used = addUsage(c.quotas[q].used, nodes, c.quotas[q].units[k])
	}
	if c.worth > 0 {
		nodes *= c.groups[k].Capacity
	}
	c.left -= nodes
}

// hasRoom reports whether a group can take one more node, and notes the quota that
// keeps it from it.
func (c *capacitySplitter) hasRoom(k int) bool {
	if c.sizes[k] >= c.groups[k].Max {
		return false
	}
	for q := range c.quotas {
		if c.quotas[q].headroom(k) < 1 {
			c.heldBy[k] = q
			return false
		}
	}
	return true
}

// proportional gives every node to the portion that is favoured. What a portion would get is worked
// out again when it has got a node, or if quotas bind portions together.
func (c *capacitySplitter) proportional(parts []part) {
	parts = slices.DeleteFunc(parts, func(p part) bool { return p.Weight == 0 })
	next, shares := make([]int, len(parts)), make([]*big.Rat, len(parts))
	given := -1
	for placed := 0; c.left > 0; placed++ {
		if c.worthwhile(placed) {
			c.placeMany(int(math.Float64bits(math.MaxFloat64)), math.Inf(1), func(level int, all bool, more []int64) {
				for i := range parts {
					c.upToShare(&parts[i], math.Float64frombits(uint64(level)), all, more)
				}
			})
			given = -1
		}
		best := -1
		for i := range parts {
			p := &parts[i]
			if given < 0 || given == i || len(c.quotas) > 0 {
				if next[i] = c.least(p, c.most, c.each); next[i] >= 0 {
					shares[i] = share(p.capacity(c.splitter), p.Base, c.groups[next[i]].Capacity, p.Weight)
				}
			}
			if next[i] >= 0 && (best < 0 || shares[i].Cmp(shares[best]) < 0) {
				best = i
			}
		}
		if best < 0 {
			return
		}
		c.place(next[best], 1)
		given = best
	}
}

// upToShare says how many more nodes groups of a portion get while the share of each node is smaller
// than the given one: at least, or all of them and at most one more in each group.
func (c *capacitySplitter) upToShare(p *part, share float64, all bool, more []int64) {
	// The share of a node is less than twice the capacity beyond the base with it, and more than twice
	// that without it.
	most := float64(p.Base) + share*float64(p.Weight)/2
	level := sort.Search(math.MaxInt64/2, func(below int) bool {
		return c.upTo(p, int64(below)+1, c.most, c.each, more) > most
	})
	if all {
		level++
	}
	c.upTo(p, int64(level), c.most, c.each, more)
}

func (p *part) capacity(s *splitter) *big.Int {
	sum := new(big.Int)
	for _, k := range p.members {
		sum.Add(sum, big.NewInt(s.sizes[k]*s.groups[k].Capacity)) // each is at most MaxSize
	}
	return sum
}

// share is what a portion has beyond its base with half a node more, in proportion to its weight:
// (2*(capacity-base)+node) / weight.
func share(capacity *big.Int, base, node, weight int64) *big.Rat {
	above := new(big.Int).Sub(capacity, big.NewInt(base))
	above.Add(above.Lsh(above, 1), big.NewInt(node))
	return new(big.Rat).SetFrac(above, big.NewInt(weight))
}
