package linked

import (
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/podfit"
)

// Quota is one of the autoscaler's quotas: limits by resource over the nodes to which it applies.
type Quota interface {
	ID() string
	AppliesTo(node *v1.Node) bool
	Limits() map[string]int64
}

// Load is a node of the cluster, or the template of a group, and what a node like it takes of each
// resource.
type Load struct {
	Node  *v1.Node
	Takes map[string]int64
}

// Sharer is a group of a split as quotas see it, with the load of its template.
type Sharer struct {
	Name string
	Size int64
	Load
}

// SplitQuotas are quotas as a split among groups takes them: those that so many more nodes could
// exceed. The nodes are all that the cluster has and expects.
//
// The autoscaler cuts every member of a split by what is left for it, and what it cuts is lost
// until the next loop; a split that knows the quotas gives it to the others, and nothing is cut.
func SplitQuotas[Q Quota](quotas []Q, nodes []Load, groups []Sharer, more int64) []nodegroupset.Quota {
	var bounds []nodegroupset.Quota
	for _, quota := range quotas {
		used := Used(quota, nodes)
		limits := quota.Limits()
		for _, resource := range slices.Sorted(maps.Keys(limits)) {
			limit := max(0, limits[resource])
			left := limit - min(used[resource], limit)
			one, binds := nodegroupset.Quota{Name: quota.ID() + " (" + resource + ")", Limit: left}, false
			for _, group := range groups {
				units := group.Takes[resource]
				if units <= 0 || !quota.AppliesTo(group.Node) {
					continue
				}
				one.Groups, one.Units = append(one.Groups, group.Name), append(one.Units, units)
				one.Limit = podfit.AddSaturated(one.Limit, group.Size, units)
				binds = binds || podfit.AddSaturated(0, more, units) > left
			}
			if binds {
				bounds = append(bounds, one)
			}
		}
	}
	return bounds
}

// Used adds up what nodes take of a quota.
func Used(quota Quota, nodes []Load) map[string]int64 {
	used := map[string]int64{}
	for _, node := range nodes {
		if quota.AppliesTo(node.Node) {
			for resource, amount := range node.Takes {
				used[resource] = podfit.AddSaturated(used[resource], 1, amount)
			}
		}
	}
	return used
}

// left is how many nodes the limits leave to one of the groups if no other grows.
func (l *Limits) left(groups []nodegroupset.Group, name string) int64 {
	left := max(0, l.Room)
	for i := range l.Quotas {
		q := &l.Quotas[i]
		if at := slices.Index(q.Groups, name); at >= 0 {
			left = min(left, max(0, q.Limit-used(q, groups))/max(1, q.Units[at]))
		}
	}
	return left
}

// allow reports whether the limits leave room for new nodes of groups, one entry for each node.
func (l *Limits) allow(groups []nodegroupset.Group, added []string) bool {
	if int64(len(added)) > max(0, l.Room) {
		return false
	}
	more := map[string]int64{}
	for _, name := range added {
		more[name]++
	}
	grown := slices.Clone(groups)
	for i := range grown {
		grown[i].Size += more[grown[i].Name]
	}
	return !slices.ContainsFunc(l.Quotas, func(q nodegroupset.Quota) bool { return used(&q, grown) > max(q.Limit, used(&q, groups)) })
}

// used is what groups take of a quota as large as they are.
func used(q *nodegroupset.Quota, groups []nodegroupset.Group) int64 {
	var sum int64
	for _, g := range groups {
		if at := slices.Index(q.Groups, g.Name); at >= 0 {
			sum = podfit.AddSaturated(sum, g.Size, q.Units[at])
		}
	}
	return sum
}
