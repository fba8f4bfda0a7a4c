package scaleup

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
)

// A declared set may have a start-up deadline. Nodes of a member that are not ready by then are given
// up as far as other members can take their share. The member is backed off, and afterwards it is on
// trial: it gets one node until one of its nodes has become ready.

// setDeadlines notes with each group the start-up deadline of its set, where that is shorter than
// the limit for all groups.
func (s *Scaler) setDeadlines(w *World) {
	if s.opts.DisableBalancing || !slices.ContainsFunc(s.opts.Similarity.Policies, func(p nodegroupset.SetPolicy) bool { return p.StartupDeadline > 0 }) {
		return
	}
	s.terms = s.opts.terms(w)
	for i := range w.Groups {
		g := &w.Groups[i]
		g.OnTrial = s.trials[g.ID]
		if deadline := s.terms[g.ID].Patience(s.opts.maxNodeProvisionTime()); deadline < s.opts.maxNodeProvisionTime() {
			g.StartupDeadline = deadline
		}
	}
}

// lateGroup is a group with nodes past its start-up deadline.
type lateGroup struct {
	*Group
	nodes   int
	stuck   []*v1.Node // instances that have had no node for longer
	young   []*v1.Node // others that are not ready nodes, what is nearest to it last
	missing int        // without an instance
}

// noteLate finds out how many nodes of a group are past its start-up deadline.
func (p *inspection) noteLate(g *Group, instances []cloudprovider.Instance) {
	if g.StartupDeadline == 0 {
		return
	}
	l := lateGroup{Group: g, missing: max(0, g.Target-present(instances))}
	l.stuck, l.young = p.startingOf(g, instances)
	g.Orders = g.Orders.Last(g.Upcoming)
	l.nodes = min(max(g.Orders.Until(p.now.Add(-g.StartupDeadline)), len(l.stuck)), g.Upcoming)
	if l.nodes > 0 {
		p.lateGroups = append(p.lateGroups, l)
	}
}

// giveUp gives up late nodes that others can take: first instances that are stuck, then orders
// without an instance.
func (p *inspection) giveUp(ctx context.Context, g *lateGroup) []Repair {
	n := p.replaceable(g)
	if n == 0 {
		return nil
	}
	lost := g.stuck[:min(n, len(g.stuck))]
	missing := min(n-len(lost), g.missing)
	lost = append(lost, g.young[:min(n-len(lost)-missing, len(g.young))]...)
	p.promised[p.terms[g.ID]] += n
	reason := fmt.Sprintf("not ready within %s, the start-up deadline of set %s", g.StartupDeadline, p.terms[g.ID].Set)
	var repairs []Repair
	if len(lost) > 0 {
		r := Repair{Group: g.ID, Nodes: len(lost), Reason: reason}
		r.Err = p.provider.DeleteNodes(ctx, g.ID, lost)
		repairs = append(repairs, p.book(g.Group, r))
	}
	if missing > 0 {
		r := Repair{Group: g.ID, Nodes: missing, Reason: reason}
		r.Err = p.provider.DecreaseTargetSize(ctx, g.ID, -missing)
		repairs = append(repairs, p.book(g.Group, r))
	}
	p.trials[g.ID], g.OnTrial = true, true
	return repairs
}

// startingOf are the group's instances that are not ready nodes yet, the oldest first: those without
// a node for longer than the deadline, and the others, of which those with a node come last.
func (p *inspection) startingOf(g *Group, instances []cloudprovider.Instance) (stuck, young []*v1.Node) {
	var waiting, registered []*v1.Node
	for i := range instances {
		id := instances[i].ID
		if since, awaited := p.awaited[id]; awaited && p.now.Sub(since) >= g.StartupDeadline {
			stuck = append(stuck, cloudprovider.FakeNode(id, cloudprovider.FakeNodeUnregistered))
		} else if awaited {
			waiting = append(waiting, cloudprovider.FakeNode(id, cloudprovider.FakeNodeUnregistered))
		}
	}
	for _, n := range p.members[g.ID] {
		if !template.IsReady(n.Node) && !template.IsLeaving(n.Node) && !p.everReady[n.Node.Name] {
			registered = append(registered, n.Node)
		}
	}
	since := func(a, b *v1.Node) int {
		return cmp.Or(p.awaited[a.Spec.ProviderID].Compare(p.awaited[b.Spec.ProviderID]), cmp.Compare(a.Spec.ProviderID, b.Spec.ProviderID))
	}
	slices.SortFunc(stuck, since)
	slices.SortFunc(waiting, since)
	slices.SortFunc(registered, func(a, b *v1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	return stuck, append(waiting, registered...)
}

// replaceable is how many of the late nodes of a group other members of its set can have instead:
// those that may grow, within all limits, for the pods that wait. Members that are late themselves,
// brought their last nodes too late, are on trial, or refused when they were last asked do not count,
// so that nodes do not swing between them.
func (p *inspection) replaceable(g *lateGroup) int {
	late := g.nodes
	without := *p.world
	without.Groups = slices.Clone(p.world.Groups)
	var others []string
	var templates []predicates.Node
	for i := range without.Groups {
		other := &without.Groups[i]
		switch {
		case other.ID == g.ID:
			other.Target -= late
		case p.terms[other.ID] == nil || p.terms[other.ID] != p.terms[g.ID] || other.Err != nil || other.Template == nil || !other.BackedOffUntil.IsZero() || p.away[other.ID] != "" || other.OnTrial || p.refused[other.ID] || p.slow[other.ID],
			slices.ContainsFunc(p.lateGroups, func(l lateGroup) bool { return l.ID == other.ID }):
		default:
			others = append(others, other.ID)
			templates = append(templates, predicates.Node{Node: other.Template.Node, Pods: other.Template.Pods})
		}
	}
	if len(others) == 0 {
		return 0
	}
	promised := p.promised[p.terms[g.ID]]
	late = max(0, int(newLedger(&without, &p.opts).room(others, int64(promised+late)))-promised)
	var pods []*v1.Pod
	if o := p.orders[g.ID]; o != nil {
		for _, pod := range p.world.Pending {
			if o.pods[podKey(pod)] {
				pods = append(pods, pod)
			}
		}
	}
	if len(pods) == 0 {
		return late
	}
	fit, err := p.checker.Cluster(nil).Fits(templates, pods)
	if err != nil {
		return 0 // the plan reports it
	}
	movable := 0
	for k, kind := range fit.Kinds() {
		if slices.ContainsFunc(everyIndex(len(templates)), func(t int) bool { return fit.Passes(t, k) }) {
			movable += len(kind.Pods)
		}
	}
	return late * movable / len(pods)
}

// trialEnds notes that nodes of groups on trial have become ready.
func (o *observer) trialEnds(group string, n *v1.Node, wasReady bool) {
	if o.trials[group] && !wasReady && template.IsReady(n) {
		delete(o.trials, group)
	}
}

// beyondTrial is how many nodes a group on trial gets only if no other group can take them: all but
// one on its way, and that one too while another member of its set is backed off: what that one has
// failed to bring is not ordered from the next that may.
func (l *ledger) beyondTrial(size *nodegroupset.Group) int64 {
	g := l.group(size.Name)
	allowed := max(0, 1-g.Upcoming)
	for _, other := range l.terms[size.Name].Except([]string{size.Name}) {
		if !l.group(other).BackedOffUntil.IsZero() {
			allowed = 0
		}
	}
	return max(0, size.Max-max(size.Size, int64(g.Target+g.Lag+allowed)))
}
