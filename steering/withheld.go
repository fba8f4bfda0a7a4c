package steering

// question is what Cluster Autoscaler has asked for and not got.
type question struct {
	nodes, pods int
	asked       int // nodes at first
}

// noticeAsked notes what Cluster Autoscaler asks for now.
func (c *choice) noticeAsked() {
	c.question = nil
	if !c.HidesFailures() {
		return
	}
	var all split
	for _, name := range c.names {
		m := member{option: *c.options[name]}
		m.Name = name
		all.members = append(all.members, m)
	}
	nodes := all.asked()
	c.question = &question{nodes: nodes, asked: nodes, pods: len(c.podsOf(c.names))}
}

// takeWithheld notes what the questions of the loop that has ended did not get.
func (s *Machine) takeWithheld() {
	s.withheld = question{}
	if q := s.question; q != nil && q.nodes > 0 {
		s.withheld = question{nodes: q.nodes, pods: ceilDiv(q.pods*q.nodes, q.asked)}
	}
	s.question = nil
}

// held returns what kept a member from growing in the split.
func (s *split) held(m PlanMember) string {
	switch {
	case m.Why != "":
		return m.Why
	case s.bound:
		return "some pods can run on some members only"
	}
	return ""
}
