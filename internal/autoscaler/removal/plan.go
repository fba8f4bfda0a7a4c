package removal

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
)

// Plan decides one round. It changes nothing but what is remembered of nodes, and asks nobody but the scheduler's
// plugins: the same world has the same decision.
func (m Memory) Plan(w *World, checker *predicates.Checker, opts Options) (Decision, error) {
	m.keep(w.Nodes)
	p := newPlanner(w, checker, opts)
	p.known = m
	p.findCandidates()                      // nodes that are worth a try
	if err := p.kindsOfPods(); err != nil { // what their pods are to the scheduler
		return Decision{}, err
	}
	p.order()                               // which is tried first
	if err := p.tryRemovals(); err != nil { // nodes that nobody needs
		return Decision{}, err
	}
	p.choose() // those of them that go now
	return p.decision, nil
}

// planner carries one plan from step to step. Nodes are named by their position
// in the world.
type planner struct {
	world    *World
	checker  *predicates.Checker
	opts     Options
	known    Memory
	decision Decision

	groups     map[string]*Group
	outcome    []*NodeOutcome // of each node, nil for those of no group
	candidates []int          // in the order in which they are tried
	drains     []*drain       // of each candidate
	allowed    []int          // what each budget still allows
	risky      map[int]bool   // nodes whose pods the budgets do not let go all at once
	pods       pods
	due        []int // unneeded nodes that may go, the preferred first
}

func newPlanner(w *World, checker *predicates.Checker, opts Options) *planner {
	p := &planner{
		world: w, checker: checker, opts: opts, known: Memory{},
		groups:  make(map[string]*Group, len(w.Groups)),
		outcome: make([]*NodeOutcome, len(w.Nodes)), drains: make([]*drain, len(w.Nodes)), risky: map[int]bool{},
	}
	for i := range w.Budgets {
		p.allowed = append(p.allowed, w.Budgets[i].Allowed)
	}
	for i := range w.Groups {
		p.groups[w.Groups[i].ID] = &w.Groups[i]
	}
	return p
}

// findCandidates asks of every node of a group whether it is worth a try.
func (p *planner) findCandidates() {
	p.decision.Nodes = make([]NodeOutcome, 0, len(p.world.Nodes))
	p.pods.toMove = make([][]*v1.Pod, len(p.world.Nodes))
	for i := range p.world.Nodes {
		n := &p.world.Nodes[i]
		if n.Group == "" {
			continue
		}
		p.decision.Nodes = append(p.decision.Nodes, NodeOutcome{Node: n.Node.Node.Name, Group: n.Group})
		o := &p.decision.Nodes[len(p.decision.Nodes)-1]
		p.outcome[i] = o
		f := p.known.factsOf(n, p.world, &p.opts)
		if o.Outcome, o.Reason = p.ruledOut(n, f); o.Outcome != "" {
			continue
		}
		if f.reason != "" {
			o.Outcome, o.Reason = NodeBlocked, f.reason
			p.wakeAt(f.until)
			continue
		}
		p.drains[i], p.pods.toMove[i], o.Drain = &f.drain, f.movable, len(f.movable) > 0
		p.candidates = append(p.candidates, i)
	}
}

// ruledOut reports what keeps a node before anybody looks at single pods.
func (p *planner) ruledOut(n *Node, f *facts) (Outcome, string) {
	g := p.groups[n.Group]
	switch {
	case n.Leaving:
		return NodeLeaving, "on its way out"
	case g == nil:
		return NodeFixed, "the cloud does not list its group"
	case g.Err != nil:
		return NodeFixed, g.Err.Error()
	case g.AllOrNothing:
		return NodeFixed, "its group is all or nothing"
	case g.Target <= g.Min:
		return NodeFixed, fmt.Sprintf("its group is at its minimum of %d", g.Min)
	}
	if reason := f.inUse(n, g, p.opts.GPULabel); reason != "" {
		return NodeInUse, reason
	}
	return "", ""
}

// takesPods reports whether pods may move to a node.
func takesPods(n *Node) bool {
	return !n.Leaving && !n.Node.Node.Spec.Unschedulable && template.IsReady(n.Node.Node)
}

// tryRemovals goes through the candidates and finds those that nobody needs,
// each with all those before it gone.
func (p *planner) tryRemovals() error {
	w, err := p.newWhatIf(p.places())
	if err != nil {
		return err
	}
	for _, i := range p.candidates {
		o := p.outcome[i]
		if !p.withinBudget(i) {
			continue
		}
		gone, err := w.remove(i)
		if err != nil {
			return err
		}
		if !gone {
			o.Outcome, o.Reason = NodeNeeded, "its pods fit on no other node"
			continue
		}
		p.spend(i)
		o.UnneededSince = p.world.Nodes[i].UnneededSince
		if o.UnneededSince.IsZero() {
			o.UnneededSince = p.world.Now
		}
		p.await(i)
	}
	return nil
}

// places orders nodes as places for pods that move: the candidates come last,
// and of them the first ones at the very end, so that nodes that may go soon are
// not filled up.
func (p *planner) places() []int {
	last := make([]bool, len(p.world.Nodes))
	for _, i := range p.candidates {
		last[i] = true
	}
	places := make([]int, 0, len(p.world.Nodes))
	for i := range p.world.Nodes {
		if !last[i] {
			places = append(places, i)
		}
	}
	for _, i := range slices.Backward(p.candidates) {
		places = append(places, i)
	}
	return places
}

// await says what an unneeded node waits for, or puts it among those that may
// go.
func (p *planner) await(i int) {
	n, o := &p.world.Nodes[i], p.outcome[i]
	g := p.groups[n.Group]
	patience, state := g.Settings.ScaleDownUnneededTime, "not needed"
	if !template.IsReady(n.Node.Node) {
		patience, state = g.Settings.ScaleDownUnreadyTime, "not ready"
	}
	now, dueAt := p.world.Now, o.UnneededSince.Add(patience)
	o.DueSince = dueAt
	switch {
	case now.Before(dueAt):
		o.Outcome, o.Reason = WaitsForTime, fmt.Sprintf("%s for less than %s", state, patience)
		p.wakeAt(dueAt)
	case now.Before(p.world.CoolingUntil):
		o.Outcome, o.Reason = WaitsForCoolDown, p.world.Cooling
		p.wakeAt(p.world.CoolingUntil)
	case p.drains[i].completing:
		o.Outcome, o.Reason = WaitsForPod, "has a pod that is to complete first"
	default:
		o.Reason = state
		p.due = append(p.due, i)
	}
}

// wakeAt notes an instant at which a round may decide otherwise.
func (p *planner) wakeAt(at time.Time) {
	if d := &p.decision; at.After(p.world.Now) && (d.Next.IsZero() || at.Before(d.Next)) {
		d.Next = at
	}
}
