package nodegroupset

import "slices"

// splitReserving shares nodes among the groups without their reserves, and then what is left among
// the reserves.
func (r SplitRequest) splitReserving(byName []int) (SplitResult, error) {
	if !slices.ContainsFunc(r.Groups, func(g Group) bool { return g.Reserve > 0 }) {
		return r.split(byName)
	}
	first := r
	first.Groups = slices.Clone(r.Groups)
	for i := range first.Groups {
		g := &first.Groups[i]
		g.Max = g.preferred()
		g.Min = min(g.Min, g.Max)
	}
	result, err := first.split(byName)
	if err != nil {
		return SplitResult{}, err
	}
	second := r
	second.Groups, second.Nodes = slices.Clone(r.Groups), result.Unplaced
	for i := range result.Groups {
		second.Groups[i].Size, second.Groups[i].Reserve = result.Groups[i].NewSize, 0
	}
	if result, err = second.split(r.byName()); err != nil {
		return SplitResult{}, err
	}
	for i := range result.Groups {
		row, g := &result.Groups[i], &r.Groups[i]
		row.Size = g.Size
		if row.Reason == ReasonNone {
			row.Reason = g.reserved(row.NewSize)
		}
	}
	return result, nil
}

// preferred is the size up to which the group gets nodes like any other.
func (g *Group) preferred() int64 {
	if g.Reserve == 0 {
		return g.Max
	}
	return max(min(g.Size, g.Max), g.Max-g.Reserve)
}

// reserved is the reason for a size that was not exceeded because of the group's reserve.
func (g *Group) reserved(size int64) Reason {
	if g.Reserve > 0 && size == g.preferred() && size < g.Max {
		return ReasonReserve
	}
	return ReasonNone
}
