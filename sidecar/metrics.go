package sidecar

import (
	"maps"
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/internal/metricset"
	"github.com/evenkeel/evenkeel/steering"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// Metrics counts what the sidecar does.
type Metrics struct {
	counters          map[steering.Counter]prometheus.Counter
	gauges            []gauge
	refreshFailures   prometheus.Counter
	refresh           prometheus.Observer
	byCall, takenBack *prometheus.CounterVec
	modes             *prometheus.GaugeVec
	zoneShifted       *metricset.Passing[zonalshift.Domain]
	setUneven         *metricset.Passing[string]
	setWithheld       *metricset.Passing[string] // nil of an expander alone
	statusTime        prometheus.Gauge           // of an expander alone
}

// metric is the name and the help text of a metric. An expander alone has it too, if alone is true.
type metric struct {
	name, help string
	alone      bool
}

// counters are what the state counts.
var counters = map[steering.Counter]metric{
	steering.NodesAsked:   {"asked_nodes_total", "Nodes Cluster Autoscaler asked for.", false},
	steering.NodesGranted: {"granted_nodes_total", "Nodes granted, that is ordered from the cloud.", false},
	steering.MembersBackedOff: {"member_backoffs_total", "Times a node group was left alone because the cloud refused or did not deliver.",
		false},
	steering.ProcessesNoticed: {"autoscaler_processes_total", "New processes of Cluster Autoscaler that were noticed.", false},
	steering.JournalFailed:    {"journal_failures_total", "Readings and writings of the journal that failed.", false},
	steering.NodesLate: {"late_nodes_total", "Nodes taken back because they were not ready by the start-up deadline of their set.",
		false},
	steering.GrantsInFull: {"full_grants_total",
		"Increases granted in full that should have been split, so that a set may have become uneven.", false},
	steering.SetsUneven: {"uneven_sets_total", "Times a set was let become uneven because no member got smaller for --max-balance-deferral.",
		false},
}

// takeBacks are the reasons for which nodes are taken back.
var takeBacks = map[steering.Counter]string{
	steering.NodesLate: "late", steering.NodesOverdue: "overdue", steering.NodesFailed: "failed", steering.NodesGivenUp: "given-up",
}

// gauges are what the state measures.
var gauges = []struct {
	metric
	value func(*steering.Gauges) float64
}{
	{metric{"node_groups", "Node groups.", true}, func(g *steering.Gauges) float64 { return float64(g.Groups) }},
	{metric{"in_flight_nodes", "Nodes that are ordered and not ready yet.", true},
		func(g *steering.Gauges) float64 { return float64(g.InFlight) }},
	{metric{"unseen_nodes", "Nodes on their way that Cluster Autoscaler cannot see.", false},
		func(g *steering.Gauges) float64 { return float64(g.Unseen) }},
	{metric{"backed_off_node_groups", "Node groups that are left alone now.", true},
		func(g *steering.Gauges) float64 { return float64(g.BackedOff) }},
	{metric{"unreadable_node_groups", "Node groups that could not be read for some loops in a row; their sizes and instances are old.", false},
		func(g *steering.Gauges) float64 { return float64(g.Unreadable) }},
	{metric{"limited_node_groups", "Node groups that get one node at most, because they have failed or their nodes are not ready any more.",
		true}, func(g *steering.Gauges) float64 { return float64(g.Limited) }},
	{metric{"backed_off_sets", "Sets left out of the answers because all their members are left alone.", false},
		func(g *steering.Gauges) float64 { return float64(g.ClosedSets) }},
	{metric{"held_node_groups", "Node groups told to be at their minimum, so that larger members of their sets shrink first.", false},
		func(g *steering.Gauges) float64 { return float64(g.Held) }},
	{metric{"refused_policies", "1 while newer policies of sets are not used because they are wrong; those before are.", true},
		func(g *steering.Gauges) float64 { return metricset.Number(g.PoliciesRefused) }},
	{metric{"returning_node_groups", "Node groups that catch up slowly, since their zone was shifted away and has come back.", true},
		func(g *steering.Gauges) float64 { return float64(g.Returning) }},
	{metric{"zonal_shift_invalid", "1 while the newest marks of zones cannot be used, so that those before hold.", true},
		func(g *steering.Gauges) float64 { return metricset.Number(g.ShiftProblem) }},
	{metric{"uneven_sets", "Sets whose sizes differ by more than levelling would make them, within the maximum sizes.", true},
		func(g *steering.Gauges) float64 { return float64(g.UnevenSets) }},
	{metric{"withheld_nodes",
		"Nodes that Cluster Autoscaler asked for in its last loop and that the sidecar did not grant, since they are on their " +
			"way, wait for others, or cannot be had.", false}, func(g *steering.Gauges) float64 { return float64(g.WithheldNodes) }},
	{metric{"withheld_pods", "About how many pending pods those nodes were asked for.", false},
		func(g *steering.Gauges) float64 { return float64(g.WithheldPods) }},
	{metric{"oldest_in_flight_seconds", "Time since the oldest node on its way was ordered; 0 without one.", false},
		func(g *steering.Gauges) float64 { return g.OldestInFlight.Seconds() }},
	{metric{"plan_age_seconds", "Age of the split that is being carried out; 0 without one.", false},
		func(g *steering.Gauges) float64 { return g.PlanAge.Seconds() }},
}

// gauge is a gauge and what it measures.
type gauge struct {
	prometheus.Gauge
	value func(*steering.Gauges) float64
}

// NewMetrics registers the sidecar's metrics; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_sidecar_")
	m := &Metrics{
		counters:        map[steering.Counter]prometheus.Counter{},
		refreshFailures: set.Counter("refresh_failures_total", "Loops skipped because the cloud could not be read.").WithLabelValues(),
		refresh: set.Histogram("refresh_duration_seconds", "How long reading the cloud took, once per loop.",
			prometheus.ExponentialBuckets(0.001, 4, 8)).WithLabelValues(),
		byCall: set.Counter("decisions_total",
			"Answers to Cluster Autoscaler that had to be decided, by call and result (granted, withheld, failed).", "call", "result"),
		takenBack: set.Counter("taken_back_nodes_total",
			"Nodes taken back before they were ready, by reason: late (after the start-up deadline of the set), overdue (not "+
				"begun in time), failed (could not be created), given-up (by Cluster Autoscaler).", "reason"),
		modes: set.Gauge("mode", "1 for the present mode: Steering, DryRun or PassThrough.", "mode"),
		setWithheld: metricset.NewPassing(set, "set_withheld_pods", "About how many pending pods the nodes were asked for that the last loop "+
			"did not get, for each set of two and more node groups, by its first. Where several sets may get them, each has them all.",
			itself, "set"),
	}
	m.byDomain(set)
	for counter, is := range counters {
		m.counters[counter] = set.Counter(is.name, is.help).WithLabelValues()
	}
	for _, is := range gauges {
		m.gauges = append(m.gauges, gauge{set.Gauge(is.name, is.help).WithLabelValues(), is.value})
	}
	metricset.Preset(m.byCall, []string{"BestOptions", "IncreaseSize", "DecreaseTargetSize", "Refresh"},
		[]string{"granted", "withheld", "failed"})
	metricset.Preset(m.takenBack, slices.Collect(maps.Values(takeBacks)))
	m.state(steering.Gauges{Mode: steering.Steering})
	return m, set.Register(registerer)
}

