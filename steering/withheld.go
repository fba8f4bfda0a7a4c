package steering

import (
	"slices"

	"github.com/evenkeel/evenkeel/spreadplan"
)

// question is what Cluster Autoscaler has asked for and not got.
type question struct {
	nodes, pods int
	asked       int      // nodes at first
	sets        []string // any of which may get them, by first member
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
	c.question = &question{nodes: nodes, asked: nodes, pods: len(c.podsOf(c.names)), sets: c.setsOf()}
	c.notePinned()
}

// setsOf are the sets of the options.
func (c *choice) setsOf() (out []string) {
	for _, name := range c.names {
		if !slices.Contains(out, c.set(name)) {
			out = append(out, c.set(name))
		}
	}
	return out
}

// notePinned notes which members of the sets that may grow have no option because none of the pods
// may run there.
func (c *choice) notePinned() {
	nowhere := map[string]bool{}
	for _, name := range c.names {
		for _, other := range c.similarTo(name) {
			template := c.template(other)
			may := c.options[other] != nil || template == nil || slices.ContainsFunc(c.options[name].Pods, func(i int) bool {
				return spreadplan.Accepts(c.request.Pods[i], template)
			})
			before, known := nowhere[other]
			nowhere[other] = !may && (before || !known)
		}
	}
	for id, is := range nowhere {
		c.state(id).pinned = is
	}
}

// takeWithheld notes what the questions of the loop that has ended did not get.
func (s *Machine) takeWithheld() {
	s.withheld = question{}
	if q := s.question; q != nil && q.nodes > 0 {
		s.withheld = question{nodes: q.nodes, pods: ceilDiv(q.pods*q.nodes, q.asked), sets: q.sets}
	}
	s.question = nil
}

// Why the pods themselves want members of different sizes.
const (
	boundTo = "some pods can run on some members only"
	pinned  = "no pod that needed nodes can run there"
)

// held returns what kept a member from growing in the split.
func (s *split) held(m PlanMember) string {
	switch {
	case m.Why != "":
		return m.Why
	case s.bound:
		return boundTo
	}
	return ""
}
