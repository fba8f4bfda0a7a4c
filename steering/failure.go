package steering

import (
	"fmt"
	"maps"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/cloudprovider"
)

// A member fails when the cloud refuses an order for it, or when ordered nodes do not become ready.
// It is then left alone for a while, and its share goes to the others at once. Its nodes on their
// way are written off: nothing waits for them any longer. Afterwards the member has to prove itself
// before it gets a full share again, unless the cloud had only refused.

// failures are those that are remembered.
type failures struct {
	backoff  *backoff.Backoff
	closed   map[string]bool // sets left out because all members are backed off, by first member
	followed time.Time       // when the nodes on their way were last looked at for start-up deadlines
}

// A cause says what has failed, so that a reader knows where to look.
type cause string

const (
	byCloud   cause = "cloud"   // it refuses, or does not create instances
	byBoot    cause = "boot"    // instances do not register as nodes, or vanish before
	byKubelet cause = "kubelet" // nodes are registered and do not become ready
	byNetwork cause = "network" // orders are not answered
)

// ordering is why an order was not carried out.
func ordering(err error) cause {
	if cloudprovider.Refused(err) {
		return byCloud
	}
	return byNetwork
}

// overdue is why nodes on their way do not come, by how far the furthest of them has got.
func (s *State) overdue(g *Group) cause {
	what := byCloud
	for i := range g.Instances {
		instance := &g.Instances[i]
		switch node, registered := s.nodes.at.nodes[instance.ID]; {
		case instance.State == cloudprovider.InstanceDeleting || node.Ready:
		case registered:
			return byKubelet
		default:
			what = byBoot
		}
	}
	return what
}

// allowance returns how many more nodes a member may get now, as long as the others can take the
// rest. If nothing limits the member, why is empty.
func allowance(onTrial bool, n counted) (nodes int, why string) {
	switch {
	case n.troubled():
		return 0, fmt.Sprintf("%d of its %d nodes are not ready any more", n.broken, n.broken+n.ready)
	case n.overcounted() > 0:
		return 0, fmt.Sprintf("Cluster Autoscaler would wait for %d nodes of it that will not come", n.overcounted())
	case onTrial:
		return max(0, 1-n.inFlight), "one node first, since it has failed"
	}
	return 0, ""
}

// A member is in trouble if at least this many of its nodes, and more than this share, are no
// longer ready. Above the same share Cluster Autoscaler takes a group to be unhealthy. A single
// node may be a kubelet that restarts.
const (
	troubledNodes = 2
	troubledShare = 0.45
)

func (n counted) troubled() bool {
	return n.broken >= troubledNodes && float64(n.broken) > troubledShare*float64(n.broken+n.ready)
}

// down reports whether what the group had in service has failed, be it a single node.
func (n counted) down() bool { return n.troubled() || n.broken > 0 && n.ready == 0 }

// failing reports whether a group is backed off, or in trouble.
func (s *State) failing(g *Group, at *observation) bool {
	_, _, off := s.failures.backoff.Active(g.ID, at.now)
	return off || at.count(g, s.state(g.ID)).troubled()
}

// neverComing returns how many nodes of a group Cluster Autoscaler waits for, or would if an increase of it succeeded, although they
// will not come, of a group that has failed or has no others on their way. It would take pods to have room on them.
func (s *State) neverComing(g *Group, at *observation) int {
	n := at.count(g, s.state(g.ID))
	if n.inFlight > 0 && !s.failing(g, at) {
		return 0
	}
	return n.overcounted()
}

func sayNeverComing(nodes int, of string) string {
	return fmt.Sprintf("%d nodes of %s will not come; its increase is refused, so that Cluster Autoscaler expects nothing of it", nodes, of)
}

// watchSince notes since when something holds; zero while it does not.
func watchSince(at *time.Time, holds bool, now time.Time) {
	switch {
	case !holds:
		*at = time.Time{}
	case at.IsZero():
		*at = now
	}
}

