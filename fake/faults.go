package fake

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// quota is a Quota with the groups it selects.
type quota struct {
	Quota
	members []*group
}

// scheduleFaults assigns faults to groups and records when they begin and end. It drops the
// selectors, so that it keeps no reference to the caller's values.
func (c *Cloud) scheduleFaults(config *Config) {
	for _, q := range config.Quotas {
		q.Scope = Scope{}
		c.quotas = append(c.quotas, quota{Quota: q})
	}
	for _, g := range c.groups {
		for i := range config.Quotas {
			if len(g.placesIn(&config.Quotas[i].Scope)) > 0 {
				c.quotas[i].members = append(c.quotas[i].members, g)
			}
		}
		for _, s := range config.Stocks {
			if places := g.placesIn(&s.Scope); len(places) > 0 {
				s.Scope, s.Mode = Scope{}, cmp.Or(s.Mode, Refuse)
				g.stocks = append(g.stocks, stock{s, places})
			}
		}
		for _, o := range config.Outages {
			for _, p := range g.places {
				if slices.Contains(o.Zones, p.zone) {
					p.outages = append(p.outages, Outage{Window: o.Window, Mode: cmp.Or(o.Mode, Unready)})
				}
			}
		}
	}
	for _, f := range config.Calls {
		f.Methods, f.Groups = slices.Clone(f.Methods), slices.Clone(f.Groups)
		c.faults = append(c.faults, f)
	}
	c.turns, c.windows = config.boundaries(c.start)
}

// boundaries returns when stock-outs and outages begin and end, and when any
// fault does, each in ascending order without repetition.
func (c *Config) boundaries(start time.Time) (turns, all []time.Time) {
	note := func(w Window) {
		turns = append(turns, start.Add(w.Start))
		if w.End != 0 {
			turns = append(turns, start.Add(w.End))
		}
	}
	inOrder := func(times []time.Time) []time.Time {
		slices.SortFunc(times, time.Time.Compare)
		return slices.CompactFunc(times, time.Time.Equal)
	}
	for i := range c.Stocks {
		note(c.Stocks[i].Window)
	}
	for i := range c.Outages {
		note(c.Outages[i].Window)
	}
	stateOnly := slices.Clone(turns)
	for i := range c.Calls {
		note(c.Calls[i].Window)
	}
	return inOrder(stateOnly), inOrder(turns)
}

func (w *Window) contains(offset time.Duration) bool {
	return offset >= w.Start && (w.End == 0 || offset < w.End)
}

// vanishesAt reports whether an outage that removes the nodes begins now.
func (p *place) vanishesAt(offset time.Duration) bool {
	return slices.ContainsFunc(p.outages, func(o Outage) bool {
		return o.Mode == Vanish && o.Start == offset
	})
}

// refuses returns the error IncreaseSize answers in an outage of all zones of the group, or in a
// stock-out that shows at once.
func (g *group) refuses(delta int, offset time.Duration) error {
	room, down, all := g.room(offset)
	switch {
	case all || len(g.waiting)+delta <= room:
		return nil
	case down != nil && (room == 0 || len(g.places) == 1):
		return fmt.Errorf("node group %q: %w: zone %q is down", g.ID, cloudprovider.ErrOutOfResources, down.zone)
	}
	return fmt.Errorf("node group %q: %w: %s", g.ID, cloudprovider.ErrOutOfResources, outOfStock(strings.Join(g.ZoneNames(), ", ")).Message)
}

func outOfStock(zone string) cloudprovider.InstanceError {
	message := "no more machines of this type"
	if zone != "" {
		message += fmt.Sprintf(" in zone %q", zone)
	}
	return cloudprovider.InstanceError{
		Class: cloudprovider.OutOfResourcesErrorClass, Code: "OUT_OF_STOCK", Message: message,
	}
}

// allows returns an error when delta more nodes of g would exceed the quota.
func (q *quota) allows(g *group, delta int) error {
	if !slices.Contains(q.members, g) {
		return nil
	}
	for _, limit := range []struct {
		value int64
		unit  string
		per   func(*group) int64
	}{
		{q.Nodes, "nodes", func(*group) int64 { return 1 }},
		{saturate(q.Cores, 1000), "millicores", func(g *group) int64 { return g.capacity(v1.ResourceCPU, true) }},
		{q.MemoryBytes, "bytes of memory", func(g *group) int64 { return g.capacity(v1.ResourceMemory, false) }},
	} {
		if limit.value == 0 {
			continue
		}
		left := limit.value
		for _, member := range q.members {
			left -= saturate(limit.per(member), int64(member.target()))
			left = max(left, 0) // a quota that is already exceeded counts as full
		}
		if saturate(limit.per(g), int64(delta)) > left {
			return fmt.Errorf("node group %q: %w: quota %q of %d %s has %d left",
				g.ID, cloudprovider.ErrQuotaExceeded, q.Name, limit.value, limit.unit, left)
		}
	}
	return nil
}

// capacity is the capacity of one node of the group, in whole units or in thousandths.
func (g *group) capacity(name v1.ResourceName, milli bool) int64 {
	quantity := g.Template.Node.Status.Capacity[name]
	if milli {
		return quantity.MilliValue()
	}
	return quantity.Value()
}

// saturate multiplies two non-negative numbers; on overflow the result is the largest number.
func saturate(a, b int64) int64 {
	if b != 0 && a > math.MaxInt64/b {
		return math.MaxInt64
	}
	return a * b
}
