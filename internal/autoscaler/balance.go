package autoscaler

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// planned is one group's part in a scale-up.
type planned struct {
	group               *group
	current, size, most int
}

// compare determines which templates are similar, if that matters.
func (t *attempt) compare() error {
	if !t.options.Balance {
		return nil
	}
	index, err := nodegroupset.NewIndex(nodegroupset.Options{})
	if err != nil {
		return fmt.Errorf("similar groups: %w", err)
	}
	for id, node := range t.templates {
		if err := index.Set(id, cloudprovider.Template{Node: node}); err != nil {
			return fmt.Errorf("similar groups: %w", err)
		}
	}
	t.alike = index
	return nil
}

// similar are the groups that share a scale-up of the group, with Cluster Autoscaler's own
// balancing on: safe ones with similar templates on which all kinds of pods fit that fit on the
// group.
func (t *attempt) similar(g *group) []*group {
	if !t.options.Balance {
		return nil
	}
	options, err := t.remote.groupOptions(g.ID)
	if err == nil && options != nil && options.ZeroOrMaxNodeScaling || !slices.Contains(t.fits[g.ID], true) {
		return nil
	}
	alike := t.alike.Similar(g.ID)
	var out []*group
	for _, other := range t.remote.nodeGroups() {
		if other.ID != g.ID && slices.Contains(alike, other.ID) && t.registry.safe(other.ID, t.now) && t.covers(other.ID, g.ID) {
			out = append(out, other)
		}
	}
	return out
}

// covers reports whether all kinds that fit on g fit on the other, which must be valid itself.
func (t *attempt) covers(other, g string) bool {
	fits, ok := t.fits[other]
	for i, fit := range t.fits[g] {
		if fit && (!ok || !fits[i]) {
			return false
		}
	}
	return ok
}

// balance adds nodes one by one to the smallest group with room. It reads the sizes again, and
// fails at the first error.
func (a *Autoscaler) balance(groups []*group, count int) ([]planned, error) {
	var plan []planned
	room := 0
	for _, g := range groups {
		size, err := a.remote.targetSize(g.ID)
		if err != nil {
			return nil, fmt.Errorf("balance: target size of %s: %w", g.ID, err)
		}
		if size != g.MaxSize {
			room += max(g.MaxSize-size, 0)
			plan = append(plan, planned{group: g, current: size, size: size, most: g.MaxSize})
		}
	}
	if a.options.TiesByName {
		slices.SortStableFunc(plan[min(1, len(plan)):], func(p, q planned) int { return cmp.Compare(p.group.ID, q.group.ID) })
	} else {
		slices.SortStableFunc(plan, func(p, q planned) int { return cmp.Compare(p.current, q.current) })
	}
	for range min(count, room) {
		least := -1
		for i := range plan {
			if plan[i].size < plan[i].most && (least < 0 || plan[i].size < plan[least].size) {
				least = i
			}
		}
		plan[least].size++
	}
	return slices.DeleteFunc(plan, func(p planned) bool { return p.size == p.current }), nil
}
