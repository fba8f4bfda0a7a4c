package fake

import (
	"time"
)

// GroupState is the internal state of a node group, which a simulation may report and no caller of
// the API can read.
type GroupState struct {
	ID string
	// Target is the target size.
	Target int
	// Machines are sorted by age, including those being deleted.
	Machines []Machine
}

// Machine is one machine from its creation until it is gone.
type Machine struct {
	Name string
	// Ordered is the time of the order; zero if the machine existed at the start. A machine that
	// replaces one that vanished was ordered when that one vanished.
	Ordered time.Time
	Created time.Time
	// Runs reports whether it has booted.
	Runs bool
	// Failed is the code of its error; empty for none.
	Failed string
	// Removed is the time when its deletion was requested; zero if it was not.
	Removed time.Time
}

// Target returns the target size of a group, 0 if there is none. It is not a call of the API: no
// fault affects it and it is not recorded.
func (c *Cloud) Target(id string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now()
	if g := c.byID[id]; g != nil {
		return g.target()
	}
	return 0
}

// State returns all groups by ID. It is not a call of the API: no fault affects it and it is not
// recorded.
func (c *Cloud) State() []GroupState {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.now()
	groups := make([]GroupState, len(c.groups))
	for i, g := range c.groups {
		groups[i] = GroupState{ID: g.ID, Target: g.target(), Machines: make([]Machine, len(g.instances))}
		for j, in := range g.instances {
			m := Machine{Name: in.name, Ordered: in.ordered, Created: in.created, Removed: in.leftAt}
			switch {
			case in.failure == nil:
				m.Runs = !in.runsAt().After(now)
			case !in.failure.at.After(now):
				m.Failed = in.failure.cause.Code
			}
			groups[i].Machines[j] = m
		}
	}
	return groups
}
