package steering

import (
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/spreadplan"
)

// Totals are the limits over all nodes that Cluster Autoscaler was given. It keeps to them in what
// it asks for, and cannot see what is granted beyond that. 0 means no limit.
type Totals struct {
	Nodes  int   // --max-nodes-total
	Cores  int64 // the maximum of --cores-total
	Memory int64 // the maximum of --memory-total, in bytes
}

// room returns how many nodes like a template may be added to those that are there or on their way.
func (t Totals) room(machines []*spreadplan.Machine, template *v1.Node) int {
	room := int64(math.MaxInt32)
	within := func(limit, used, each int64) {
		if limit > 0 {
			room = min(room, max(0, limit-used)/max(1, each))
		}
	}
	var cores, memory int64
	for _, m := range machines {
		cores += size(m.Node, v1.ResourceCPU)
		memory += size(m.Node, v1.ResourceMemory)
	}
	within(int64(t.Nodes), int64(len(machines)), 1)
	within(t.Cores, cores, size(template, v1.ResourceCPU))
	within(t.Memory, memory, size(template, v1.ResourceMemory))
	return int(room)
}

// size returns how much of a resource a node has, that of the system included.
func size(node *v1.Node, name v1.ResourceName) int64 {
	if q, known := node.Status.Capacity[name]; known {
		return q.Value()
	}
	q := node.Status.Allocatable[name]
	return q.Value()
}
