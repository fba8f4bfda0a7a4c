package steering

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// young is the age below which Cluster Autoscaler may have left a pod out of its questions.
const young = 5 * time.Second

// noticeUncounted looks for signs that Cluster Autoscaler does not count nodes although its
// increase was answered with success: the answer was lost, and Cluster Autoscaler has backed the
// group off. Releases before 1.36 count them all the same.
func (c *choice) noticeUncounted() {
	pending := make(map[types.UID]bool, len(c.request.Pods))
	competing := false // pods that were too young for the question before may have taken the room
	for _, pod := range c.request.Pods {
		pending[uid(pod)] = true
		competing = competing || c.at.now.Sub(pod.CreationTimestamp.Time) < young
	}
	for id, b := range c.groups {
		g := c.view.Groups[id]
		if g == nil {
			continue
		}
		absent := c.noticeAbsent(id, g, b)
		if last := b.grant; !c.before136 && last != nil && last.loop == c.loop-1 && !competing && !slices.ContainsFunc(last.pods, func(id types.UID) bool { return !pending[id] }) {
			b.guess() // no pod found room on the new nodes
		}
		b.grant = nil // a loop without a question: Cluster Autoscaler was content
		if absent && !c.before136 && (b.Seen || b.Guessed && !b.Away) {
			b.guess() // similar groups could grow for pods that would run here, and this one could not
			b.Away = true
			b.hide(g, c.at)
		}
	}
}

// noticeAbsent reports whether a group has no option for no known reason, and counts for how long.
func (c *choice) noticeAbsent(id string, g *Group, b *groupState) bool {
	if c.options[id] != nil || !b.Away {
		b.absent = streak{}
	} else {
		b.absent.in(c.loop)
	}
	if c.options[id] == nil && b.target < g.MaxSize && c.wanted(id) && !c.at.unhealthy(g, b) {
		b.missed++
	} else {
		b.missed = 0
	}
	return b.missed > 0
}

// guess notes that Cluster Autoscaler seems not to count the group's nodes on their way.
func (b *groupState) guess() {
	b.Guessed = b.Guessed || b.Seen
	b.Seen = false
}

// maxDoubts is for how many loops in a row less is granted on account of nodes on their way of which
// it is only a guess that Cluster Autoscaler does not count them, or that the pods could run on them,
// and for how many a member that it leaves out keeps its part of the split. Then its need counts.
const maxDoubts = 2

// plain reports whether nothing but its node affinity, tolerations and requests decides where a pod
// may run.
func plain(pod *v1.Pod) bool { return !spreadplan.Spreads(pod) && spreadplan.Uncovered(pod) == "" }

// whole reports whether the question has all pending pods. Options of groups near their maximum may
// lack some.
func (c *choice) whole() bool {
	return slices.ContainsFunc(c.names, func(name string) bool { return !c.limited(name) })
}

// limited reports whether the group's option may lack pods for want of room.
func (c *choice) limited(name string) bool {
	return c.counts[name] >= c.view.Groups[name].MaxSize-c.state(name).target
}

// wanted reports whether some pod in the options of similar groups may run in the group as well: its
// node affinity accepts it, and it has nothing like a topology spread that can have kept it out.
func (c *choice) wanted(id string) bool {
	template := c.template(id)
	if template == nil {
		return false
	}
	for _, other := range c.index.Similar(id) {
		o := c.options[other]
		if o != nil && slices.ContainsFunc(o.Pods, func(i int) bool {
			return plain(c.request.Pods[i]) && spreadplan.Admits(c.request.Pods[i], template)
		}) {
			return true
		}
	}
	return false
}

// template returns a node of the group as sent with the question, or else as the cloud describes
// it; nil if there is neither.
func (c *choice) template(id string) *v1.Node {
	if node := c.request.Nodes[id]; node != nil {
		return node
	}
	if g := c.view.Groups[id]; g != nil {
		return g.Template.Node
	}
	return nil
}

// accepted counts the pods of an option whose node affinity and selector accept a node, and those of
// them for which nothing else matters.
func (c *choice) accepted(o *expander.Offer, node *v1.Node) (certain, accepted int) {
	for _, i := range o.Pods {
		if pod := c.request.Pods[i]; spreadplan.Accepts(pod, node) {
			accepted++
			if plain(pod) {
				certain++
			}
		}
	}
	return certain, accepted
}
