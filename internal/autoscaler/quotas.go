package autoscaler

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/evenkeel/evenkeel/internal/linked"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// The resources of a Quota, in whole cores, bytes and nodes.
const (
	QuotaCores  = string(v1.ResourceCPU)
	QuotaMemory = string(v1.ResourceMemory)
	QuotaNodes  = "nodes"
)

// Quota is a limit over all nodes that it counts, such as that of --cores-total or a CapacityQuota.
type Quota struct {
	Name   string
	Counts func(group string, node *v1.Node) bool // the group is empty for a node of none
	Max    map[string]int64                       // by resource
}

// quota is a Quota while a scale-up is worked out: nodes are known by their groups.
type quota struct {
	*Quota
	groupOf map[*v1.Node]string
}

var _ linked.Quota = quota{}

func (q quota) ID() string                   { return q.Name }
func (q quota) AppliesTo(node *v1.Node) bool { return q.Counts(q.groupOf[node], node) }
func (q quota) Limits() map[string]int64     { return q.Max }

// loadOf is what a node takes of quotas.
func loadOf(node *v1.Node) linked.Load {
	return linked.Load{Node: node, Takes: map[string]int64{
		QuotaCores: node.Status.Capacity.Cpu().Value(), QuotaMemory: node.Status.Capacity.Memory().Value(), QuotaNodes: 1,
	}}
}

// tracker is what the quotas leave.
type tracker struct {
	quotas []quota
	left   []map[string]int64 // by quota
	loads  []linked.Load      // of all nodes, those to come included
}

// track adds up what all nodes take; the first node of a group speaks for all of it.
func (t *attempt) track() *tracker {
	k := &tracker{}
	groupOf := map[*v1.Node]string{}
	for i := range t.options.Quotas {
		k.quotas = append(k.quotas, quota{&t.options.Quotas[i], groupOf})
	}
	if len(k.quotas) == 0 {
		return k
	}
	first := map[string]linked.Load{}
	for i, n := range t.view.nodes {
		load := loadOf(n.Node)
		var id string
		if i < t.view.real {
			id, _ = t.remote.groupOf(n.Node) // one that is not known is of no group
		} else {
			id = t.view.coming[i-t.view.real]
		}
		if id != "" {
			groupOf[n.Node] = id
			if known, ok := first[id]; ok {
				load.Takes = known.Takes
			} else {
				first[id] = load
			}
		}
		k.loads = append(k.loads, load)
	}
	for id, template := range t.templates {
		groupOf[template.Node.Node] = id
	}
	for _, q := range k.quotas {
		left := map[string]int64{}
		for resource, limit := range q.Max {
			left[resource] = limit
			for _, load := range k.loads {
				if q.AppliesTo(load.Node) {
					left[resource] -= load.Takes[resource]
				}
			}
		}
		k.left = append(k.left, left)
	}
	return k
}

// room is how many nodes of a template the quotas leave, and the one that leaves least.
func (k *tracker) room(node *v1.Node) (room int64, by string) {
	room = math.MaxInt64
	takes := loadOf(node).Takes
	for i, q := range k.quotas {
		if !q.AppliesTo(node) {
			continue
		}
		for resource, left := range k.left[i] {
			if units := takes[resource]; units > 0 && max(0, left)/units < room {
				room, by = max(0, left)/units, q.Name
			}
		}
	}
	return room, by
}

// take counts new nodes.
func (k *tracker) take(node *v1.Node, n int) {
	takes := loadOf(node).Takes
	for i, q := range k.quotas {
		if q.AppliesTo(node) {
			for resource := range k.left[i] {
				k.left[i][resource] -= takes[resource] * int64(n)
			}
		}
	}
}

// cut takes from a plan what exceeds a quota, one group after the other. What is cut is lost for this
// loop.
func (t *attempt) cut(plan []planned) []planned {
	if len(t.tracker.quotas) == 0 {
		return plan
	}
	var out []planned
	for _, p := range plan {
		node := t.templates[p.group.ID].Node.Node
		room, by := t.tracker.room(node)
		if delta := int64(p.size - p.current); delta > room {
			p.size = p.current + int(room)
			t.round.cut(p.group.ID, by)
		}
		if p.size > p.current {
			t.tracker.take(node, p.size-p.current)
			out = append(out, p)
		}
	}
	return out
}

// crossing warns of quotas of which each counts groups that the other does not: a split keeps every
// limit, but need not be the evenest one.
func crossing(quotas []nodegroupset.Quota) []string {
	var warnings []string
	for i, a := range quotas {
		for _, b := range quotas[i+1:] {
			ofB := sets.New(b.Groups...)
			both := len(ofB.Intersection(sets.New(a.Groups...)))
			if both > 0 && both < len(a.Groups) && both < len(b.Groups) {
				warnings = append(warnings, fmt.Sprintf("limits %s and %s overlap in part: both are kept, but the split may not be the evenest", a.Name, b.Name))
			}
		}
	}
	return warnings
}
