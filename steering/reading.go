package steering

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// confirmAfter is how long a group's target size must stay the same after an increase with an
// unclear answer until the increase counts as refused.
const confirmAfter = 5 * time.Second

// Cloud is the cloud as it was read. It never changes once it is shown; the sizes that do are kept
// in the machine.
type Cloud struct {
	At     time.Time // when the reading began
	Groups map[string]*Group
}

// Group is one group of a reading.
type Group struct {
	cloudprovider.NodeGroup
	Target    int
	Revision  int // as Revision returned it before target and instances were read; -1 where they are those of an earlier reading
	Instances []cloudprovider.Instance
	Failed    []cloudprovider.Instance // could not be created; not among instances
	Err       error                    // why target and instances are those of an earlier reading

	Template    cloudprovider.Template
	TemplateErr error
	ZeroOrMax   bool
	Price       cloudprovider.Price // of a node for an hour, if HasPrice
	HasPrice    bool
	DetailsAt   time.Time // when template and options were read; zero if never
}

// group is one of the groups; nil if it is not there.
func (v *Cloud) group(id string) *Group {
	if v == nil {
		return nil
	}
	return v.Groups[id]
}

// existing returns how many instances there are for the target size.
func (g *Group) existing() int {
	n := len(g.Failed)
	for i := range g.Instances {
		if g.Instances[i].State != cloudprovider.InstanceDeleting {
			n++
		}
	}
	return n
}

// Loop returns how many loops of Cluster Autoscaler have begun.
func (s *Machine) Loop() int { return s.loop }

// Target returns the target size of a group, with what is ordered right now.
func (s *Machine) Target(id string) int { return s.state(id).target }

// Revision returns the mark for a reading of the group that begins now. A reading with an old mark
// does not overwrite a newer size.
func (s *Machine) Revision(id string) int { return s.state(id).revision }

// LoopSkipped records that the cloud could not be read for a loop that began at a given time.
func (s *Machine) LoopSkipped(began time.Time) {
	s.refreshes = [2]time.Time{s.refreshes[1], began}
	clear(s.raised)
}

// LoopBegins records that a loop of Cluster Autoscaler has begun, with a new reading of the cloud
// if there is one.
func (s *Machine) LoopBegins(began time.Time, reading *Cloud) {
	s.refreshes = [2]time.Time{s.refreshes[1], began}
	if reading != nil {
		s.Show(reading)
	}
	s.noticeLoop()
	s.capServed()
	s.loop++
	clear(s.grown)
	clear(s.raised)
	s.pick, s.stopped, s.unread = nil, false, false
	if s.plan != nil && began.Sub(s.plan.Since) > s.o.MaxNodeProvisionTime {
		s.plan = nil // nobody has asked for its pods any more
	}
	s.inferred.forget(began.Add(-10 * time.Minute))
	s.shiftZones()
	s.levelOut(began)
	s.holdLevels()
	s.findUneven()
	s.takeWithheld()
}

// TakeBack is what must be taken back of a group that has just been read, before it is shown. The
// caller does so and calls TakenBack, even if that failed.
type TakeBack struct {
	Group   *Group
	Nodes   []*v1.Node // to delete
	Missing int        // nodes without an instance, by which to lower the target size
	counter Counter
	cause   cause
	why     string
}

// Failed takes the instances that could not be created out of a group, and returns them.
func (s *Machine) Failed(g *Group) TakeBack {
	t := TakeBack{Group: g, counter: NodesFailed, cause: byCloud}
	g.Instances = slices.DeleteFunc(slices.Clone(g.Instances), func(i cloudprovider.Instance) bool {
		if i.Error == nil || i.State == cloudprovider.InstanceDeleting {
			return false
		}
		g.Failed, t.Nodes = append(g.Failed, i), append(t.Nodes, cloudprovider.FakeNode(i.ID, cloudprovider.FakeNodeCreateError))
		return true
	})
	if len(g.Failed) > 0 {
		first := g.Failed[0].Error
		t.why = fmt.Sprintf("%d instances could not be created: %s: %s", len(g.Failed), first.Code, first.Message)
	}
	return t
}

