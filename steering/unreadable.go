package steering

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// unreadable is since when a group cannot be read.
type unreadable struct {
	readings int // in a row
	since    time.Time
}

// warnUnreadable is after how many readings in a row somebody should look at a group that cannot be
// read: one may be a call that was lost.
const warnUnreadable = 3

func (u *unreadable) lasts() bool { return u.readings >= warnUnreadable }

// noteReading counts the readings that could not read a group, and says when that lasts and when it
// has ended.
func (s *State) noteReading(g *Group, b *groupState) {
	u := &b.unreadable
	if g.Err == nil {
		if u.lasts() {
			lasted := s.now.Sub(u.since).Round(time.Second)
			s.log(Log{Message: "Node group can be read again", Values: []any{"nodeGroup", g.ID, "after", lasted.String()}})
			s.inform("NodeGroupReadable", fmt.Sprintf("Node group %s can be read again after %s", g.ID, lasted))
		}
		*u = unreadable{}
		return
	}
	if g.Kept {
		return // it was not tried again
	}
	watchSince(&u.since, true, s.now)
	if u.readings++; u.readings == warnUnreadable {
		s.alarm("NodeGroupUnreadable", s.sayUnreadable(g, u))
	}
}

func (s *State) sayUnreadable(g *Group, u *unreadable) string {
	return fmt.Sprintf("Node group %s has not been readable since %s, its sizes and instances are those of then: %v", g.ID,
		u.since.UTC().Format(time.RFC3339), g.Err)
}

// present are the warnings that hold now, and go with what they are about.
func (s *State) present() (out []string) {
	for _, id := range slices.Sorted(maps.Keys(s.view.Groups)) {
		if u := &s.known(id).unreadable; u.lasts() {
			out = append(out, s.sayUnreadable(s.view.Groups[id], u))
		}
	}
	return out
}
