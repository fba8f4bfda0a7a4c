package sidecar

import "github.com/evenkeel/evenkeel/steering"

// Target is the target size of a group; nobody has asked.
func (s *Sidecar) Target(id string) (target int) {
	s.step(func(m *steering.Machine) { target = m.Target(id) })
	return target
}

// Arriving reports whether a question is arriving.
func (s *Sidecar) Arriving() bool { return s.arrivals.idle() != nil }
