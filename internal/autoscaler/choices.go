package autoscaler

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
)

// choices are the templates that groups may have whose nodes differ, as those of a group over several
// zones do: the template is that of any node, another one in each loop. As long as nothing happens, a
// loop may decide otherwise until each of them was the template once.
type choices struct {
	pending []*v1.Pod // when the loops began in which nothing happened
	nodes   int
	since   time.Time
	vetoed  bool // by the expander since then
	tried   map[choice]bool
	others  map[choice]bool // that are not the template of this loop
	taken   map[string]choice
}

// choice is a group and that by which its nodes differ.
type choice struct{ group, zone, machine string }

// begin begins a loop.
func (c *choices) begin(pending []*v1.Pod, nodes []predicates.Node, now time.Time) {
	if c.tried == nil || c.nodes != len(nodes) || !slices.Equal(c.pending, pending) {
		c.tried, c.since, c.vetoed = map[choice]bool{}, now, false
	}
	c.pending, c.nodes = pending, len(nodes)
	c.others, c.taken = map[choice]bool{}, map[string]choice{}
}

// reset says that something has happened.
func (c *choices) reset() { c.tried = nil }

// see sees the nodes that may be the template of their group; the first of each is.
func (c *choices) see(group string, node *v1.Node) {
	this := choice{group, nodegroupset.ZoneOf(node), node.Labels[v1.LabelInstanceTypeStable]}
	if taken, ok := c.taken[group]; !ok {
		c.taken[group] = this
		c.tried[this] = true
	} else if this != taken {
		c.others[this] = true
	}
}

// left reports whether another loop may decide otherwise: there are templates that were none since
// something happened, or the expander may have waited for something, for at most the time given.
func (c *choices) left(now time.Time, most time.Duration) bool {
	if c.vetoed && now.Sub(c.since) < most {
		return true
	}
	for other := range c.others {
		if !c.tried[other] {
			return true
		}
	}
	return false
}
