package steering

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// provided are pods that have room on nodes on their way. Cluster Autoscaler simulates anew in
// every loop which pods would run where: a pod that could run anywhere may take the room meant for
// one that cannot, and nodes for the latter are asked for again. This is unknown until the nodes
// are ready and the scheduler has had time, so waiting costs loops but no nodes. Pods that are all
// alike cannot take each other's room: if nodes are asked for again, it is for other pods. So it is
// with pods that have a topology spread: they are asked for bit by bit.
type provided struct {
	podSet
	targets map[string]int    // sizes that hold their nodes, by group
	at      time.Time         // of the last one
	quiet   time.Time         // since when none of the groups has nodes on their way; zero while one has
	coming  map[string]int    // nodes that were on their way, by group
	bound   map[string]*bound // by group
}

// podSet is pods and their kinds.
type podSet struct {
	pods  map[types.UID]bool
	kinds map[string]bool // by what they may run on; two stand for more, since more than one is all that matters
}

// add adds the pods of an option.
func (s *podSet) add(c *choice, o *expander.Offer) {
	for _, i := range o.Pods {
		pod := c.request.Pods[i]
		if s.pods[uid(pod)] = true; len(s.kinds) <= 1 {
			s.kinds[spreadplan.WhereOf(pod)] = true
		}
	}
}

// bound are pods that only one group of a set accepts.
type bound struct {
	pods   map[types.UID]bool
	nodes  int // that they need
	others int // nodes that the other pods of the set need, which may take theirs
}

// bind notes which pods of an option of a group are bound to it, of a set that needs so many nodes.
func (p *provided) bind(o *expander.Offer, pods map[types.UID]bool, need int) {
	b := p.bound[o.Group]
	if b == nil {
		b = &bound{pods: map[types.UID]bool{}}
		p.bound[o.Group] = b
	}
	before := len(b.pods)
	maps.Copy(b.pods, pods)
	if more := len(b.pods) - before; more > 0 {
		nodes := ceilDiv(o.NodeCount*more, len(o.Pods))
		b.nodes, b.others = b.nodes+nodes, b.others+max(0, need-nodes)
	}
}

// schedulerTime is how long the scheduler has for pods once all nodes are ready.
const schedulerTime = 10 * time.Second

// provide notes that all pods of a plan have room. The last question had all pods that were
// pending.
func (s *Machine) provide(p *pick) {
	if s.provided.pods == nil {
		s.provided = provided{podSet: podSet{map[types.UID]bool{}, map[string]bool{}}, targets: map[string]int{}, coming: map[string]int{}, bound: map[string]*bound{}}
	}
	maps.Copy(s.provided.pods, s.plan.pods)
	maps.Copy(s.provided.kinds, s.plan.kinds)
	for i := range p.split.members {
		m := &p.split.members[i]
		s.provided.targets[m.Name] = s.state(m.Name).target
		s.provided.coming[m.Name] = p.from.inFlight(m.Name)
		if m.offered() {
			s.provided.bind(&m.option, p.from.boundTo(&m.option), s.plan.need)
			s.provided.add(p.from, &m.option)
		}
	}
	s.provided.at, s.provided.quiet = s.now, time.Time{}
}

// holds reports whether the nodes are still on their way, or so new that the scheduler may still be
// at work. It is called at least once per loop.
func (s *Machine) holds(at *observation) bool {
	p := &s.provided
	if p.pods == nil {
		return false
	}
	coming := false
	for id, target := range p.targets {
		g := s.view.Groups[id]
		if g == nil || s.state(id).target < target {
			return false // some were lost
		}
		coming = coming || at.count(g, s.state(id)).inFlight > 0
	}
	watchSince(&p.quiet, !coming, at.now)
	return coming || at.now.Sub(p.quiet) < schedulerTime
}

// dropProvided takes pods that have room out of the options, together with the nodes for them.
func (c *choice) dropProvided() (dropped int) {
	if !c.holds(c.at) {
		c.provided = provided{}
		return 0
	}
	if len(c.provided.kinds) <= 1 {
		return 0
	}
	for _, name := range c.names {
		o := c.options[name]
		if c.single(name) {
			continue
		}
		rest := &expander.Offer{Group: o.Group, Debug: o.Debug}
		for _, i := range o.Pods {
			if pod := c.request.Pods[i]; spreadplan.Spreads(pod) || !c.provided.pods[uid(pod)] {
				rest.Pods = append(rest.Pods, i)
			}
		}
		if len(rest.Pods) == len(o.Pods) {
			continue
		}
		rest.NodeCount = ceilDiv(o.NodeCount*len(rest.Pods), len(o.Pods))
		dropped = max(dropped, len(o.Pods)-len(rest.Pods))
		c.options[name] = rest
	}
	return dropped
}
