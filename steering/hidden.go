package steering

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// Cluster Autoscaler takes a group to be unhealthy, and does not let it grow, as long as more than
// a few nodes are missing that it has not asked for. A group that was granted more than was asked is
// like that until its nodes are ready. That does no harm, unless more is needed meanwhile: pods have
// come, or nodes elsewhere have failed. Then these nodes are left out of the target size that
// Cluster Autoscaler reads, until it has asked for the group again.

// Shown returns the target size of a group as Cluster Autoscaler reads it.
func (s *Machine) Shown(id string) int {
	b := s.state(id)
	if b.extra > 0 && !s.needed.Before(b.asked.Truncate(time.Second)) {
		return b.target - b.extra
	}
	return b.target
}

// HasExtra reports whether some group has nodes on their way that Cluster Autoscaler has not asked
// for. If so, NoticePending belongs before its next loop.
func (s *Machine) HasExtra() bool {
	for _, b := range s.groups {
		if b.extra > 0 {
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

// answered counts what an answered increase has left of the nodes that nobody has asked for.
func (b *groupState) answered(asked, granted int) { b.extra = max(0, b.extra+granted-asked) }