// writtenOff are nodes that count in the target size and that nothing waits for.
type writtenOff struct {
	instances map[string]bool // that have not become ready nodes in time, by id
	missing   int             // without instance
	vanished  int             // of these, instances that were there: the cloud makes them anew when it can
}

// keep forgets what is no longer there: instances that have gone, and missing nodes that now have
// an instance or have left the target size.
func (w *writtenOff) keep(g *Group, target int) {
	w.missing = max(0, min(w.missing, target-g.existing()))
	w.vanished = min(w.vanished, w.missing)
	if len(w.instances) == 0 {
		return
	}
	there := make(map[string]bool, len(g.Instances))
	for i := range g.Instances {
		there[g.Instances[i].ID] = true
	}
	maps.DeleteFunc(w.instances, func(id string, _ bool) bool { return !there[id] })
}

// writeOff gives up all of the group's nodes that are on their way.
func (s *State) writeOff(g *Group, b *groupState) {
	for i := range g.Instances {
		instance := &g.Instances[i]
		if node, registered := s.nodes.at.nodes[instance.ID]; instance.State != cloudprovider.InstanceDeleting && (!registered || !node.Ready) {
			b.off.instances[instance.ID] = true
		}
	}
	b.off.missing = max(0, b.target-g.existing())
}

// watch looks at what has become of a group's nodes since the last reading: they came, vanished, or
// are overdue. The function wasReady reports which instances had been ready nodes by then.
func (s *State) watch(before, g *Group, b *groupState, wasReady func(id string) bool) {
	s.noteReading(g, b)
	if g.Err != nil || b.order != nil {
		return
	}
	if before != nil && b.off.vanished > 0 && g.existing() > before.existing() {
		b.ordered = s.nodes.at.now // the cloud makes anew what has vanished
	}
	b.off.keep(g, b.target)
	s.endTrial(g, b)
	lost, neverReady := s.vanished(before, g, b, wasReady)
	missing := max(0, b.target-g.existing())
	b.off.missing, b.off.vanished = min(b.off.missing+lost, missing), min(b.off.vanished+lost, missing)
	if !s.HidesFailures() {
		return
	}
	if neverReady > 0 {
		b.neverReady = true
		s.fail(g.ID, byBoot, fmt.Sprintf("%d instances vanished before they became ready nodes", neverReady), true)
	}
	if n := s.nodes.at.count(g, b); !g.Kept && n.due > 0 && !b.ordered.IsZero() &&
		s.nodes.at.now.Sub(b.ordered) >= s.o.MaxNodeProvisionTime { // since some were last ordered
		s.undelivered(g, b, n.due, fmt.Sprintf("%d nodes did not become ready within %s", n.due, s.o.MaxNodeProvisionTime))
	}
}

// undelivered records the failure of a member whose nodes did not come in time.
func (s *State) undelivered(g *Group, b *groupState, nodes int, why string) {
	s.writeOff(g, b)
	s.fail(g.ID, s.overdue(g), why, true)
	s.note(Decision{Call: "Refresh", Group: g.ID, Asked: nodes,
		Reason: why + "; they are not waited for any longer and others take their share"})
}

// endTrial ends the trial of a member and its backoff when a node has become ready since it failed.
func (s *State) endTrial(g *Group, b *groupState) {
	if !b.onTrial {
		return
	}
	failed := s.failures.backoff.Failures()[g.ID].Failed
	for i := range g.Instances {
		node, registered := s.nodes.at.nodes[g.Instances[i].ID]
		if !registered || !node.Ready {
			continue
		}
		since, known := s.nodes.readySince[node.ProviderID]
		if !known {
			since = node.Created
		}
		if since.After(failed) {
			b.onTrial = false
			s.failures.backoff.Ended(g.ID, s.nodes.at.now)
			return
		}
	}
}

