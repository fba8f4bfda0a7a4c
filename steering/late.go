package steering

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/podfit"
)

// A declared set may have a start-up deadline. Nodes of a member that are not ready by then are taken
// back before Cluster Autoscaler is shown the cloud, as far as other members can take their share: it
// then sees pods without room, and asks. The member is backed off, and has to prove itself with one
// node afterwards.

// starting is what a group has on its way.
type starting struct {
	*Group
	terms   *nodegroupset.Terms
	late    int
	stuck   []*v1.Node // instances that have had no node for longer than the deadline, the oldest first
	young   []*v1.Node // others that are not ready nodes, what is nearest to it last
	missing int        // without an instance
}

// Late finds which nodes of groups that have just been read are past the start-up deadline of their set;
// the answer has them as TakeBacks.
type Late struct{ Groups []*Group }

func (e Late) apply(s *State) Answer { return Answer{TakeBacks: s.late(e.Groups)} }

func (s *State) late(groups []*Group) []TakeBack {
	if s.view == nil || !s.HidesFailures() || !slices.ContainsFunc(s.o.Similarity.Policies,
		func(p nodegroupset.SetPolicy) bool { return p.StartupDeadline > 0 }) {
		return nil
	}
	at, terms, last := s.observe(), s.terms(nil), s.failures.followed
	s.failures.followed = s.now
	late := map[string]*starting{}
	for _, g := range groups {
		t, b := terms[g.ID], s.state(g.ID)
		if patience := t.Patience(s.o.MaxNodeProvisionTime); patience == s.o.MaxNodeProvisionTime || g.Err != nil || b.order != nil {
			continue
		}
		l := s.startingOf(g, b, t, at)
		ordered := s.now
		if b.ordered.After(last) {
			ordered = b.ordered
		}
		due := s.now.Add(-t.StartupDeadline)
		before := b.underway
		b.underway = before.Follow(len(l.stuck)+len(l.young)+l.missing, ordered)
		if before.Nodes() > b.underway.Nodes() {
			b.slow = before.Until(due) > 0
		}
		if l.late = max(b.underway.Until(due), len(l.stuck)); l.late > 0 {
			late[g.ID] = &l
		}
	}
	var out []TakeBack
	promised := map[*nodegroupset.Terms]int{}
	for _, id := range slices.Sorted(maps.Keys(late)) {
		l := late[id]
		if l.Kept {
			continue // not without having looked again
		}
		if n := s.movable(l, late, promised[l.terms]); n > 0 {
			promised[l.terms] += n
			out = append(out, l.takeBack(n))
		}
	}
	return out
}

// startingOf finds what a group has on its way. Without knowledge of the nodes that is what has no
// instance.
func (s *State) startingOf(g *Group, b *groupState, terms *nodegroupset.Terms, at *observation) starting {
	l := starting{Group: g, terms: terms, missing: max(0, g.Target-g.existing()-b.off.missing)}
	if !s.nodes.known {
		return l
	}
	began := map[*v1.Node]time.Time{} // of instances when they were first seen without a node, of nodes when they registered
	var registered []*v1.Node
	for i := range g.Instances {
		instance := &g.Instances[i]
		if instance.State == cloudprovider.InstanceDeleting || b.off.instances[instance.ID] {
			continue
		}
		node, isNode := at.nodes[instance.ID]
		switch _, ready := s.nodes.readySince[instance.ID]; {
		case !isNode:
			fake := cloudprovider.FakeNode(instance.ID, cloudprovider.FakeNodeUnregistered)
			since, known := s.nodes.since[instance.ID]
			if began[fake] = since; !known {
				began[fake] = s.now
			}
			if known && at.now.Sub(since) >= terms.StartupDeadline {
				l.stuck = append(l.stuck, fake)
			} else {
				l.young = append(l.young, fake)
			}
		case !ready && !node.Lost && !s.nodes.served[instance.ID]:
			one := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, CreationTimestamp: metav1.NewTime(node.Created)},
				Spec: v1.NodeSpec{ProviderID: instance.ID}}
			began[one], registered = node.Created, append(registered, one)
		}
	}
	for _, nodes := range [][]*v1.Node{l.stuck, l.young, registered} {
		slices.SortFunc(nodes, func(a, b *v1.Node) int { return cmp.Or(began[a].Compare(began[b]), cmp.Compare(a.Name, b.Name)) })
	}
	l.young = append(l.young, registered...)
	return l
}

