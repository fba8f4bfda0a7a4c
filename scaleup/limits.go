package scaleup

import (
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// quota is one limit over several groups, in one unit: nodes, milli-cores or
// bytes.
type quota struct {
	name  string
	limit int64
	// units says how much of the limit one node of a group takes; a group that
	// the limit does not count is absent.
	units map[string]int64
	// used is what all counted nodes take, at the groups' target sizes.
	used int64
}

// quotas turns the limits into sums over groups, with what is in use.
func (l Limits) quotas(w *World) []quota {
	foreign := w.foreign()
	everywhere := func(Group) bool { return true }
	var all []quota
	add := func(name string, limit int64, counts func(Group) bool, units func(*v1.Node) int64, foreign int64) {
		if limit <= 0 {
			return
		}
		c := quota{name: name, limit: limit, units: map[string]int64{}, used: foreign}
		for _, g := range w.Groups {
			if g.Template == nil || !counts(g) {
				continue
			}
			c.units[g.ID] = units(g.Template.Node)
			c.used = addSaturated(c.used, mulSaturated(c.units[g.ID], int64(g.Target)))
		}
		all = append(all, c)
	}
	add("max-nodes-total", int64(l.MaxNodesTotal), everywhere, oneNode, foreign.nodes)
	add("cores-total", mulSaturated(l.MaxCoresTotal, 1000), everywhere, milliCPU, foreign.milliCPU)
	add("memory-total", l.MaxMemoryTotal, everywhere, memory, foreign.memory)
	for _, q := range l.Quotas {
		add(q.label("nodes"), q.Nodes, q.counts, oneNode, 0)
		add(q.label("cpu"), q.MilliCPU, q.counts, milliCPU, 0)
		add(q.label("memory"), q.Memory, q.counts, memory, 0)
	}
	return all
}

// label names the limit; a quota with one limit needs no suffix.
func (q Quota) label(unit string) string {
	limits := 0
	for _, limit := range []int64{q.Nodes, q.MilliCPU, q.Memory} {
		if limit > 0 {
			limits++
		}
	}
	if limits == 1 {
		return q.Name
	}
	return q.Name + "/" + unit
}

func (q Quota) counts(g Group) bool {
	if len(q.Groups) == 0 && len(q.Zones) == 0 {
		return true
	}
	return slices.Contains(q.Groups, g.ID) || (g.Zone != "" && slices.Contains(q.Zones, g.Zone))
}

func oneNode(*v1.Node) int64    { return 1 }
func milliCPU(n *v1.Node) int64 { return n.Status.Capacity.Cpu().MilliValue() }
func memory(n *v1.Node) int64   { return n.Status.Capacity.Memory().Value() }

// usage is what nodes of no node group take.
type usage struct{ nodes, milliCPU, memory int64 }

func (w *World) foreign() usage {
	var u usage
	for i, n := range w.Nodes {
		if w.GroupOf[i] == "" {
			u.nodes++
			u.milliCPU = addSaturated(u.milliCPU, milliCPU(n.Node))
			u.memory = addSaturated(u.memory, memory(n.Node))
		}
	}
	return u
}

// room is how many nodes of the group the quota still allows.
func (c *quota) room(group string) int64 {
	units, counted := c.units[group]
	if !counted || units == 0 {
		return math.MaxInt64
	}
	return max(0, c.limit-c.used) / units
}

// full names the quota that allows the group not one node more, if any.
func full(quotas []quota, group string) (string, bool) {
	for i := range quotas {
		if quotas[i].room(group) == 0 {
			return quotas[i].name, true
		}
	}
	return "", false
}

// grow books nodes that were added to a group.
func grow(quotas []quota, group string, nodes int64) {
	for i := range quotas {
		quotas[i].used = addSaturated(quotas[i].used, mulSaturated(quotas[i].units[group], nodes))
	}
}

// splitQuotas are the quotas as the split of a set sees them: what others use is
// taken off, what the members use is theirs.
func splitQuotas(quotas []quota, members []nodegroupset.Group) []nodegroupset.Quota {
	var all []nodegroupset.Quota
	for i := range quotas {
		c := &quotas[i]
		shared := nodegroupset.Quota{Name: c.name, Limit: c.limit - c.used}
		for _, m := range members {
			units, counted := c.units[m.Name]
			if !counted || units == 0 {
				continue
			}
			shared.Groups = append(shared.Groups, m.Name)
			shared.Units = append(shared.Units, units)
			shared.Limit = addSaturated(shared.Limit, mulSaturated(units, m.Size))
		}
		if len(shared.Groups) > 0 {
			all = append(all, shared)
		}
	}
	return all
}

// overlapping warns of quotas that cross: then the split keeps every limit
// but need not be the evenest one.
func overlapping(shared []nodegroupset.Quota) []string {
	members := func(c nodegroupset.Quota) []string { return slices.Sorted(slices.Values(c.Groups)) }
	var warnings []string
	for i, a := range shared {
		for _, b := range shared[i+1:] {
			inA, inB := members(a), members(b)
			both := 0
			for _, name := range inA {
				if _, found := slices.BinarySearch(inB, name); found {
					both++
				}
			}
			if both > 0 && both < len(inA) && both < len(inB) {
				warnings = append(warnings, fmt.Sprintf("limits %s and %s overlap in part: both are kept, but the split may not be the evenest", a.Name, b.Name))
			}
		}
	}
	return warnings
}

func addSaturated(a, b int64) int64 {
	sum := a + b
	if a > 0 && b > 0 && sum < 0 {
		return math.MaxInt64
	}
	return sum
}

func mulSaturated(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	if a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}
