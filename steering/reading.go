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
// in the State.
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
	Kept      bool                     // instances are those of an earlier reading, as Kept has them
	Err       error                    // why target and instances are those of an earlier reading

	Template    cloudprovider.Template
	TemplateErr error
	ZeroOrMax   bool
	Reported    *GroupSize          // what its sizes are from, if no cloud was read: see Sizes
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

// Kept returns the instances of a group as they were read before, for a reading that has only its target
// size. Those that were deleted since are being deleted, and nodes that have joined are the instances
// that were missing. It is settled if nothing of it is on its way or missing: it has as many instances
// as its target size, each with a node that is among those that are ready.
func (s *State) Kept(before *Group, target int, joined []cloudprovider.Instance, ready map[string]bool) (instances []cloudprovider.Instance,
	settled bool) {
	deleted := s.known(before.ID).deleted
	kept := &Group{Instances: slices.Concat(before.Instances, before.Failed)}
	for i := range kept.Instances {
		if _, gone := deleted[kept.Instances[i].ID]; gone {
			kept.Instances[i].State = cloudprovider.InstanceDeleting
		}
	}
	missing := max(0, target-kept.existing())
	kept.Instances = append(kept.Instances, joined[:min(missing, len(joined))]...)
	waits := slices.ContainsFunc(kept.Instances, func(i cloudprovider.Instance) bool {
		return i.State != cloudprovider.InstanceDeleting && !ready[i.ID]
	})
	return kept.Instances, !waits && kept.existing() == target
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
func (s *State) Loop() int { return s.caller.loop }

// Target returns the target size of a group, with what is ordered right now.
func (s *State) Target(id string) int { return s.known(id).target }

// Revision returns the mark for a reading of the group that begins now. A reading with an old mark
// does not overwrite a newer size.
func (s *State) Revision(id string) int { return s.known(id).revision }

// LoopSkipped is a loop for which the cloud could not be read.
type LoopSkipped struct{ Began time.Time }

func (e LoopSkipped) apply(s *State) Answer {
	s.nodes.refreshed(e.Began)
	clear(s.caller.raised)
	return Answer{}
}

// LoopBegins is the beginning of a loop of Cluster Autoscaler, with a new reading of the cloud if there
// is one.
type LoopBegins struct {
	Began   time.Time
	Reading *Cloud
}

func (e LoopBegins) apply(s *State) Answer {
	s.nodes.refreshed(e.Began)
	if e.Reading != nil {
		s.show(e.Reading)
	}
	s.noticeLoop()
	s.capServed()
	s.caller.loop++
	clear(s.caller.grown)
	clear(s.caller.raised)
	s.caller.pick, s.caller.stopped, s.caller.unread = nil, false, false
	if s.plan.current != nil && e.Began.Sub(s.plan.current.Since) > s.o.MaxNodeProvisionTime {
		s.plan.current = nil // nobody has asked for its pods any more
	}
	s.nodes.inferred.forget(e.Began.Add(-10 * time.Minute))
	s.shiftZones()
	s.levelOut(e.Began)
	s.holdLevels()
	s.findUneven()
	s.noteWithheld()
	return Answer{}
}

// TakeBack is what must be taken back of a group that has just been read, before it is shown. The
// caller does so, and then comes TakenBack, even if that failed.
type TakeBack struct {
	Group   *Group
	Nodes   []*v1.Node // to delete
	Missing int        // nodes without an instance, by which to lower the target size
	Counter Counter    // by which it is counted
	Cause   cause      // what has failed
	Why     string     // a sentence
}

// Failed takes the instances that could not be created out of a group that has just been read; the
// answer has them as TakeBacks.
type Failed struct{ Group *Group }

func (e Failed) apply(s *State) Answer {
	g := e.Group
	if !s.HidesFailures() {
		return Answer{}
	}
	t := TakeBack{Group: g, Counter: NodesFailed, Cause: byCloud}
	g.Instances = slices.DeleteFunc(slices.Clone(g.Instances), func(i cloudprovider.Instance) bool {
		if i.Error == nil || i.State == cloudprovider.InstanceDeleting {
			return false
		}
		g.Failed, t.Nodes = append(g.Failed, i), append(t.Nodes, cloudprovider.FakeNode(i.ID, cloudprovider.FakeNodeCreateError))
		return true
	})
	if len(g.Failed) > 0 {
		first := g.Failed[0].Error
		t.Why = fmt.Sprintf("%d instances could not be created: %s: %s", len(g.Failed), first.Code, first.Message)
	}
	return t.answer()
}

// answer has a TakeBack, if there is anything to take back.
func (t TakeBack) answer() Answer {
	if len(t.Nodes)+t.Missing == 0 {
		return Answer{}
	}
	return Answer{TakeBacks: []TakeBack{t}}
}

// Overdue finds nodes of a group that has just been read which the cloud has not begun to create; the
// answer has them as TakeBacks. They are taken back shortly before Cluster Autoscaler would do so: it
// would take back more than is missing and back the group off.
type Overdue struct{ Group *Group }

func (e Overdue) apply(s *State) Answer {
	g := e.Group
	if !s.HidesFailures() {
		return Answer{}
	}
	missing := g.Target - g.existing()
	b := s.state(g.ID)
	switch {
	case missing <= 0:
		b.missing, b.whole = time.Time{}, s.now
	case b.missing.IsZero() && b.whole.After(b.asked): // what was asked for had come
		b.missing = s.now
	case b.missing.IsZero() || b.missing.Before(b.asked):
		b.missing = cmp.Or(b.asked, s.now)
	}
	since := b.missing
	overdue := !g.Kept && b.order == nil && (b.neverReady || s.now.Sub(since) >= s.o.MaxNodeProvisionTime*19/20)
	b.neverReady = b.neverReady && g.Kept
	missing -= max(0, min(b.off.vanished, missing)-s.roomBeside(g.ID))
	if !overdue || missing <= 0 {
		return Answer{}
	}
	return TakeBack{Group: g, Missing: missing, Counter: NodesOverdue, Cause: byCloud,
		Why: fmt.Sprintf("%d nodes ordered %s ago have no instance", missing, s.now.Sub(since).Round(time.Second))}.answer()
}

// TakenBack are the cloud's answers to a TakeBack: to the deletion of the nodes, and to the decrease.
type TakenBack struct {
	TakeBack
	DeleteErr, DecreaseErr error
}

func (e TakenBack) apply(s *State) Answer {
	t := e.TakeBack
	g, n, then := t.Group, 0, "they are taken back and others take their share"
	switch {
	case t.Counter == NodesFailed:
		then = "they are deleted and others take their share"
		if e.DeleteErr == nil {
			n, g.Failed = len(t.Nodes), nil
		}
	case e.DeleteErr == nil && len(t.Nodes) > 0:
		n = len(t.Nodes)
		s.state(g.ID).deletedBy(t.Nodes, s.now)
		g.Instances = slices.DeleteFunc(slices.Clone(g.Instances), func(i cloudprovider.Instance) bool {
			return slices.ContainsFunc(t.Nodes, func(node *v1.Node) bool { return node.Spec.ProviderID == i.ID })
		})
	}
	if e.DecreaseErr == nil {
		n += t.Missing
	}
	g.Target -= n
	s.count(t.Counter, n)
	s.failHidden(g.ID, t.Cause, t.Why, true)
	s.note(Decision{Call: "Refresh", Group: g.ID, Asked: -len(t.Nodes) - t.Missing, Granted: -n, Reason: t.Why + "; " + then,
		Error: text(errors.Join(e.DeleteErr, e.DecreaseErr))})
	return Answer{}
}

// roomBeside returns how many nodes the other members of a group's set can take. Vanished nodes
// that none of them can take stay on order: they come as soon as the cloud has them.
func (s *State) roomBeside(id string) int {
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

// Show makes a reading the one that Cluster Autoscaler sees, outside a loop of it.
type Show struct{ Reading *Cloud }

func (e Show) apply(s *State) Answer {
	s.show(e.Reading)
	return Answer{}
}

// show makes a reading the one that Cluster Autoscaler sees, and updates the state of the groups.
func (s *State) show(v *Cloud) {
	before := s.view
	s.view = v
	s.adoptPolicies()
	wasReady := s.wasReady()
	at := s.observe()
	s.nodes.since = watchUnregistered(v, at.nodes, s.nodes.since)
	at.since = s.nodes.since
	for _, id := range slices.Sorted(maps.Keys(v.Groups)) {
		g, b := v.Groups[id], s.state(id)
		s.applyReading(g, b)
		b.watchEmpty(g, at.now)
		s.watch(before.group(id), g, b, wasReady)
		watchSince(&b.down, at.count(g, b).down(), at.now)
		n := at.count(g, b)
		if n.inFlight != b.coming.Nodes() {
			b.doubts = streak{}
		}
		b.follow(n.inFlight, before, v.At)
		b.unshown = min(b.unshown, n.expected)
		if n.expected == 0 {
			b.seen = false // nothing to come: Cluster Autoscaler drops its request now
		}
	}
	if s.caller.renewed {
		s.caller.renewed = false
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
	if !b.ordered.IsZero() && (before == nil || b.ordered.After(before.At)) {
		ordered = b.ordered
	}
	b.coming = b.coming.Follow(inFlight, ordered)
}

// applyReading takes over a target size that was read, and ends an order whose result only the
// size shows.
func (s *State) applyReading(g *Group, b *groupState) {
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
		s.accepted(b)
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
