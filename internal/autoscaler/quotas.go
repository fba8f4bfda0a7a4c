package autoscaler

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/internal/linked"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// The resources of a Quota, in whole cores, bytes and nodes.
const (
	QuotaCores  = string(v1.ResourceCPU)
	QuotaMemory = string(v1.ResourceMemory)
	QuotaNodes  = "nodes"
)

// Quota is a limit over all nodes that it counts, such as that of --cores-total or a CapacityQuota. GPUs
// are a resource by their kind, which is the value of a node's GPU label.
type Quota struct {
	Name     string
	Counts   func(group string, node *v1.Node) bool // the group is empty for a node of none
	Max, Min map[string]int64                       // by resource
}

// gpuLabels are the labels of nodes with GPUs, by the cloud as nodegroupset.StockCloud returns it.
var gpuLabels = map[string]string{
	"aws": "k8s.amazonaws.com/accelerator", "azure": "kubernetes.azure.com/accelerator",
	"civo": "civo.com/gpu-node", "clusterapi": "cluster-api/accelerator",
	"digitalocean": "cloud.digitalocean.com/gpu-node", "hcloud": "hcloud/gpu-node",
	"openstack": "magnum.openstack.org/gpu",
	"qcloud":    "cloud.tencent.com/tke-accelerator", "scaleway": "k8s.scw.cloud/gpu",
}

// gpuLabel is that of the cloud provider: its answer, or what its build of Cluster Autoscaler has.
func (a *Autoscaler) gpuLabel() string {
	if label := a.remote.label; label != nil && *label != "" {
		return *label
	}
	return cmp.Or(gpuLabels[a.options.Cloud], "cloud.google.com/gke-accelerator")
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

// loadOf is what a node of a group takes of quotas. Its group's template shows GPUs that are not ready.
func (a *Autoscaler) loadOf(node *v1.Node, group string) linked.Load {
	if node.Labels["type"] == "virtual-kubelet" {
		return linked.Load{Node: node}
	}
	load := linked.Load{Node: node, Takes: map[string]int64{
		QuotaCores: node.Status.Capacity.Cpu().Value(), QuotaMemory: node.Status.Capacity.Memory().Value(), QuotaNodes: 1,
	}}
	kind, labelled := node.Labels[a.gpuLabel()]
	if !labelled {
		return load
	}
	_, n := template.GPUs(node.Status.Allocatable)
	if t := a.templates[group]; n == 0 && t != nil {
		_, n = template.GPUs(t.Node.Node.Status.Capacity)
	}
	if n > 0 {
		load.Takes[kind] = n
	}
	return load
}

// loads are those of all nodes of a view, those to come included, with their groups. The first node of
// a group speaks for all of it.
func (a *Autoscaler) loads(v *view) (loads []linked.Load, groupOf map[*v1.Node]string) {
	groupOf = map[*v1.Node]string{}
	first := map[string]linked.Load{}
	for i, n := range v.nodes {
		var id string
		if i < v.real {
			id, _ = a.remote.groupOf(n.Node) // one that is not known is of no group
		} else {
			id = v.coming[i-v.real]
		}
		load := a.loadOf(n.Node, id)
		if id != "" {
			groupOf[n.Node] = id
			if known, ok := first[id]; ok {
				load.Takes = known.Takes
			} else {
				first[id] = load
			}
		}
		loads = append(loads, load)
	}
	return loads, groupOf
}

// floors are the minimums of the quotas. Nodes on their way out count as if they stayed, so that the cluster
// may get below a minimum; with Options.Before136 they do not.
func (a *Autoscaler) floors(v *view) (floors []removal.Floor) {
	if !slices.ContainsFunc(a.options.Quotas, func(q Quota) bool { return len(q.Min) > 0 }) {
		return nil
	}
	loads, groupOf := a.loads(v)
	for i := range a.options.Quotas {
		q := &a.options.Quotas[i]
		for _, resource := range slices.Sorted(maps.Keys(q.Min)) {
			f := removal.Floor{Name: q.Name, Left: -q.Min[resource], Takes: make([]int64, v.real)}
			for at, load := range loads {
				if !q.Counts(groupOf[load.Node], load.Node) || a.options.Before136 && deleting(load.Node) {
					continue
				}
				f.Left += load.Takes[resource]
				if at < v.real {
					f.Takes[at] = load.Takes[resource]
				}
			}
			f.Left = max(0, f.Left)
			floors = append(floors, f)
		}
	}
	return floors
}

// tracker is what the quotas leave.
type tracker struct {
	ca     *Autoscaler
	quotas []quota
	left   []map[string]int64 // by quota
	loads  []linked.Load      // of all nodes, those to come included
}

// track adds up what all nodes take.
func (t *attempt) track() *tracker {
	k := &tracker{ca: t.Autoscaler}
	if len(t.options.Quotas) == 0 {
		return k
	}
	loads, groupOf := t.loads(t.view)
	k.loads = loads
	for i := range t.options.Quotas {
		k.quotas = append(k.quotas, quota{&t.options.Quotas[i], groupOf})
	}
	for id, template := range t.templates {
		groupOf[template.Node.Node] = id
	}
	for _, q := range k.quotas {
		left, used := map[string]int64{}, linked.Used(q, loads)
		for resource, limit := range q.Max {
			left[resource] = limit - used[resource]
		}
		k.left = append(k.left, left)
	}
	return k
}

// room is how many nodes of a template the quotas leave, and the one that leaves least.
func (k *tracker) room(node *v1.Node) (room int64, by string) {
	room = math.MaxInt64
	takes := k.ca.loadOf(node, "").Takes
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

// add counts new nodes.
func (k *tracker) add(node *v1.Node, n int) {
	takes := k.ca.loadOf(node, "").Takes
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
			t.held[p.group.ID] = "held by " + by
		}
		if p.size > p.current {
			t.tracker.add(node, p.size-p.current)
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
				warnings = append(warnings, fmt.Sprintf("limits %s and %s overlap in part: both are kept, but the split may not be the evenest", a.Name,
					b.Name))
			}
		}
	}
	return warnings
}
