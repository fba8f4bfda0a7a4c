package nodegroupset

import (
	"cmp"
	"math/bits"
	"slices"

	"github.com/evenkeel/evenkeel/apportion"
)

// splitter works on the groups in the order in which equals are served.
type splitter struct {
	request SplitRequest
	order   []int // positions in the request
	groups  []*Group
	caps    []apportion.Quota
	sizes   []int64
	heldBy  []int // the cap that kept nodes from a group, or -1
	left    int64 // nodes to place yet
}

func newSplitter(request SplitRequest, order []int) (*splitter, error) {
	s := &splitter{request: request, order: order, left: request.Nodes}
	s.groups = make([]*Group, len(s.order))
	for k, i := range s.order {
		s.groups[k] = &request.Groups[i]
	}
	s.bindCaps()
	if request.Policy == Proportional || request.Policy == Priority {
		return s, s.level(func(g *Group) int64 { return g.Min })
	}
	return s, nil
}

// bindCaps finds the members of the caps.
func (s *splitter) bindCaps() {
	if len(s.request.Caps) == 0 {
		return
	}
	place := make(map[string]int, len(s.groups))
	for k, group := range s.groups {
		place[group.Name] = k
	}
	for _, c := range s.request.Caps {
		members := make([]int, len(c.Groups))
		for k, name := range c.Groups {
			members[k] = place[name]
		}
		s.caps = append(s.caps, apportion.Quota{Members: members, Units: c.Units, Limit: max(0, c.Limit)})
	}
}

// level raises groups to their min and then evenly up to a ceiling of their own.
func (s *splitter) level(ceiling func(*Group) int64) error {
	bins := make([]apportion.Bin, len(s.groups))
	for k, group := range s.groups {
		bins[k] = apportion.Bin{Size: group.Size, Min: group.Min, Max: ceiling(group)}
	}
	levelled, err := apportion.Level(s.left, bins, s.caps)
	if err != nil {
		return err
	}
	s.sizes, s.heldBy, s.left = levelled.Sizes, levelled.HeldBy, levelled.Unplaced
	return nil
}

func (s *splitter) even() error { return s.level(func(g *Group) int64 { return g.Max }) }

// priority fills the groups in the order of the request, each as far as its max
// and its caps allow.
func (s *splitter) priority() error { //nolint:unparam // one signature for all policies
	place := make([]int, len(s.order))
	for k, i := range s.order {
		place[i] = k
	}
	for _, k := range place {
		room := s.groups[k].Max - s.sizes[k]
		if room <= 0 || s.left == 0 {
			continue
		}
		more := min(room, s.left)
		for c := range s.caps {
			if fits := s.headroom(c, k); fits < more {
				more, s.heldBy[k] = fits, c
			}
		}
		s.sizes[k] += more
		s.left -= more
	}
	return nil
}

// headroom is how many nodes a cap lets one group have beyond its size.
func (s *splitter) headroom(c, group int) int64 {
	units := int64(0)
	for i, member := range s.caps[c].Members {
		if member == group {
			units = unitsOf(s.caps[c], i)
		}
	}
	if units == 0 {
		return MaxSize
	}
	used, ok := usage(s.caps[c], s.sizes)
	if !ok || used > uint64(s.caps[c].Limit) {
		return 0
	}
	return (s.caps[c].Limit - int64(used)) / units
}

func unitsOf(c apportion.Quota, i int) int64 {
	if c.Units == nil {
		return 1
	}
	return c.Units[i]
}

// usage is what the sizes use of a cap; false where it is beyond every limit.
func usage(c apportion.Quota, sizes []int64) (uint64, bool) {
	var sum uint64
	for i, member := range c.Members {
		hi, product := bits.Mul64(uint64(sizes[member]), uint64(unitsOf(c, i)))
		var carry uint64
		if sum, carry = bits.Add64(sum, product, 0); hi != 0 || carry != 0 {
			return 0, false
		}
	}
	return sum, true
}

func within64(c apportion.Quota, sizes []int64) bool {
	used, ok := usage(c, sizes)
	return ok && used <= uint64(c.Limit)
}

