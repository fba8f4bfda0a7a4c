package steering

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// groupState is what is kept of one group between calls.
type groupState struct {
	target   int // the group's target size, with what is ordered right now
	revision int // counts changes of target, so that a slow reading does not overwrite a newer value

	// seen reports whether Cluster Autoscaler counts the group's nodes that are on their way: it holds a scale-up request
	// for the group, and the group is not backed off there. If in doubt it does not: that costs a loop, not a node.
	seen bool
	// away tells that Cluster Autoscaler may leave the group out until its nodes are ready: it takes nodes on their way
	// that it holds no request for, as after its restart, for a sign of bad health.
	away bool
	// missed is for how many choices in a row the group had no option, with no reason known. Once may be a call that
	// failed.
	missed int
	// asked is when an increase was last answered with success, and ordered when nodes were last ordered.
	asked, ordered time.Time
	// missing is since when instances are missing, counted from the last increase; zero when none is.
	missing time.Time
	// proof is what the group has to show since it failed, and off what is not waited for any longer.
	proof proof
	off   writtenOff
	// neverReady is that instances have vanished before they became ready nodes: what is missing is taken back.
	neverReady bool
	// deleted is when Cluster Autoscaler deleted instances, by id.
	deleted map[string]time.Time
	// order is an increase of which it is not known how it ended.
	order *order
	// grant is the last increase of which some was granted, until the next question shows what came of it.
	grant *grant
}

// grant is what was granted for some pods.
type grant struct {
	loop int // in which it was
	pods []types.UID
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
func (s *Machine) state(id string) *groupState {
	b := s.groups[id]
	if b == nil {
		b = &groupState{}
		s.groups[id] = b
	}
	return b
}

// unseen is how many nodes of the group are on their way without Cluster Autoscaler knowing.
func (s *Machine) unseen(g *Group, at *observation) int {
	b := s.state(g.ID)
	if b.seen {
		return 0
	}
	return at.count(g, b).inFlight
}