// Overdue returns nodes of a group that the cloud has not begun to create. They are taken back shortly
// before Cluster Autoscaler would do so: it would take back more than is missing and back the group
// off.
func (s *Machine) Overdue(g *Group) TakeBack {
	missing := g.Target - g.existing()
	b := s.state(g.ID)
	switch {
	case missing <= 0:
		b.missing = time.Time{}
	case b.missing.IsZero() || b.missing.Before(b.Asked):
		b.missing = cmp.Or(b.Asked, s.now)
	}
	since := b.missing
	overdue := b.order == nil && (b.neverReady || s.now.Sub(since) >= s.o.MaxNodeProvisionTime*19/20)
	b.neverReady = false
	missing -= max(0, min(b.off.vanished, missing)-s.roomBeside(g.ID))
	if !overdue || missing <= 0 {
		return TakeBack{}
	}
	return TakeBack{Group: g, Missing: missing, counter: NodesOverdue, cause: byCloud, why: fmt.Sprintf("%d nodes ordered %s ago have no instance", missing, s.now.Sub(since).Round(time.Second))}
}

// TakenBack records the cloud's answers: to the deletion of the nodes, and to the decrease.
func (s *Machine) TakenBack(t TakeBack, deleteErr, decreaseErr error) {
	g, n, then := t.Group, 0, "they are taken back and others take their share"
	switch {
	case t.counter == NodesFailed:
		then = "they are deleted and others take their share"
		if deleteErr == nil {
			n, g.Failed = len(t.Nodes), nil
		}
	case deleteErr == nil && len(t.Nodes) > 0:
		n = len(t.Nodes)
		s.state(g.ID).deletedBy(t.Nodes, s.now)
		g.Instances = slices.DeleteFunc(slices.Clone(g.Instances), func(i cloudprovider.Instance) bool {
			return slices.ContainsFunc(t.Nodes, func(node *v1.Node) bool { return node.Spec.ProviderID == i.ID })
		})
	}
	if decreaseErr == nil {
		n += t.Missing
	}
	g.Target -= n
	s.count(t.counter, n)
	s.failHidden(g.ID, t.cause, t.why, bringNode)
	s.note(Decision{Call: "Refresh", Group: g.ID, Asked: -len(t.Nodes) - t.Missing, Granted: -n, Reason: t.why + "; " + then, Error: text(errors.Join(deleteErr, decreaseErr))})
}

// roomBeside returns how many nodes the other members of a group's set can take. Vanished nodes
// that none of them can take stay on order: they come as soon as the cloud has them.
func (s *Machine) roomBeside(id string) int {
	if s.view == nil {
		return math.MaxInt
	}
	room, first := 0, s.firstOf()
	for other, g := range s.view.Groups {
		if other != id && !s.shut(other) && first[id] != "" && first[other] == first[id] {
			room += max(0, g.MaxSize-s.state(other).target)
		}
	}
	return room
}

// Show makes a reading the one that Cluster Autoscaler sees, and updates the state of the groups.
func (s *Machine) Show(v *Cloud) {
	before := s.view
	s.view = v
	s.adoptPolicies()
	wasReady := s.wasReady()
	at := s.look()
	s.since = watchUnregistered(v, at.nodes, s.since)
	at.since = s.since
	for _, id := range slices.Sorted(maps.Keys(v.Groups)) {
		g, b := v.Groups[id], s.state(id)
		s.settleByReading(g, b)
		b.watchEmpty(g, at.now)
		s.watch(before.group(id), g, b, wasReady)
		watchSince(&b.down, at.count(g, b).down(), at.now)
		n := at.count(g, b)
		if n.inFlight != b.coming.Nodes() {
			b.doubts = streak{}
		}
		b.follow(n.inFlight, before, v.At)
		b.Unshown = min(b.Unshown, n.expected)
		if n.expected == 0 {
			b.Seen = false // nothing to come: Cluster Autoscaler drops its request now
		}
	}
	if s.renewed {
		s.renewed = false
		s.hide(at)
	}
	for id := range s.groups {
		if v.Groups[id] == nil {
			delete(s.groups, id)
		}
	}
}

// follow takes in how many nodes are on their way. Those that nothing has ordered since the reading
// before are new to it.
func (b *groupState) follow(inFlight int, before *Cloud, now time.Time) {
	ordered := now
	if !b.Ordered.IsZero() && (before == nil || b.Ordered.After(before.At)) {
		ordered = b.Ordered
	}
	b.coming = b.coming.Follow(inFlight, ordered)
}

// settleByReading takes over a target size that was read, and ends an order whose result only the
// size shows.
func (s *Machine) settleByReading(g *Group, b *groupState) {
	if g.Revision != b.revision {
		return // read before something changed here
	}
	o := b.order
	b.target = g.Target - len(g.Failed)
	switch {
	case o == nil:
	case g.Target < o.Before+o.Delta && (o.failed.IsZero() || s.now.Sub(o.failed) < confirmAfter):
		b.target += o.Delta
	case g.Target < o.Before+o.Delta:
		s.refused(g.ID, b, o.err)
	case !o.failed.IsZero():
		s.taken(b)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
