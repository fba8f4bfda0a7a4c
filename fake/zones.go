package fake

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Distribution is how a group over several zones chooses the zone of its next node; empty means
// Balanced.
type Distribution string

// The distributions, and the clouds that have them.
const (
	// Balanced chooses the zone with the fewest nodes of the group among those that have machines: an
	// Auto Scaling group, a managed instance group with the target shape BALANCED, a scale set with
	// best-effort zone balance.
	Balanced Distribution = "Balanced"
	// Even chooses the zone with the fewest nodes, and waits until that has machines: the target shape
	// EVEN, strict zone balance, an Auto Scaling group that is balanced only.
	Even Distribution = "Even"
	// Any chooses the first zone that has machines: the target shape ANY.
	Any Distribution = "Any"
)

// Distributions lists the distributions.
func Distributions() []Distribution { return []Distribution{Balanced, Even, Any} }

// zoneLabels name a node's zone, the current label before the old one.
var zoneLabels = [...]string{v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone}

func zoneOf(node *v1.Node) string {
	if node == nil {
		return ""
	}
	for _, label := range zoneLabels {
		if zone := node.Labels[label]; zone != "" {
			return zone
		}
	}
	return ""
}

// InZone returns a node as it would be in another zone: the labels of the zone, those of storage
// drivers included, have the name of that one.
func InZone(node *v1.Node, zone string) *v1.Node {
	before, out := zoneOf(node), *node
	out.Labels = maps.Clone(node.Labels)
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	for key, value := range out.Labels {
		if before != "" && value == before && strings.Contains(key, "zone") {
			out.Labels[key] = zone
		}
	}
	out.Labels[v1.LabelTopologyZone] = zone
	return &out
}

// ZoneNames are the zones that the group may have nodes in: Zones, or that of its template, which may
// have the empty name.
func (g *Group) ZoneNames() []string {
	if len(g.Zones) > 0 {
		return g.Zones
	}
	return []string{zoneOf(g.Template.Node)}
}

// place is the part of a group in one zone.
type place struct {
	zone    string
	like    *v1.Node // what nodes look like there
	outages []v1alpha1.Outage
	staying int // instances that are not being deleted
	healthy int // those of them that are not known to be useless
}

// stock is a stock-out of some places of a group.
type stock struct {
	*v1alpha1.StockOut
	places []*place
}

// left is how many more good machines the stock-out leaves.
func (s *stock) left() int {
	left := int(s.Left)
	for _, p := range s.places {
		left -= p.healthy
	}
	return max(left, 0)
}

func (g *group) makePlaces() {
	for _, zone := range g.ZoneNames() {
		like := g.Template.Node
		if len(g.Zones) > 0 {
			like = InZone(like, zone)
		}
		g.places = append(g.places, &place{zone: zone, like: like})
	}
}

// placeOf is where a node of the configuration is.
func (g *group) placeOf(node *v1.Node) *place {
	if at := slices.IndexFunc(g.places, func(p *place) bool { return p.zone == zoneOf(node) }); at >= 0 {
		return g.places[at]
	}
	return g.places[0]
}

// placesIn are those that groups and zones select, which without any is all.
func (g *group) placesIn(groups, zones []string) []*place {
	if len(groups)+len(zones) == 0 || slices.Contains(groups, g.ID) {
		return g.places
	}
	var out []*place
	for _, p := range g.places {
		if slices.Contains(zones, p.zone) {
			out = append(out, p)
		}
	}
	return out
}

// outageAt returns the outage that the place is in; nil for none.
func (p *place) outageAt(offset time.Duration) *v1alpha1.Outage {
	for i := range p.outages {
		if p.outages[i].Contains(offset) {
			return &p.outages[i]
		}
	}
	return nil
}

// shortage returns the first stock-out that prevents one more instance at a place; nil for none.
func (g *group) shortage(p *place, offset time.Duration) *v1alpha1.StockOut {
	for i := range g.stocks {
		if s := &g.stocks[i]; s.Contains(offset) && slices.Contains(s.places, p) && s.left() == 0 {
			return s.StockOut
		}
	}
	return nil
}

// next is where the next instance is created, and what is wrong with it, if anything; nil for nowhere
// now.
func (g *group) next(offset time.Duration) (*place, *v1alpha1.StockOut) {
	var best *place
	var bestShort *v1alpha1.StockOut
	var bestBlocked int
	var least []int
	for _, p := range g.places {
		short, blocked, bad := g.shortage(p, offset), 0, 0
		if short != nil {
			bad = 1
		}
		if p.outageAt(offset) != nil || short != nil && (short.Mode == v1alpha1.StockOutRefuse || short.Mode == v1alpha1.StockOutSilent) {
			blocked = 1
		}
		rank := []int{blocked, bad, p.staying}
		switch g.Distribution {
		case Even:
			rank = []int{p.staying, blocked, bad}
		case Any:
			rank = []int{blocked, bad}
		case Balanced:
		}
		if best == nil || slices.Compare(rank, least) < 0 {
			best, bestShort, bestBlocked, least = p, short, blocked, rank
		}
	}
	if bestBlocked > 0 {
		return nil, nil
	}
	return best, bestShort
}

// room is how many more instances the places may have during outages and stock-outs that refuse, and
// the first place that is down; all is whether nothing limits them. A stock-out counts once.
func (g *group) room(offset time.Duration) (room int, down *place, all bool) {
	var counted []*stock
	for _, p := range g.places {
		if p.outageAt(offset) != nil {
			down = cmp.Or(down, p)
			continue
		}
		var tightest *stock
		for i := range g.stocks {
			s := &g.stocks[i]
			if s.Mode == v1alpha1.StockOutRefuse && s.Contains(offset) && slices.Contains(s.places, p) &&
				(tightest == nil || s.left() < tightest.left()) {
				tightest = s
			}
		}
		if tightest == nil {
			return 0, nil, true
		}
		if !slices.Contains(counted, tightest) {
			counted = append(counted, tightest)
			room += tightest.left()
		}
	}
	return room, down, false
}
