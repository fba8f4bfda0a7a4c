package steering

import (
	"fmt"
	"math"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// again picks a member on whose coming nodes pods have room that no other member of the set accepts,
// and gets them as many nodes once more, or as many as the other pods need if these are fewer. The
// scheduler may put pods that run anywhere on the nodes that bound ones need, and if nothing is done
// before that shows, these wait for another boot. Cluster Autoscaler asks for more nodes where its
// own simulation comes out that way. A member gets none that has that many on their way already, or of
// whose nodes one has arrived.
func (c *choice) again() (*pick, Decision) {
	if !c.HidesFailures() || len(c.provided.kinds) <= 1 || !c.holds(c.at) {
		return nil, Decision{}
	}
	for i := range c.request.Options {
		o := &c.request.Options[i]
		bound := c.provided.bound[o.Group]
		if c.options[o.Group] == nil || bound == nil || !c.has(o, bound.pods) || !c.mayGrowAgain(o.Group) {
			continue
		}
		m, coming := c.member(o.Group), c.inFlight(o.Group)
		nodes := min(bound.nodes+min(bound.nodes, bound.others)-coming, int(m.Max-m.Size), c.roomWithin(o))
		if nodes <= 0 || m.held != "" {
			continue
		}
		m.option = *o
		s := &split{chosen: o.Group, need: nodes, bound: true, whole: true, members: []member{m}, shares: map[string]int{o.Group: nodes}, room: map[string]int{o.Group: nodes}}
		s.result = []PlanMember{{Name: o.Group, Size: int(m.Size - m.lag), NewSize: int(m.Size-m.lag) + nodes}}
		p := &pick{Group: o.Group, count: c.counts[o.Group], split: s, Share: nodes, pods: c.takers(o.Group, o.Group)}
		reason := fmt.Sprintf("no other member of the set takes %d of the pods, and others may take the %d nodes that are on their way", len(bound.pods), coming)
		return p, Decision{Group: o.Group, Asked: p.count, Granted: nodes, Members: s.result, Reason: reason}
	}
	return nil, Decision{}
}

// mayGrowAgain reports whether all nodes are still on their way that were when pods bound to a
// member had room, and nothing about its set is unclear.
func (c *choice) mayGrowAgain(name string) bool {
	if grown, _ := c.grownNow(name); grown || c.shut(name) || c.single(name) {
		return false
	}
	for _, other := range c.similarTo(name) {
		if g := c.view.Groups[other]; g != nil && c.unseen(g, c.at) > 0 {
			return false
		}
	}
	return !c.counted(name).troubled() && c.inFlight(name) >= c.provided.coming[name]
}

// roomWithin returns how many nodes the limits over all nodes leave for an option: as many as
// Cluster Autoscaler asks for, unless it can be known that there is more.
func (c *choice) roomWithin(o *expander.Offer) int {
	if c.o.Totals == (Totals{}) {
		return math.MaxInt
	}
	if template := c.template(o.Group); template != nil && c.request.Workload != nil {
		if f, ok := c.newFleet(); ok {
			return c.o.Totals.room(f.machines, template)
		}
	}
	return o.NodeCount
}

func (c *choice) inFlight(name string) int { return c.counted(name).inFlight }

// counted are the numbers of a group's nodes.
func (c *choice) counted(name string) counted { return c.at.count(c.view.Groups[name], c.state(name)) }

// boundTo returns the pods of an option that no similar group accepts.
func (c *choice) boundTo(o *expander.Offer) map[types.UID]bool {
	out := map[types.UID]bool{}
	for _, i := range o.Pods {
		pod := c.request.Pods[i]
		accepted := func(other string) bool {
			template := c.template(other)
			return other != o.Group && (template == nil || spreadplan.Accepts(pod, template))
		}
		if !spreadplan.Spreads(pod) && !slices.ContainsFunc(c.similarTo(o.Group), accepted) {
			out[uid(pod)] = true
		}
	}
	return out
}
