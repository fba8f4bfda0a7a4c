package nodegroupset

import (
	"slices"
	"time"
)

// Order is a number of nodes that were ordered together.
type Order struct {
	At    time.Time
	Nodes int
}

// Orders are those of the nodes of a group that are on their way, the oldest first.
type Orders []Order

// Last returns the orders of the nodes that were ordered last.
func (o Orders) Last(nodes int) Orders {
	for i := len(o) - 1; i >= 0; i-- {
		if nodes -= o[i].Nodes; nodes <= 0 {
			kept := slices.Clone(o[i:])
			kept[0].Nodes += nodes
			return slices.DeleteFunc(kept, func(o Order) bool { return o.Nodes == 0 })
		}
	}
	return slices.Clip(o)
}

// Nodes returns how many nodes are on their way.
func (o Orders) Nodes() (nodes int) {
	for i := range o {
		nodes += o[i].Nodes
	}
	return nodes
}

// Follow returns the orders once so many nodes are on their way. Those that have come are taken to be
// the oldest ones, and others than are known to have been ordered at a given time.
func (o Orders) Follow(nodes int, ordered time.Time) Orders {
	if more := nodes - o.Nodes(); more > 0 {
		return append(slices.Clip(o), Order{ordered, more})
	}
	return o.Last(nodes)
}

// Until returns how many of the nodes were ordered at a time or before.
func (o Orders) Until(at time.Time) (nodes int) {
	for i := range o {
		if !o[i].At.After(at) {
			nodes += o[i].Nodes
		}
	}
	return nodes
}
