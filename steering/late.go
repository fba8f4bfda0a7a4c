package steering

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/spreadplan"
)

// A declared set may have a start-up deadline. Nodes of a member that are not ready by then are taken
// back before Cluster Autoscaler is shown the cloud, as far as other members can take their share: it
// then sees pods without room, and asks. The member is backed off, and has to prove itself with one
// node afterwards.

// Late are nodes of a group that are past the start-up deadline of its set, and must be taken back.
type Late struct {
	Group   *Group
	Nodes   []*v1.Node // to delete
	Missing int        // nodes without an instance, by which to lower the target size
	why     string
}

// starting is what a group has on its way.
type starting struct {
	*Group
	terms   *nodegroupset.Terms
	late    int
	stuck   []*v1.Node // instances that have had no node for longer than the deadline, the oldest first
	young   []*v1.Node // others that are not ready nodes, what is nearest to it last
	missing int        // without an instance
}

// Late returns which nodes of groups that have just been read must be taken back. The caller does
// so, before the groups are shown, and calls GivenUp for each.
func (s *Machine) Late(groups []*Group) []Late {
	if s.view == nil || !slices.ContainsFunc(s.o.Similarity.Policies, func(p nodegroupset.SetPolicy) bool { return p.StartupDeadline > 0 }) {
		return nil
	}
	at, terms, last := s.look(), s.terms(nil), s.followed
	s.followed = s.now
	late := map[string]*starting{}
	for _, g := range groups {
		t, b := terms[g.ID], s.state(g.ID)
		if patience := t.Patience(s.o.MaxNodeProvisionTime); patience == s.o.MaxNodeProvisionTime || g.Err != nil || b.order != nil {
			continue
		}
		l := s.startingOf(g, b, at)
		l.terms = t
		ordered := s.now
		if b.ordered.After(last) {
			ordered = b.ordered
		}
		due := s.now.Add(-t.StartupDeadline)
		before := b.underway
		b.underway = before.Follow(len(l.young)+l.missing, ordered)
		if before.Nodes() > b.underway.Nodes() {
			b.slow = before.Until(due) > 0
		}
		l.split(at, t.StartupDeadline)
		if l.late = max(b.underway.Until(due), len(l.stuck)); l.late > 0 {
			late[g.ID] = &l
		}
	}
	var out []Late
	promised := map[*nodegroupset.Terms]int{}
	for _, id := range slices.Sorted(maps.Keys(late)) {
		l := late[id]
		if n := s.replaceable(l, late, promised[l.terms]); n > 0 {
			promised[l.terms] += n
			out = append(out, l.take(n))
		}
	}
	return out
}

// startingOf finds what a group has on its way. Without knowledge of the nodes that is what has no
// instance.
func (s *Machine) startingOf(g *Group, b *groupState, at *observation) starting {
	l := starting{Group: g, missing: max(0, g.Target-g.existing()-b.off.missing)}
	if !s.known {
		return l
	}
	var registered []*v1.Node
	for i := range g.Instances {
		instance := &g.Instances[i]
		if instance.State == cloudprovider.InstanceDeleting || b.off.instances[instance.ID] {
			continue
		}
		node, isNode := at.nodes[instance.ID]
		switch _, ready := s.readySince[instance.ID]; {
		case !isNode:
			l.young = append(l.young, cloudprovider.FakeNode(instance.ID, cloudprovider.FakeNodeUnregistered))
		case !ready && !node.Lost && !s.served[instance.ID]:
			registered = append(registered, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name, CreationTimestamp: metav1.NewTime(node.Created)}, Spec: v1.NodeSpec{ProviderID: instance.ID}})
		}
	}
	slices.SortFunc(l.young, func(a, b *v1.Node) int {
		return cmp.Or(s.seenFirst(a).Compare(s.seenFirst(b)), cmp.Compare(a.Name, b.Name))
	})
	slices.SortFunc(registered, func(a, b *v1.Node) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
	l.young = append(l.young, registered...)
	return l
}

// seenFirst is when an instance was first seen without a node.
func (s *Machine) seenFirst(node *v1.Node) time.Time {
	if since, known := s.since[node.Spec.ProviderID]; known {
		return since
	}
	return s.now
}

// split separates the instances that have had no node for longer than a deadline.
func (l *starting) split(at *observation, deadline time.Duration) {
	n := 0
	for n < len(l.young) && cloudprovider.IsFakeNode(l.young[n]) {
		since, known := at.since[l.young[n].Spec.ProviderID]
		if !known || at.now.Sub(since) < deadline {
			break
		}
		n++
	}
	l.stuck, l.young = l.young[:n:n], l.young[n:]
}

// take returns so many late nodes: instances that are stuck, then what has no instance.
func (l *starting) take(n int) Late {
	out := Late{Group: l.Group, Nodes: l.stuck[:min(n, len(l.stuck))]}
	out.Missing = min(n-len(out.Nodes), l.missing)
	out.Nodes = append(slices.Clip(out.Nodes), l.young[:min(n-len(out.Nodes)-out.Missing, len(l.young))]...)
	out.why = fmt.Sprintf("%d nodes not ready within %s, the start-up deadline of set %s", len(out.Nodes)+out.Missing, l.terms.StartupDeadline, l.terms.Set)
	return out
}

// replaceable returns how many late nodes of a group other members of its set can have instead, beside
// those that are promised already: members that may grow, are not late themselves, did not bring their
// last nodes too late and have nothing to prove, so that nodes do not swing between them.
func (s *Machine) replaceable(l *starting, late map[string]*starting, promised int) int {
	request := nodegroupset.SplitRequest{Nodes: int64(l.late + promised)}
	own, movable := s.state(l.ID), 0
	for _, name := range l.terms.Except(nil) {
		g, b := s.view.Groups[name], s.state(name)
		if g == nil {
			continue
		}
		size := int64(max(0, b.target))
		m := nodegroupset.Group{Name: name, Size: size, Max: size}
		if _, _, off := s.backoff.Active(name, s.now); !off && name != l.ID && late[name] == nil && b.proof == proven && !b.slow && b.order == nil &&
			!g.ZeroOrMax && s.shiftedAway(name) == "" && !s.at.count(g, b).troubled() {
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

// GivenUp records the cloud's answers: to the deletion of the nodes, and to the decrease.
func (s *Machine) GivenUp(l Late, deleteErr, decreaseErr error) {
	g, b := l.Group, s.state(l.Group.ID)
	n := 0
	if deleteErr == nil && len(l.Nodes) > 0 {
		n += len(l.Nodes)
		b.deletedBy(l.Nodes, s.now)
		g.Instances = slices.DeleteFunc(slices.Clone(g.Instances), func(i cloudprovider.Instance) bool {
			return slices.ContainsFunc(l.Nodes, func(node *v1.Node) bool { return node.Spec.ProviderID == i.ID })
		})
	}
	if decreaseErr == nil {
		n += l.Missing
	}
	g.Target -= n
	s.failHidden(g.ID, l.why, bringNode)
	s.count(NodesLate, n)
	s.note(Decision{Call: "Refresh", Group: g.ID, Asked: -len(l.Nodes) - l.Missing, Granted: -n, Reason: l.why + "; they are taken back and others take their share", Error: text(errors.Join(deleteErr, decreaseErr))})
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
			if template != nil && spreadplan.Admits(c.request.Pods[i], template) {
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
	if terms == nil || terms.StartupDeadline == 0 || c.state(name).proof != bringNode {
		return false
	}
	return slices.ContainsFunc(terms.Except([]string{name}), func(other string) bool {
		_, _, off := c.backoff.Active(other, c.at.now)
		return off
	})
}
