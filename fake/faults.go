package fake

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
)

// quota is a quota with the groups it selects.
type quota struct {
	*v1alpha1.ScenarioQuota
	members []*group
}

// durationOf is a duration that may be left out.
func durationOf(d *metav1.Duration) time.Duration {
	return ptr.Deref(d, metav1.Duration{}).Duration
}

// scheduleFaults assigns faults to groups and records when they begin and end. It keeps copies, and no
// reference to the caller's values.
func (c *Cloud) scheduleFaults(config *Config) {
	for i := range config.Quotas {
		c.quotas = append(c.quotas, quota{ScenarioQuota: config.Quotas[i].DeepCopy()})
	}
	for _, g := range c.groups {
		for i := range config.Quotas {
			if len(g.placesIn(c.quotas[i].Groups, c.quotas[i].Zones)) > 0 {
				c.quotas[i].members = append(c.quotas[i].members, g)
			}
		}
		for i := range config.StockOuts {
			s := config.StockOuts[i].DeepCopy()
			if places := g.placesIn(s.Groups, s.Zones); len(places) > 0 {
				s.Mode = cmp.Or(s.Mode, v1alpha1.StockOutRefuse)
				g.stocks = append(g.stocks, stock{s, places})
			}
		}
		for i := range config.Outages {
			for _, p := range g.places {
				if o := &config.Outages[i]; slices.Contains(o.Zones, p.zone) {
					p.outages = append(p.outages, *o.DeepCopy())
				}
			}
		}
	}
	for i := range config.Calls {
		c.faults = append(c.faults, *config.Calls[i].DeepCopy())
	}
	c.turns, c.windows = config.boundaries(c.start)
}

// boundaries returns when stock-outs and outages begin and end, and when any
// fault does, each in ascending order without repetition.
func (c *Config) boundaries(start time.Time) (turns, all []time.Time) {
	note := func(w *v1alpha1.FaultWindow, of ...*[]time.Time) {
		for _, times := range of {
			*times = append(*times, start.Add(w.From.Duration))
			if w.Until != nil {
				*times = append(*times, start.Add(w.Until.Duration))
			}
		}
	}
	for i := range c.StockOuts {
		note(&c.StockOuts[i].FaultWindow, &turns, &all)
	}
	for i := range c.Outages {
		note(&c.Outages[i].FaultWindow, &turns, &all)
	}
	for i := range c.Calls {
		note(&c.Calls[i].FaultWindow, &all)
	}
	slices.SortFunc(turns, time.Time.Compare)
	slices.SortFunc(all, time.Time.Compare)
	return slices.CompactFunc(turns, time.Time.Equal), slices.CompactFunc(all, time.Time.Equal)
}

// vanishesAt reports whether an outage that removes the nodes begins now.
func (p *place) vanishesAt(offset time.Duration) bool {
	return slices.ContainsFunc(p.outages, func(o v1alpha1.Outage) bool {
		return o.Mode == v1alpha1.OutageVanish && o.From.Duration == offset
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
	memory := ptr.Deref(q.Memory, resource.Quantity{})
	for _, limit := range []struct {
		value int64
		unit  string
		per   func(*group) int64
	}{
		{ptr.Deref(q.Nodes, 0), "nodes", func(*group) int64 { return 1 }},
		{saturate(ptr.Deref(q.Cores, 0), 1000), "millicores", func(g *group) int64 { return g.capacity(v1.ResourceCPU, true) }},
		{memory.Value(), "bytes of memory", func(g *group) int64 { return g.capacity(v1.ResourceMemory, false) }},
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
