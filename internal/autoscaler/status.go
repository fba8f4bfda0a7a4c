package autoscaler

import (
	"slices"
	"strings"
	"time"
)

// Status is what Cluster Autoscaler writes to a ConfigMap at the end of a loop.
type Status struct {
	Began  time.Time // the loop
	Groups []GroupStatus
}

// GroupStatus is the status of one group.
type GroupStatus struct {
	ID               string
	Target           int // at the beginning of the loop
	MinSize, MaxSize int
	// The numbers of its nodes. LongUnregistered counts instances that have not become nodes in time.
	Ready, Unready, LongUnregistered int
	BackedOff                        string // why it is left alone; empty if it is not
	Refused                          bool   // since the cloud has refused an increase
}

// Status returns the status as of the last loop, with its groups by name.
func (a *Autoscaler) Status() Status {
	s := a.registry
	out := Status{Began: a.began}
	for _, g := range a.remote.groups {
		status := GroupStatus{ID: g.ID, Target: s.ranges[g.ID].target, MinSize: g.min, MaxSize: g.max}
		if r := s.perGroup[g.ID]; r != nil {
			status.Ready, status.Unready, status.LongUnregistered = r.ready, r.unready, r.longUnregistered
		}
		if _, why, active := s.backoffs.Active(g.ID, a.clock.Now()); active && a.templates[g.ID] != nil {
			status.BackedOff, status.Refused = why, s.refused[g.ID]
		}
		out.Groups = append(out.Groups, status)
	}
	slices.SortFunc(out.Groups, func(a, b GroupStatus) int { return strings.Compare(a.ID, b.ID) })
	return out
}