// wasReady returns a function that reports whether an instance had been a ready node at the last
// observation. If the nodes are not known, it is enough that the instance had a node.
func (s *State) wasReady() func(id string) bool {
	served, unregistered := s.nodes.served, s.nodes.since
	return func(id string) bool {
		_, waited := unregistered[id]
		return served[id] || served == nil && !waited
	}
}

// vanished counts instances that are gone although nothing has deleted them, and those of them that
// never became ready nodes.
func (s *State) vanished(before, g *Group, b *groupState, wasReady func(id string) bool) (lost, neverReady int) {
	if before == nil {
		return 0, 0
	}
	there := map[string]bool{}
	for _, instances := range [][]cloudprovider.Instance{g.Instances, g.Failed} {
		for i := range instances {
			there[instances[i].ID] = true
		}
	}
	for i := range before.Instances {
		instance := &before.Instances[i]
		if there[instance.ID] || instance.State == cloudprovider.InstanceDeleting || instance.Error != nil {
			continue
		}
		if _, deleted := b.deleted[instance.ID]; deleted {
			continue
		}
		lost++
		if !wasReady(instance.ID) {
			neverReady++
		}
	}
	maps.DeleteFunc(b.deleted, func(_ string, at time.Time) bool { return s.nodes.at.now.Sub(at) >= s.o.MaxNodeProvisionTime })
	return lost, neverReady
}

// shut reports whether a group is backed off or shifted away.
func (s *State) shut(id string) bool {
	_, _, off := s.failures.backoff.Active(id, s.now)
	return off || s.zones.away(id) != ""
}

// fail backs a member off. It is on trial afterwards if nodes have not come: that the cloud takes orders is known at once.
func (s *State) fail(id string, what cause, why string, onTrial bool) {
	now := s.now
	b := s.state(id)
	then := "then tried again"
	if b.onTrial = b.onTrial || onTrial; b.onTrial {
		then = "then tried with one node"
	}
	s.failures.backoff.Failed(id, string(what)+": "+why, now)
	s.noticeFailure(id, why)
	until, _, _ := s.failures.backoff.Active(id, now)
	s.count(MembersBackedOff, 1)
	s.event("MemberBackedOff", fmt.Sprintf("Node group %s is left alone until %s while others of its set can grow, %s: %s: %s", id,
		until.UTC().Format(time.TimeOnly), then, what, why))
}

// failHidden backs a member off for a failure that is kept from Cluster Autoscaler.
func (s *State) failHidden(id string, what cause, why string, onTrial bool) {
	s.fail(id, what, why, onTrial)
	s.state(id).hidden = s.now
}

// NodesDeleted is the cloud's success in deleting nodes for Cluster Autoscaler. Target is the size after
// the deletion, unless a ReadErr says that it could not be read.
type NodesDeleted struct {
	Group   string
	Nodes   []*v1.Node
	Target  int
	ReadErr error
}

func (e NodesDeleted) apply(s *State) Answer {
	b := s.state(e.Group)
	n := b.deletedBy(e.Nodes, s.now)
	s.count(NodesGivenUp, n)
	if n > 0 && s.HidesFailures() {
		s.fail(e.Group, byBoot, fmt.Sprintf("%d instances never became nodes", n), true)
	}
	if e.ReadErr == nil && b.order == nil {
		b.target = e.Target
		b.revision++
	} else {
		b.resize(-len(e.Nodes)) // until the next reading
	}
	return Answer{}
}

// deletedBy notes which instances Cluster Autoscaler has deleted, and counts those that never
// registered.
func (b *groupState) deletedBy(nodes []*v1.Node, now time.Time) (neverRegistered int) {
	for _, node := range nodes {
		b.deleted[node.Spec.ProviderID] = now
		if node.Annotations[cloudprovider.FakeNodeReasonAnnotation] == cloudprovider.FakeNodeUnregistered {
			neverRegistered++
		}
	}
	return neverRegistered
}
