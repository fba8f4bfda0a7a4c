package nodegroupset

import (
	"fmt"
	"math/big"
	"math/bits"
	"slices"

	"github.com/evenkeel/evenkeel/apportion"
)

// Where capacities differ node after node is placed, so there is a limit to how many nodes can be
// asked for, and to how many these can be in the groups.
const (
	maxByCapacity = 100_000
	maxPlaced     = 1_000_000
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
	if r.capacitiesDiffer() && r.Nodes > maxByCapacity {
		return apportion.Invalid("nodes", r.Nodes, fmt.Sprintf("must not be greater than %d where the groups' capacities differ", maxByCapacity))
	}
	return nil
}

// checkPlaced refuses nodes that stand for too many of the groups.
func (r SplitRequest) checkPlaced() error {
	least, room := int64(MaxSize), int64(0)
	for _, g := range r.Groups {
		if g.Size < g.Max {
			least, room = min(least, g.Capacity), room+g.Max-g.Size
		}
	}
	if r.NodeCapacity == 0 || min(room, scaledUp(r.Nodes, r.NodeCapacity, least)) <= maxPlaced {
		return nil
	}
	return apportion.Invalid("nodeCapacity", r.NodeCapacity, fmt.Sprintf(
		"makes the nodes more than %d of capacity %d: too many where the groups' capacities differ", maxPlaced, least))
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

// capacitySplitter places node after node. Each goes to the group that is below its
// min, the smallest first; else to the first portion below its base; else to the
// portion that the policy favours: with Proportional the one that a further node
// leaves least above its weight (Webster's method, which for two portions is that of
// the largest remainder). Within a portion it goes to the group with the least
// capacity.
type capacitySplitter struct {
	*splitter
	worth int64 // of one of the nodes that are asked for; 0 if nodes are counted
}

func (s *splitter) shareByCapacity() {
	c := capacitySplitter{s, s.request.NodeCapacity}
	s.left *= max(1, c.worth) // both are small
	always := func() bool { return true }
	c.fill(s.all(), func(k int) bool { return s.sizes[k] < s.groups[k].Min }, func(k int) int64 { return s.sizes[k] }, always)
	parts := s.parts()
	for i := range parts {
		p := &parts[i]
		c.fillPart(p, func() bool { return p.capacity(s).Cmp(big.NewInt(p.Base)) < 0 })
	}
	switch s.request.Policy {
	case Proportional:
		c.proportional(parts)
	case Priority:
		for i := range parts {
			c.fillPart(&parts[i], always)
		}
	default:
		c.fillPart(s.all(), always)
	}
	s.left = (max(0, s.left) + max(1, c.worth) - 1) / max(1, c.worth)
}

// fillPart gives nodes to the groups of a portion as long as something holds.
func (c *capacitySplitter) fillPart(p *part, goOn func() bool) {
	c.fill(p, func(int) bool { return true }, c.capacity, goOn)
}

// fill gives nodes to the least of the groups of a portion that may have some.
func (c *capacitySplitter) fill(p *part, may func(k int) bool, size func(k int) int64, goOn func() bool) {
	for c.left > 0 && goOn() {
		k := c.least(p, may, size)
		if k < 0 {
			return
		}
		c.place(k)
	}
}

func (c *capacitySplitter) capacity(k int) int64 { return c.sizes[k] * c.groups[k].Capacity }

// least is the least group with room that may have more; -1 if there is none.
func (c *capacitySplitter) least(p *part, may func(k int) bool, size func(k int) int64) int {
	best := -1
	for _, k := range p.members {
		if (best < 0 || size(k) < size(best)) && may(k) && c.hasRoom(k) {
			best = k
		}
	}
	return best
}

// place adds a node to a group.
func (c *capacitySplitter) place(k int) {
	c.sizes[k]++
	for q := range c.quotas {
		c.quotas[q].used = addUsage(c.quotas[q].used, 1, c.quotas[q].units[k])
	}
	if c.worth > 0 {
		c.left -= c.groups[k].Capacity
	} else {
		c.left--
	}
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
	for c.left > 0 {
		best := -1
		for i := range parts {
			p := &parts[i]
			if given < 0 || given == i || len(c.quotas) > 0 {
				if next[i] = c.least(p, func(int) bool { return true }, c.capacity); next[i] >= 0 {
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
		c.place(next[best])
		given = best
	}
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
