package zonalshift

import "time"

// catchUp is what is known of a group that has come back and may not be levelled at once.
type catchUp struct {
	since time.Time // when the interval began; zero before the first
	lag   int
}

// catchUp says by how much groups that have come back count as larger.
func (s *Shifts) catchUp(d *Decision, now time.Time, groups []Group) {
	pace := s.o.pace()
	bySet := map[string][]*Group{}
	for i := range groups {
		if g := &groups[i]; g.Set != "" {
			bySet[g.Set] = append(bySet[g.Set], g)
		}
	}
	left := map[string]catchUp{}
	for i := range groups {
		g := &groups[i]
		c, returns := s.returning[g.Name]
		if _, away := s.away[g.Name]; !returns || away {
			continue
		}
		if c.since.IsZero() || now.Sub(c.since) >= pace.Interval {
			c.since = now
			c.lag = pace.lag(s.level(g, bySet[g.Set]) - g.Size)
		}
		if c.lag > 0 {
			left[g.Name] = c
			d.Lag[g.Name] = c.lag
			d.wake(c.since.Add(pace.Interval))
		}
	}
	s.returning = left
}

// lag is what remains of a difference after one interval.
func (p *Pace) lag(difference int) int {
	if p.Interval == 0 || difference <= 0 {
		return 0
	}
	share := int((int64(difference)*int64(p.Percentage) + 99) / 100)
	return max(0, difference-max(p.Nodes, share))
}

// level is the size that a group which has come back is to reach: the mean of the members of its
// portion that were there all the time, rounded up. One at its maximum is where it can be.
func (s *Shifts) level(g *Group, members []*Group) int {
	total, n := int64(0), int64(0)
	for _, m := range members {
		_, away := s.away[m.Name]
		if _, returns := s.returning[m.Name]; !returns && !away && m.Portion == g.Portion {
			total, n = total+int64(m.Size), n+1
		}
	}
	if n == 0 || g.Size >= g.Max {
		return g.Size
	}
	return int((total + n - 1) / n)
}
