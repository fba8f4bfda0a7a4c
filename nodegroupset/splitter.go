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
	quotas  []apportion.Quota
	sizes   []int64
	heldBy  []int // the quota that kept nodes from a group, or -1
	left    int64 // nodes to place yet
}

func newSplitter(request SplitRequest, order []int) *splitter {
	s := &splitter{request: request, order: order, left: request.Nodes}
	s.groups = make([]*Group, len(s.order))
	for k, i := range s.order {
		s.groups[k] = &request.Groups[i]
	}
	s.bindQuotas()
	return s
}

// bindQuotas finds the members of the quotas.
func (s *splitter) bindQuotas() {
	if len(s.request.Quotas) == 0 {
		return
	}
	place := make(map[string]int, len(s.groups))
	for k, group := range s.groups {
		place[group.Name] = k
	}
	for _, c := range s.request.Quotas {
		members := make([]int, len(c.Groups))
		for k, name := range c.Groups {
			members[k] = place[name]
		}
		s.quotas = append(s.quotas, apportion.Quota{Members: members, Units: c.Units, Limit: max(0, c.Limit)})
	}
}

// level raises groups to their min and then evenly up to a bound of their own.
func (s *splitter) level(most func(*Group) int64) error {
	bins := make([]apportion.Bin, len(s.groups))
	for k, group := range s.groups {
		bins[k] = apportion.Bin{Size: group.Size, Min: group.Min, Max: most(group)}
	}
	levelled, err := apportion.Level(s.left, bins, s.quotas)
	if err != nil {
		return err
	}
	s.sizes, s.heldBy, s.left = levelled.Sizes, levelled.HeldBy, levelled.Unplaced
	return nil
}

// raiseToMin raises groups to their min.
func (s *splitter) raiseToMin() error { return s.level(func(g *Group) int64 { return g.Min }) }

func (s *splitter) even() error { return s.level(func(g *Group) int64 { return g.Max }) }

// priority fills the groups in the order of the request, each as far as its max
// and its quotas allow.
func (s *splitter) priority() error {
	if err := s.raiseToMin(); err != nil {
		return err
	}
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
		for c := range s.quotas {
			if fits := s.headroom(c, k); fits < more {
				more, s.heldBy[k] = fits, c
			}
		}
		s.sizes[k] += more
		s.left -= more
	}
	return nil
}

// headroom is how many nodes a quota lets one group have beyond its size.
func (s *splitter) headroom(c, group int) int64 {
	units := int64(0)
	for i, member := range s.quotas[c].Members {
		if member == group {
			units = unitsOf(s.quotas[c], i)
		}
	}
	if units == 0 {
		return MaxSize
	}
	used, ok := usage(s.quotas[c], s.sizes)
	if !ok || used > uint64(s.quotas[c].Limit) {
		return 0
	}
	return (s.quotas[c].Limit - int64(used)) / units
}

func unitsOf(c apportion.Quota, i int) int64 {
	if c.Units == nil {
		return 1
	}
	return c.Units[i]
}

// usage is what the sizes use of a quota; false where it is beyond every limit.
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
func (s *splitter) proportional() error {
	if err := s.raiseToMin(); err != nil {
		return err
	}
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
	sizes := allot(total+min(s.left, room), claims, smallestFirst(s.quotas), held)
	for k, size := range sizes {
		s.left -= size - s.sizes[k]
	}
	s.sizes, s.heldBy = sizes, held
	return nil
}

// rankedQuota is a quota with its place in the request.
type rankedQuota struct {
	apportion.Quota
	index int
}

// smallestFirst puts quotas within others before them.
func smallestFirst(quotas []apportion.Quota) []rankedQuota {
	out := make([]rankedQuota, len(quotas))
	for i, c := range quotas {
		out[i] = rankedQuota{c, i}
	}
	slices.SortStableFunc(out, func(a, b rankedQuota) int { return cmp.Compare(len(a.Members), len(b.Members)) })
	return out
}

// allot spreads a total over claims under quotas. A quota that is exceeded gets its
// members' largest spread within its limit, under the quotas before it; that is
// the most they can have, so what is over goes to the others and no quota is
// looked at twice. It notes in held which quota kept a claim from its share.
func allot(total int64, claims []apportion.Claim, quotas []rankedQuota, held []int) []int64 {
	claims = slices.Clone(claims)
	for {
		sizes := apportion.Spread(total, claims, apportion.LargestRemainder)
		exceeded := slices.IndexFunc(quotas, func(c rankedQuota) bool { return !settled(c, claims) && !within64(c.Quota, sizes) })
		if exceeded < 0 {
			return sizes
		}
		bounded := boundMembers(quotas[exceeded], claims, quotas[:exceeded])
		for i, member := range quotas[exceeded].Members {
			if unitsOf(quotas[exceeded].Quota, i) > 0 {
				claims[member].High = bounded[member]
				if bounded[member] < sizes[member] {
					held[member] = quotas[exceeded].index
				}
			}
		}
	}
}

// settled reports whether a quota leaves its members no choice any more.
func settled(c rankedQuota, claims []apportion.Claim) bool {
	for i, member := range c.Members {
		if unitsOf(c.Quota, i) > 0 && claims[member].Low < claims[member].High {
			return false
		}
	}
	return true
}

// boundMembers finds the largest spread over the members of a quota that keeps to
// it, and to the quotas before it. Claims that are no members stay at their low.
func boundMembers(c rankedQuota, claims []apportion.Claim, before []rankedQuota) []int64 {
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
	for low < high { // the largest total that keeps to the quota lies in low..high
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
			row.Reason = ReasonOverMax
		case row.NewSize == group.Max:
			row.Reason = ReasonAtMax
		case s.heldBy[k] >= 0:
			row.Reason, row.Detail = ReasonQuota, s.request.Quotas[s.heldBy[k]].Name
		case row.NewSize > group.Size && row.NewSize <= group.Min:
			row.Reason = ReasonRaisedToMin
		default:
			row.Reason = group.reserved(row.NewSize)
		}
		out.Groups[s.order[k]] = row
	}
	return out
}
