package steering

// Cluster Autoscaler takes a group to be unhealthy, and does not let it grow, as long as more than
// a few nodes are missing that it has not asked for. So it is with all nodes on their way when a new
// process of it begins. They are left out of the target size that Cluster Autoscaler reads, until it has
// asked for the group again.

// Shown returns the target size of a group as Cluster Autoscaler reads it. It is not below the group's
// minimum, to which Cluster Autoscaler would raise it, on account of that.
func (s *State) Shown(id string) int {
	b := s.known(id)
	if b.unshown == 0 || !s.HidesFailures() {
		return b.target
	}
	minimum := 0
	if g := s.view.group(id); g != nil {
		minimum = g.MinSize
	}
	return max(b.target-b.unshown, min(b.target, minimum))
}

// hide leaves the nodes of all groups that are on their way out of what a new process of Cluster
// Autoscaler is shown.
func (s *State) hide(at *observation) {
	for id, g := range s.view.Groups {
		s.state(id).hide(g, at)
	}
}

// hide leaves what is on its way out of what Cluster Autoscaler is shown.
func (b *groupState) hide(g *Group, at *observation) {
	if !g.ZeroOrMax {
		b.unshown = at.count(g, b).expected
	}
}
