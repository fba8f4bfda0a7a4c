package fake

import (
	"time"
)

// GroupState is a node group as the cloud itself knows it: what a simulation
// may tell about it and no caller of the API can see.
type GroupState struct {
	ID string
	// Target is the target size.
	Target int
	// Machines are by age, those on their way out included.
	Machines []Machine
}

// Machine is one machine from its creation until it is gone.
type Machine struct {
	Name string
	// Ordered is when the order came; zero where the machine was there at the
	// start. A machine that takes the place of one that vanished was ordered then.
	Ordered time.Time
	Created time.Time
	// Runs tells whether it has booted.
	Runs bool
	// Failed is the code of the error that it came to instead; empty for none.
	Failed string
	// Removed is when its deletion was asked for; zero where it was not.
	Removed time.Time
}

// State returns all groups by ID. It is no call of the API: no fault strikes it
// and it is not recorded.
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
