package sidecar

import "github.com/evenkeel/evenkeel/steering"

// Target is the target size of a group; nobody has asked.
func (s *Sidecar) Target(id string) int {
	return ask(&s.machine, func(state *steering.State) int { return state.Target(id) })
}

// Arriving reports whether a question is arriving.
func (s *Sidecar) Arriving() bool { return s.arrivals.idle() != nil }
