package htmlreport

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// point is a value that starts at a moment.
type point struct {
	at    time.Duration
	value float64
}

// layer is one band of a stack, or one line.
type layer struct {
	name   string
	look   int // position of its pattern
	points []point
}

func (l *layer) last() float64 {
	if len(l.points) == 0 {
		return 0
	}
	return l.points[len(l.points)-1].value
}

// at is the value at a moment, after all changes of that moment.
func (l *layer) at(t time.Duration) float64 {
	i, _ := slices.BinarySearchFunc(l.points, t+1, func(p point, t time.Duration) int { return cmp.Compare(p.at, t) })
	if i == 0 {
		return 0
	}
	return l.points[i-1].value
}

func stacked(layers []layer, t time.Duration) (height float64) {
	for i := range layers {
		height += layers[i].at(t)
	}
	return height
}

// target and ready select a value of a group's size.
func target(s v1alpha1.GroupSize) int { return s.Target }
func ready(s v1alpha1.GroupSize) int  { return s.Ready }

// sizesOf are a group's sizes from the start on.
func sizesOf(g *v1alpha1.GroupReport) []v1alpha1.GroupSize {
	if len(g.Sizes) > 0 {
		return g.Sizes
	}
	return []v1alpha1.GroupSize{{Target: g.After, Ready: g.Ready}}
}

// sum adds the sizes of groups up over time.
func sum(groups []v1alpha1.GroupReport, size func(v1alpha1.GroupSize) int) []point {
	type change struct {
		at time.Duration
		by int
	}
	var changes []change
	value := 0 // at the start, before anything changes
	for i := range groups {
		sizes := sizesOf(&groups[i])
		before := size(sizes[0])
		value += before
		for _, s := range sizes[1:] {
			changes = append(changes, change{s.At.Duration, size(s) - before})
			before = size(s)
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	points := []point{{0, float64(value)}}
	for i, c := range changes {
		value += c.by
		if i+1 == len(changes) || changes[i+1].at > c.at {
			points = append(points, point{c.at, float64(value)})
		}
	}
	return points
}

// zones are patterns by zone: a zone has the same pattern in every chart.
type zones []string

func zonesOf(sides []side) zones {
	var names []string
	for _, s := range sides {
		for _, g := range s.status.Groups {
			names = append(names, g.Zone)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func (z zones) look(zone string) int { return slices.Index(z, zone) % looks }

// most is the maximum number of layers of a chart; the rest is combined.
const most = 8

// byZone stacks the groups of each zone.
func (z zones) byZone(groups []v1alpha1.GroupReport) []layer {
	ofZone := map[string][]v1alpha1.GroupReport{}
	for _, g := range groups {
		ofZone[g.Zone] = append(ofZone[g.Zone], g)
	}
	var layers []layer
	var rest []v1alpha1.GroupReport
	for i, zone := range z {
		switch members := ofZone[zone]; {
		case len(members) == 0:
		case len(layers) == most-1 && len(ofZone) > most:
			for _, later := range z[i:] {
				rest = append(rest, ofZone[later]...)
			}
			return append(layers, layer{name: "other zones", look: looks - 1, points: sum(rest, target)})
		default:
			layers = append(layers, layer{name: cmp.Or(zone, "no zone"), look: z.look(zone), points: sum(members, target)})
		}
	}
	return layers
}

// byGroup stacks single groups, sorted by zone; if there are too many, it stacks zones.
func (z zones) byGroup(groups []v1alpha1.GroupReport) []layer {
	if len(groups) > most {
		return z.byZone(groups)
	}
	groups = slices.Clone(groups)
	slices.SortFunc(groups, func(a, b v1alpha1.GroupReport) int {
		return cmp.Or(strings.Compare(a.Zone, b.Zone), strings.Compare(a.Name, b.Name))
	})
	var layers []layer
	for _, g := range groups {
		layers = append(layers, layer{name: g.Name, look: z.look(g.Zone), points: sum([]v1alpha1.GroupReport{g}, target)})
	}
	return layers
}

// instants are the moments at which any layer changes, including the start.
func instants(layers []layer) []time.Duration {
	all := []time.Duration{0}
	for _, l := range layers {
		for _, p := range l.points {
			all = append(all, p.at)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// thin keeps at most about n moments: for each interval the last one, and the one with the highest
// sum of layers.
func thin(at []time.Duration, layers []layer, n int) []time.Duration {
	if len(at) <= n {
		return at
	}
	end, stretches := at[len(at)-1], n/2
	var kept []time.Duration
	highest, value, stretch := at[0], -1.0, 0
	for i, t := range at {
		total := stacked(layers, t)
		if total > value {
			highest, value = t, total
		}
		next := stretches
		if i+1 < len(at) {
			next = int(float64(at[i+1]) / float64(end+1) * float64(stretches))
		}
		if next > stretch {
			kept = append(kept, highest, t)
			value, stretch = -1, next
		}
	}
	slices.Sort(kept)
	return slices.Compact(append([]time.Duration{at[0]}, kept...))
}
