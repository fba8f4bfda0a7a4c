package linked

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/evenkeel/evenkeel/zonalshift"
)

// MetricsPrefix is how the names of all metrics begin.
const MetricsPrefix = "evenkeel_linked_"

// Metrics counts what is decided.
type Metrics struct {
	splits, splitNodes, unplaced, leftOut prometheus.Counter
	groups, sets, incomparable, spread    prometheus.Gauge
	comparison                            prometheus.Histogram
	changed                               prometheus.Counter
	removed, overdue, late                prometheus.Counter
	deferred, refused, shiftedZones       prometheus.Gauge
}

// NewMetrics registers the metrics; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	factory := promauto.With(registerer)
	counter := func(name, help string) prometheus.Counter {
		return factory.NewCounter(prometheus.CounterOpts{Name: MetricsPrefix + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return factory.NewGauge(prometheus.GaugeOpts{Name: MetricsPrefix + name, Help: help})
	}
	return &Metrics{
		splits:       counter("splits_total", "Scale-ups that were shared among node groups, those of groups without similar ones included."),
		splitNodes:   counter("split_nodes_total", "Nodes that these scale-ups gave to node groups."),
		unplaced:     counter("unplaced_nodes_total", "Nodes that were to be shared and no node group had room for."),
		leftOut:      counter("left_out_node_groups_total", "Times a node group was left out of a split because its size could not be read."),
		groups:       gauge("node_groups", "Node groups that are compared."),
		sets:         gauge("sets", "Sets of at least two similar node groups."),
		incomparable: gauge("incomparable_node_groups", "Node groups without a template that can be compared. They are balanced with none."),
		spread:       gauge("set_size_spread", "Largest difference, over all sets, between the sizes of two node groups of a set."),
		comparison: factory.NewHistogram(prometheus.HistogramOpts{
			Name: MetricsPrefix + "comparison_duration_seconds", Help: "How long comparing node groups took, each time a template had changed.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
		changed: counter("templates_changed_total", "Templates of node groups that were new or had changed."),
		removed: counter("scale_down_removed_nodes_total", "Nodes that were let go to be removed."),
		overdue: counter("scale_down_overdue_nodes_total",
			"Nodes that were let go because they had waited for balance as long as a node may."),
		late:         counter("late_scale_ups_total", "Times ordered nodes of a node group were not ready by the start-up deadline of its set."),
		refused:      gauge("refused_policies", "1 while newer policies of sets are not used because they are wrong; those before are."),
		deferred:     gauge("scale_down_deferred_nodes", "Nodes that may be removed and wait because their set would become uneven."),
		shiftedZones: gauge("shifted_zones", "Zones that are shifted away."),
	}
}

func (m *Metrics) policies(refused bool) {
	m.refused.Set(0)
	if refused {
		m.refused.Set(1)
	}
}

func (m *Metrics) split(d splitDecision) {
	m.splits.Inc()
	m.splitNodes.Add(float64(d.Given))
	m.unplaced.Add(float64(d.Unplaced))
	m.leftOut.Add(float64(len(d.LeftOut)))
}

func (m *Metrics) shrunk(d shrinkDecision) {
	m.removed.Add(float64(len(d.Removed)))
	for _, node := range d.Removed {
		if node.Reason == reasonOverdue {
			m.overdue.Inc()
		}
	}
	m.deferred.Set(float64(len(forBalance(d.Waiting))))
}

func (m *Metrics) shifted(d zonalshift.Decision) {
	m.shiftedZones.Set(float64(len(d.Shifted)))
}

func (m *Metrics) compared(c comparison) {
	m.groups.Set(float64(c.Groups))
	m.incomparable.Set(float64(len(c.Failed)))
	m.sets.Set(float64(len(shared(c.Sets))))
	m.changed.Add(float64(c.Changed))
	m.comparison.Observe(c.Took.Seconds())
}

func (m *Metrics) sized(sets [][]string, sizes map[string]int) {
	widest := 0
	for _, set := range sets {
		widest = max(widest, spread(set, sizes))
	}
	m.spread.Set(float64(widest))
}

// shared are the sets of at least two groups.
func shared(sets [][]string) [][]string {
	var out [][]string
	for _, set := range sets {
		if len(set) > 1 {
			out = append(out, set)
		}
	}
	return out
}

// spread is the difference between the largest and the smallest of the groups whose size is known.
func spread(set []string, sizes map[string]int) int {
	smallest, largest, found := 0, 0, false
	for _, id := range set {
		size, known := sizes[id]
		switch {
		case !known:
		case !found:
			smallest, largest, found = size, size, true
		default:
			smallest, largest = min(smallest, size), max(largest, size)
		}
	}
	return largest - smallest
}
