package steering

import (
	"time"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// groupState is what is kept about a group between events.
type groupState struct {
	groupOrders
	groupCounted
	groupFailures
	groupPlan
}

// groupOrders is what was ordered for a group.
type groupOrders struct {
	target   int // the group's target size, with what is ordered right now
	revision int // counts changes of target, so that a slow reading does not overwrite a newer value
	// order is an increase whose end is not known.
	order *order
	// ordered is the time of the last order.
	ordered time.Time
	// coming are the orders of the nodes on their way.
	coming nodegroupset.Orders
	// missing is since when there have been fewer instances than the target size; zero while there are as many. It begins
	// anew with each increase, unless all instances have been there after that: what vanishes later has a provision time of
	// its own. whole is when all were there last.
	missing, whole time.Time
	// empty is the time since which the group has nodes on order and no instance; zero if it has one.
	empty time.Time
	// deleted holds the times at which Cluster Autoscaler deleted instances, by id.
	deleted map[string]time.Time
}

// groupCounted is what Cluster Autoscaler counts of a group, and is shown of it.
type groupCounted struct {
	// seen reports whether Cluster Autoscaler counts the group's nodes on their way: it holds a
	// scale-up request for the group and has not backed it off. False if unknown: that costs a
	// loop, not a node.
	seen bool
	// unshown counts the nodes on their way that Cluster Autoscaler is not shown, since it does not know
	// of them: so it lets the group grow and asks for them.
	unshown int
	// asked is the time of the last increase that was answered with success.
	asked time.Time
	// doubts counts the loops in a row in which less was granted than asked, because pods may find room on nodes that are on
	// their way here and that Cluster Autoscaler does not count.
	doubts streak
	// ahead are the nodes of answers that the sizes do not show yet, of which the last was given at answeredAt: see Sizes.
	// Since then there have been so many statuses. The size that was shown last is without them.
	ahead, statuses, shown int
	answeredAt             time.Time
	// short reports whether the group got less than was asked in this loop, and full that Cluster Autoscaler
	// is to ask others in this one.
	short, full bool
}

// groupFailures is what a group has failed to bring.
type groupFailures struct {
	// onTrial reports whether the group gets one node first, which must become ready, since it has failed.
	onTrial bool
	// readyBefore is how many nodes were ready when the trial began, or the fewest since: see Sizes.
	readyBefore int
	lost        int        // instances that had not become nodes in time: see Sizes
	off         writtenOff // what nothing waits for any longer
	// down is the time since which no node of the group that was in service is ready, or most are not;
	// zero if that is not so.
	down time.Time
	// hidden is the time of the last failure that Cluster Autoscaler does not know of.
	hidden time.Time
	// neverReady reports whether instances have vanished before they became ready nodes: missing
	// nodes are taken back.
	neverReady bool
	unreadable unreadable
	// For sets with a start-up deadline: underway is when the nodes on their way were ordered, forPods for how many pods,
	// and takers says how many of these pods may run on each other member. slow reports whether the last nodes came too late.
	underway nodegroupset.Orders
	forPods  int
	takers   map[string]int
	slow     bool
}

// groupPlan is what is said of a group's part in splits.
type groupPlan struct {
	// inFull is why the group was last increased in full, and held what kept it from growing in the
	// last split; both until its set is even.
	inFull, held string
	// unsplit is how many nodes an expander last let the group have at once that were more than its share, until its set is even.
	unsplit int
	// pinned reports whether no pod of the last question for its set may run in the group.
	pinned bool
}

// streak counts loops in a row, each once.
type streak struct {
	loops, last int
	second      time.Time // of the second loop
}

// in counts a loop, unless it was counted before, and returns how many there are.
func (k *streak) in(loop int, now time.Time) int {
	switch k.last {
	case loop:
		return k.loops
	case loop - 1:
		k.loops++
	default:
		k.loops = 1
	}
	if k.last = loop; k.loops <= 2 {
		k.second = now
	}
	return k.loops
}

// order is an increase on its way to the cloud.
type order struct {
	Before int       `json:"before"` // the target size before it
	Delta  int       `json:"delta"`
	At     time.Time `json:"at"`

	failed time.Time // when it ended without a clear answer; zero while it runs
	err    error
}

func (b *groupState) resize(delta int) {
	b.target += delta
	b.revision++
}

// state returns the group's state.
func (s *State) state(id string) *groupState {
	b := s.groups[id]
	if b == nil {
		b = newGroup()
		s.groups[id] = b
	}
	return b
}

// known returns the group's state, of which nothing may be changed.
func (s *State) known(id string) *groupState {
	if b := s.groups[id]; b != nil {
		return b
	}
	return newGroup()
}

func newGroup() *groupState {
	return &groupState{groupOrders: groupOrders{deleted: map[string]time.Time{}},
		groupFailures: groupFailures{off: writtenOff{instances: map[string]bool{}}}}
}

// unseen returns how many nodes of the group are on their way and not counted by Cluster
// Autoscaler. Releases before 1.36 count whatever they are shown.
func (s *State) unseen(g *Group, at *observation) int {
	b := s.known(g.ID)
	if b.seen || s.o.ExpanderOnly { // else it is no other than what Cluster Autoscaler sees
		return 0
	}
	n := at.count(g, b).inFlight
	if s.caller.before136 {
		n = min(n, b.target-s.Shown(g.ID))
	}
	return n
}
