package steering

// Bounds returns the minimum and the maximum of a group that Cluster Autoscaler is given: by them it removes nodes
// from other groups, or orders them there.
func (s *State) Bounds(g *Group) (least, most int) {
	most = g.MaxSize
	if b := s.known(g.ID); b.full && s.HidesFailures() {
		most = min(most, max(b.target, 0))
	}
	return min(s.minimum(g), most), most
}

// capServed keeps Cluster Autoscaler, where it balances by itself, from asking on and on for nodes of members that do not get
// them, since they have failed or have their share: it knows neither, and asks for all nodes in the smallest. If others
// were to get nodes in the loop that has ended and were not asked, those members are at their maximum in this one.
func (s *State) capServed() {
	p, passed := s.caller.pick, false
	if p != nil && p.refuse == "" && !p.full {
		passed = len(p.Shares) == 0 && !s.caller.grown[p.Group]
		for id, share := range p.Shares {
			passed = passed || share > 0 && !s.caller.grown[id]
		}
	}
	for _, b := range s.groups {
		b.full, b.short = passed && (b.short || b.full) && s.caller.balancing != byNobody, false
	}
}
