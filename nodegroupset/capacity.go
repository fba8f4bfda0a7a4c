package nodegroupset

import (
	"fmt"
	"math/big"
	"math/bits"

	"github.com/evenkeel/evenkeel/apportion"
)

// maxByCapacity is how many nodes can be shared by capacities that differ: node
// after node is placed.
const maxByCapacity = 100_000

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

// shareByCapacity places node after node. Each goes to the group that is below its
// min, the smallest first; else to the first portion below its base; else to the
// portion that the policy favours: with Proportional the one that a further node
// leaves least above its weight (Webster's method, which for two portions is that of
// the largest remainder). Within a portion it goes to the group with the least
// capacity.
func (s *splitter) shareByCapacity() {
	parts := s.parts()
	s.sizes, s.heldBy = make([]int64, len(s.groups)), make([]int, len(s.groups))
	for k, g := range s.groups {
		s.sizes[k], s.heldBy[k] = g.Size, -1
	}
	worth, left := int64(1), s.left
	if s.request.NodeCapacity > 0 {
		worth = s.request.NodeCapacity
		left *= worth // both are small
	}
	for left > 0 {
		k := s.belowMin()
		if k < 0 {
			k = s.favoured(parts)
		}
		if k < 0 {
			break
		}
		s.sizes[k]++
		if s.request.NodeCapacity > 0 {
			left -= s.groups[k].Capacity
		} else {
			left--
		}
	}
	s.left = (max(0, left) + worth - 1) / worth
}

// hasRoom reports whether a group can take one more node, and notes the quota that
// keeps it from it.
func (s *splitter) hasRoom(k int) bool {
	if s.sizes[k] >= s.groups[k].Max {
		return false
	}
	for c := range s.quotas {
		if s.headroom(c, k) < 1 {
			s.heldBy[k] = c
			return false
		}
	}
	return true
}

func (s *splitter) belowMin() int {
	best := -1
	for k, g := range s.groups {
		if s.sizes[k] < g.Min && (best < 0 || s.sizes[k] < s.sizes[best]) && s.hasRoom(k) {
			best = k
		}
	}
	return best
}

// favoured is the group that gets the next node, or -1 if none has room.
func (s *splitter) favoured(parts []part) int {
	for i := range parts {
		if parts[i].capacity(s).Cmp(big.NewInt(parts[i].Base)) < 0 {
			if k := s.least(parts[i].members); k >= 0 {
				return k
			}
		}
	}
	switch s.request.Policy {
	case Proportional:
		best, bestShare := -1, new(big.Rat)
		for i := range parts {
			if parts[i].Weight == 0 {
				continue
			}
			k := s.least(parts[i].members)
			if k < 0 {
				continue
			}
			if share := parts[i].shareWith(s, s.groups[k].Capacity); best < 0 || share.Cmp(bestShare) < 0 {
				best, bestShare = k, share
			}
		}
		return best
	case Priority:
		for i := range parts {
			if k := s.least(parts[i].members); k >= 0 {
				return k
			}
		}
		return -1
	default:
		all := make([]int, len(s.groups))
		for k := range all {
			all[k] = k
		}
		return s.least(all)
	}
}

// least is the group with the least capacity of those with room; -1 if none has.
func (s *splitter) least(members []int) int {
	best := -1
	for _, k := range members {
		if s.hasRoom(k) && (best < 0 || s.sizes[k]*s.groups[k].Capacity < s.sizes[best]*s.groups[best].Capacity) {
			best = k
		}
	}
	return best
}

func (p *part) capacity(s *splitter) *big.Int {
	sum := new(big.Int)
	for _, k := range p.members {
		sum.Add(sum, big.NewInt(s.sizes[k]*s.groups[k].Capacity)) // each is at most MaxSize
	}
	return sum
}

// shareWith is what the portion has beyond its base with half a node more, in
// proportion to its weight.
func (p *part) shareWith(s *splitter, node int64) *big.Rat {
	return share(p.capacity(s), p.Base, node, p.Weight)
}

// share is (2*(capacity-base)+node) / weight.
func share(capacity *big.Int, base, node, weight int64) *big.Rat {
	above := new(big.Int).Sub(capacity, big.NewInt(base))
	above.Add(above.Lsh(above, 1), big.NewInt(node))
	return new(big.Rat).SetFrac(above, big.NewInt(weight))
}