// NewExpanderMetrics registers the metrics of an expander alone; nil registers them nowhere.
func NewExpanderMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_expander_")
	m := &Metrics{
		byCall: set.Counter("decisions_total", "Answers to Cluster Autoscaler, by call and result (granted, withheld, failed).", "call",
			"result"),
		statusTime: set.Gauge("status_timestamp_seconds",
			"When the status of Cluster Autoscaler that is in use was written, in seconds since 1970; 0 without one.").WithLabelValues(),
	}
	m.byDomain(set)
	for _, is := range gauges {
		if is.alone {
			m.gauges = append(m.gauges, gauge{set.Gauge(is.name, is.help).WithLabelValues(), is.value})
		}
	}
	metricset.Preset(m.byCall, []string{"BestOptions"}, []string{"granted", "withheld", "failed"})
	return m, set.Register(registerer)
}

// byDomain registers the gauges by zone and by set, which an expander alone has, too.
func (m *Metrics) byDomain(set *metricset.Set) {
	m.zoneShifted = metricset.NewPassing(set, "zone_shifted", "1 for each zone, or value of another label, that is shifted away.",
		func(d zonalshift.Domain) []string { return []string{d.Key, d.Value} }, "topology_key", "domain")
	m.setUneven = metricset.NewPassing(set, "set_uneven_nodes", "Nodes that would be in other node groups of the set if its nodes were "+
		"shared anew, within the maximum sizes, for each set of two and more groups by its first.", itself, "set")
}

// itself is the label value of what has a name.
func itself(name string) []string { return []string{name} }

func (m *Metrics) decided(d *steering.Decision) {
	result := "granted"
	switch {
	case d.Error != "":
		result = "failed"
	case d.Granted == 0:
		result = "withheld"
	}
	m.byCall.WithLabelValues(d.Call, result).Inc()
}

// count adds to the counters of an effect.
func (m *Metrics) count(c steering.Counter, n int) {
	if reason := takeBacks[c]; reason != "" {
		m.takenBack.WithLabelValues(reason).Add(float64(n))
	}
	if counter := m.counters[c]; counter != nil {
		counter.Add(float64(n))
	}
}

func (m *Metrics) state(g steering.Gauges) {
	if m.modes != nil {
		for _, name := range []steering.Mode{steering.Steering, steering.DryRun, steering.PassThrough} {
			m.modes.WithLabelValues(string(name)).Set(metricset.Number(g.Mode == name))
		}
	}
	for _, is := range m.gauges {
		is.Set(is.value(&g))
	}
	shifted, uneven, withheld := map[zonalshift.Domain]float64{}, map[string]float64{}, map[string]float64{}
	for _, domain := range g.Shifted {
		shifted[domain] = 1
	}
	for _, each := range g.Sets {
		uneven[each.Set], withheld[each.Set] = float64(each.UnevenNodes), float64(each.WithheldPods)
	}
	m.zoneShifted.Show(shifted)
	m.setUneven.Show(uneven)
	if m.setWithheld != nil {
		m.setWithheld.Show(withheld)
	}
}