// takeBack returns so many late nodes: instances that are stuck, then what has no instance.
func (l *starting) takeBack(n int) TakeBack {
	out := TakeBack{Group: l.Group, Counter: NodesLate, Nodes: l.stuck[:min(n, len(l.stuck))]}
	out.Missing = min(n-len(out.Nodes), l.missing)
	out.Nodes = append(slices.Clip(out.Nodes), l.young[:min(n-len(out.Nodes)-out.Missing, len(l.young))]...)
	switch out.Cause = byKubelet; {
	case len(l.stuck) > 0:
		out.Cause = byBoot
	case out.Missing > 0:
		out.Cause = byCloud
	}
	out.Why = fmt.Sprintf("%d nodes not ready within %s, the start-up deadline of set %s", len(out.Nodes)+out.Missing, l.terms.StartupDeadline,
		l.terms.Set)
	return out
}

// movable returns how many late nodes of a group other members of its set can have instead, beside
// those that are promised already: members that may grow, are not late themselves, did not bring their
// last nodes too late and have nothing to prove, so that nodes do not swing between them.
func (s *State) movable(l *starting, late map[string]*starting, promised int) int {
	request := nodegroupset.SplitRequest{Nodes: int64(l.late + promised)}
	own, movable := s.state(l.ID), 0
	for _, name := range l.terms.Except(nil) {
		g, b := s.view.Groups[name], s.state(name)
		if g == nil {
			continue
		}
		size := int64(max(0, b.target))
		m := nodegroupset.Group{Name: name, Size: size, Max: size}
		if name != l.ID && late[name] == nil && !b.onTrial && !b.slow && b.order == nil && !g.ZeroOrMax && !s.shut(name) &&
			!s.nodes.at.count(g, b).troubled() {
			m.Max = max(size, int64(g.MaxSize))
			movable = max(movable, own.takers[name])
		}
		if name == l.ID {
			m.Size = max(0, size-int64(l.late))
			m.Max = m.Size
		}
		request.Groups = append(request.Groups, m)
	}
	result, err := nodegroupset.Split(l.terms.Of(request, l.ID))
	if err != nil {
		return 0
	}
	n := max(0, l.late-int(result.Unplaced))
	if own.forPods > 0 {
		n = n * movable / own.forPods
	}
	return n
}

// orderedFor notes how many pods nodes of a group were ordered for, and how many of them may run on
// nodes of each other member of its set.
func (b *groupState) orderedFor(c *choice, name string) {
	o, terms := c.options[name], c.policies[name]
	if o == nil || terms == nil || terms.StartupDeadline == 0 {
		return
	}
	if len(b.underway) == 0 || b.takers == nil {
		b.forPods, b.takers = 0, map[string]int{}
	}
	b.forPods += len(o.Pods)
	for _, other := range terms.Except([]string{name}) {
		template := c.template(other)
		for _, i := range o.Pods {
			if template != nil && podfit.RulesOf(c.request.Pods[i]).Admit(template) {
				b.takers[other]++
			}
		}
	}
}

// barred reports whether a member that has to prove itself gets nothing, since another member of its
// set with a start-up deadline is backed off: what that one has not brought is not ordered from the
// next of which nobody knows.
func (c *choice) barred(name string) bool {
	terms := c.policies[name]
	if terms == nil || terms.StartupDeadline == 0 || !c.s.state(name).onTrial {
		return false
	}
	return slices.ContainsFunc(terms.Except([]string{name}), func(other string) bool {
		_, _, off := c.s.failures.backoff.Active(other, c.at.now)
		return off
	})
}
