package steering

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Cluster Autoscaler takes a group to be unhealthy, and does not let it grow, as long as more than
// a few nodes are missing that it has not asked for. A group that was granted more than was asked is
// like that until its nodes are ready. That does no harm, unless more is needed meanwhile: pods have
// come, or nodes elsewhere have failed. Then these nodes are left out of the target size that
// Cluster Autoscaler reads, until it has asked for the group again. So it is with all nodes on their
// way when a new process of it begins, and with those of a group that it leaves out for no known
// reason: it may have lost its request for them.

// Shown returns the target size of a group as Cluster Autoscaler reads it. It is not below the group's
// minimum, to which Cluster Autoscaler would raise it, on account of that.
func (s *Machine) Shown(id string) int {
	b := s.state(id)
	if b.Extra == 0 || !s.HidesFailures() || !b.Unshown && s.needed.Before(b.Asked.Truncate(time.Second)) {
		return b.target
	}
	minimum := 0
	if g := s.view.group(id); g != nil {
		minimum = g.MinSize
	}
	return max(b.target-b.Extra, min(b.target, minimum))
}

// hide leaves the nodes of all groups that are on their way out of what a new process of Cluster
// Autoscaler is shown.
func (s *Machine) hide(at *observation) {
	for id, g := range s.view.Groups {
		s.state(id).hide(g, at)
	}
}

// hide leaves what is on its way out of what Cluster Autoscaler is shown.
func (b *groupState) hide(g *Group, at *observation) {
	if !g.ZeroOrMax {
		b.Extra = at.count(g, b).expected
		b.Unshown = b.Extra > 0
	}
}

// HasExtra reports whether some group has nodes on their way that Cluster Autoscaler has not asked
// for. If so, NoticePending belongs before its next loop.
func (s *Machine) HasExtra() bool {
	for _, b := range s.groups {
		if b.Extra > 0 {
			return true
		}
	}
	return false
}

// NoticePending records which pods there are, of which some may be pending.
func (s *Machine) NoticePending(pods []*v1.Pod) {
	for _, pod := range pods {
		if pending(pod) {
			s.needMore(pod.CreationTimestamp.Time)
		}
	}
}

// needMore records that since some time more nodes may be needed than were granted before.
func (s *Machine) needMore(since time.Time) {
	if since.After(s.needed) {
		s.needed = since
	}
}

// answered counts what an answered increase has left of the nodes that nobody has asked for. Those that
// were left out so that Cluster Autoscaler asks count for it from now on, however few it has asked for.
func (b *groupState) answered(asked, granted int) {
	if b.Unshown {
		b.Extra, b.Unshown = 0, false
	}
	b.Extra = max(0, b.Extra+granted-asked)
}
