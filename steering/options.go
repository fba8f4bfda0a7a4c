package steering

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// plain reports whether nothing but its node affinity, tolerations and requests decides where a pod
// may run.
func plain(pod *v1.Pod) bool { return !spreadplan.Spreads(pod) && spreadplan.Uncovered(pod) == "" }

// limited reports whether the group's option may lack pods for want of room.
func (c *choice) limited(name string) bool {
	return c.counts[name] >= c.s.view.Groups[name].MaxSize-c.s.state(name).target
}

// template returns a node of the group as sent with the question, or else as the cloud describes
// it; nil if there is neither.
func (c *choice) template(id string) *v1.Node {
	if node := c.request.Nodes[id]; node != nil {
		return node
	}
	if g := c.s.view.Groups[id]; g != nil {
		return g.Template.Node
	}
	return nil
}

// accepted counts the pods of an option whose node affinity and selector accept a node, and those of
// them for which nothing else matters.
func (c *choice) accepted(o *expander.Offer, node *v1.Node) (certain, accepted int) {
	for _, i := range o.Pods {
		if pod := c.request.Pods[i]; podfit.RulesOf(pod).Select(node) {
			accepted++
			if plain(pod) {
				certain++
			}
		}
	}
	return certain, accepted
}
