package zonalshift

import (
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// fewestUnready is how many nodes must be not ready: one may be a kubelet that restarts.
const fewestUnready = 2

// health is what is known of a zone from one call to the next.
type health struct {
	bad  time.Time // since when there is a reason to shift it away; zero if there is none
	well time.Time // since when all is well; zero where it is not
	on   bool
	why  string // it was shifted away
	at   time.Time
}

// condition is the state of a zone at one moment.
type condition struct{ ready, notReady, groups, refusing int }

// detected are the zones that are shifted away without a mark, the oldest first.
func (s *Shifts) detected(d *Decision, now time.Time, groups []Group) []Shifted {
	if !s.o.Detect.on() {
		return nil
	}
	zones := map[Domain]*condition{}
	for i := range groups {
		g := &groups[i]
		zone, ok := valueOf(v1.LabelTopologyZone, g.Labels)
		if !ok {
			continue
		}
		c := zones[Zone(zone)]
		if c == nil {
			c = &condition{}
			zones[Zone(zone)] = c
		}
		c.ready, c.notReady, c.groups = c.ready+g.Ready, c.notReady+g.NotReady, c.groups+1
		if g.Refuses {
			c.refusing++
		}
	}
	maps.DeleteFunc(s.seen, func(zone Domain, _ health) bool { return zones[zone] == nil })
	var out []Shifted
	for _, zone := range slices.SortedFunc(maps.Keys(zones), compareDomains) {
		seen := s.seen[zone]
		seen.update(d, &s.o.Detect, zones[zone], now)
		s.seen[zone] = seen
		if seen.on {
			out = append(out, Shifted{Domain: zone, Detected: true, Reason: seen.why, Since: seen.at})
		}
	}
	slices.SortStableFunc(out, compareShifts)
	return out
}

// update takes in the state of a zone. What shifts it away must last, and so must what brings it back,
// which takes more than the absence of the former.
func (g *health) update(d *Decision, o *Detect, c *condition, now time.Time) {
	why := c.bad(o)
	mark(&g.bad, why != "", now)
	mark(&g.well, c.well(o), now)
	switch {
	case !g.on && !g.bad.IsZero():
		if due := g.bad.Add(o.after()); now.Before(due) {
			d.wake(due)
		} else {
			g.on, g.why, g.at = true, why, now
		}
	case g.on && !g.well.IsZero():
		if due := g.well.Add(o.calm()); now.Before(due) {
			d.wake(due)
		} else {
			g.on, g.why, g.at = false, "", time.Time{}
		}
	}
}

// mark notes since when something holds.
func mark(since *time.Time, holds bool, now time.Time) {
	switch {
	case !holds:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
}

// bad says why a zone should be shifted away; empty if it should not.
func (c *condition) bad(o *Detect) string {
	nodes := c.ready + c.notReady
	switch {
	case o.UnreadyPercentage > 0 && c.notReady >= fewestUnready && 100*c.notReady >= o.UnreadyPercentage*nodes:
		return fmt.Sprintf("%d of its %d nodes are not ready any more", c.notReady, nodes)
	case o.Refusals && c.refusing == c.groups:
		return "all its node groups refuse to grow"
	}
	return ""
}

// well reports whether nothing speaks against the zone. It may be neither bad nor well.
func (c *condition) well(o *Detect) bool {
	few := o.UnreadyPercentage == 0 || c.notReady == 0 || 200*c.notReady < o.UnreadyPercentage*(c.ready+c.notReady)
	return few && (!o.Refusals || c.refusing == 0)
}