// proportional spreads the final sizes over the groups that may grow.
func (s *splitter) proportional() error { //nolint:unparam // one signature for all policies
	claims := make([]apportion.Claim, len(s.groups))
	var room, total int64
	for k, group := range s.groups {
		size, high := s.sizes[k], group.Max
		if group.Weight == 0 {
			high = size
		}
		claims[k] = apportion.Claim{Weight: group.Weight, Low: size, High: max(high, size)}
		room += claims[k].High - size
		total += size
	}
	held := slices.Clone(s.heldBy)
	sizes := allot(total+min(s.left, room), claims, smallestFirst(s.caps), held)
	for k, size := range sizes {
		s.left -= size - s.sizes[k]
	}
	s.sizes, s.heldBy = sizes, held
	return nil
}

// rankedCap is a cap with its place in the request.
type rankedCap struct {
	apportion.Quota
	index int
}

// smallestFirst puts caps within others before them.
func smallestFirst(caps []apportion.Quota) []rankedCap {
	out := make([]rankedCap, len(caps))
	for i, c := range caps {
		out[i] = rankedCap{c, i}
	}
	slices.SortStableFunc(out, func(a, b rankedCap) int { return cmp.Compare(len(a.Members), len(b.Members)) })
	return out
}

// allot spreads a total over claims under caps. A cap that is exceeded gets its
// members' largest spread within its limit, under the caps before it; that is
// the most they can have, so what is over goes to the others and no cap is
// looked at twice. It notes in held which cap kept a claim from its share.
func allot(total int64, claims []apportion.Claim, caps []rankedCap, held []int) []int64 {
	claims = slices.Clone(claims)
	for {
		sizes := apportion.Spread(total, claims, apportion.LargestRemainder)
		exceeded := slices.IndexFunc(caps, func(c rankedCap) bool { return !settled(c, claims) && !within64(c.Quota, sizes) })
		if exceeded < 0 {
			return sizes
		}
		bounded := boundMembers(caps[exceeded], claims, caps[:exceeded])
		for i, member := range caps[exceeded].Members {
			if unitsOf(caps[exceeded].Quota, i) > 0 {
				claims[member].High = bounded[member]
				if bounded[member] < sizes[member] {
					held[member] = caps[exceeded].index
				}
			}
		}
	}
}

// settled says whether a cap leaves its members no choice any more.
func settled(c rankedCap, claims []apportion.Claim) bool {
	for i, member := range c.Members {
		if unitsOf(c.Quota, i) > 0 && claims[member].Low < claims[member].High {
			return false
		}
	}
	return true
}

// boundMembers finds the largest spread over the members of a cap that keeps to
// it, and to the caps before it. Claims that are no members stay at their low.
func boundMembers(c rankedCap, claims []apportion.Claim, before []rankedCap) []int64 {
	only := make([]apportion.Claim, len(claims))
	var low, high int64
	for k, claim := range claims {
		only[k] = apportion.Claim{Weight: claim.Weight, Low: claim.Low, High: claim.Low}
		low += claim.Low
	}
	high = low
	for i, member := range c.Members {
		if unitsOf(c.Quota, i) > 0 {
			only[member].High = claims[member].High
			high += claims[member].High - claims[member].Low
		}
	}
	ignored := make([]int, len(claims))
	best := make([]int64, len(claims))
	for k, claim := range claims {
		best[k] = claim.Low
	}
	for low < high { // the largest total that keeps to the cap lies in low..high
		middle := high - (high-low)/2
		if sizes := allot(middle, only, before, ignored); within64(c.Quota, sizes) {
			low, best = middle, sizes
		} else {
			high = middle - 1
		}
	}
	return best
}

func (s *splitter) result() SplitResult {
	out := SplitResult{Groups: make([]GroupSplit, len(s.groups)), Unplaced: s.left}
	for k, group := range s.groups {
		row := GroupSplit{Name: group.Name, Size: group.Size, NewSize: s.sizes[k]}
		switch {
		case group.Size > group.Max:
			row.Reason = OverMax
		case row.NewSize == group.Max:
			row.Reason = HeldByMax
		case s.heldBy[k] >= 0:
			row.Reason, row.Detail = HeldByQuota, s.request.Caps[s.heldBy[k]].Name
		case row.NewSize > group.Size && row.NewSize <= group.Min:
			row.Reason = RaisedToMin
		}
		out.Groups[s.order[k]] = row
	}
	return out
}
