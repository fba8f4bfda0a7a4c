package nodegroupset

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/evenkeel/evenkeel/apportion"
)

// splitter works on the groups in the order in which equals are served.
type splitter struct {
	request SplitRequest
	order   []int // positions in the request
	groups  []*Group
	quotas  []quota
	sizes   []int64
	heldBy  []int // the quota that kept nodes from a group, or -1
	left    int64 // nodes to place yet
	leveller
}

// leveller keeps the first error of its levellings, so that what is worked out by several of them can be
// read without errors in between. A request that has been checked leads to none.
type leveller struct{ err error }

// level places nothing if the bins or quotas are refused.
func (l *leveller) level(nodes int64, bins []apportion.Bin, quotas []apportion.Quota) apportion.Levelled {
	levelled, err := apportion.Level(nodes, bins, quotas)
	if err != nil {
		l.err = cmp.Or(l.err, err)
		levelled = apportion.Levelled{Sizes: make([]int64, len(bins)), Unplaced: nodes, HeldBy: slices.Repeat([]int{-1}, len(bins))}
		for i, bin := range bins {
			levelled.Sizes[i] = bin.Size
		}
	}
	return levelled
}

func newSplitter(request SplitRequest, order []int) *splitter {
	s := &splitter{request: request, order: order, left: request.Nodes}
	s.groups = make([]*Group, len(s.order))
	for k, i := range s.order {
		s.groups[k] = &request.Groups[i]
	}
	s.sizes, s.heldBy = make([]int64, len(s.groups)), slices.Repeat([]int{-1}, len(s.groups))
	for k, group := range s.groups {
		s.sizes[k] = group.Size
	}
	s.bindQuotas()
	return s
}

// quota is a Quota over the groups of a splitter.
type quota struct {
	units []int64 // by group, 0 for those that are no members
	limit int64
	used  uint64 // what the sizes use of it
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
	for _, of := range s.request.Quotas {
		q := quota{units: make([]int64, len(s.groups)), limit: max(0, of.Limit)}
		for i, name := range of.Groups {
			q.units[place[name]] = 1
			if of.Units != nil {
				q.units[place[name]] = of.Units[i]
			}
		}
		q.used = q.usage(s.sizes)
		s.quotas = append(s.quotas, q)
	}
}

// usage is what the sizes use of a quota, or the largest number.
func (q *quota) usage(sizes []int64) (sum uint64) {
	for k, units := range q.units {
		sum = addUsage(sum, sizes[k], units)
	}
	return sum
}

func addUsage(sum uint64, size, units int64) uint64 {
	hi, product := bits.Mul64(uint64(size), uint64(units))
	sum, carry := bits.Add64(sum, product, 0)
	if hi != 0 || carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// headroom is how many nodes a quota lets one group have beyond its size.
func (q *quota) headroom(k int) int64 {
	switch {
	case q.units[k] == 0:
		return MaxSize
	case q.used > uint64(q.limit):
		return 0
	}
	return (q.limit - int64(q.used)) / q.units[k]
}

// quotasOf are the quotas as they bound some of the groups, given all sizes.
func (s *splitter) quotasOf(members []int, sizes []int64) []apportion.Quota {
	out := make([]apportion.Quota, len(s.quotas))
	for i := range s.quotas {
		q, mine := &s.quotas[i], uint64(0)
		for at, k := range members {
			if q.units[k] > 0 {
				out[i].Members, out[i].Units = append(out[i].Members, at), append(out[i].Units, q.units[k])
				mine = addUsage(mine, sizes[k], q.units[k])
			}
		}
		if used := q.usage(sizes); used <= uint64(q.limit) {
			out[i].Limit = q.limit - int64(used-mine)
		}
	}
	return out
}

// even raises groups to their min and then levels them up to their max.
func (s *splitter) even() {
	bins := make([]apportion.Bin, len(s.groups))
	for k, group := range s.groups {
		bins[k] = apportion.Bin{Size: group.Size, Min: group.Min, Max: group.Max}
	}
	levelled := s.level(s.left, bins, s.quotasOf(everyIndex(len(bins)), s.sizes))
	s.sizes, s.heldBy, s.left = levelled.Sizes, levelled.HeldBy, levelled.Unplaced
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
