package sidecar

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/evenkeel/evenkeel/steering"
)

// Metrics counts what the sidecar does.
type Metrics struct {
	counters           map[steering.Counter]prometheus.Counter
	gauges             []prometheus.Gauge // in the order of gauges
	refreshFailures    prometheus.Counter
	refresh            prometheus.Histogram
	byCall, takenBack  *prometheus.CounterVec
	modes, zoneShifted *prometheus.GaugeVec
}

const subsystem = "evenkeel_sidecar_"

// metric is the name and the help text of a metric.
type metric struct{ name, help string }

// counters are what the machine counts.
var counters = map[steering.Counter]metric{
	steering.NodesAsked:       {"asked_nodes_total", "Nodes Cluster Autoscaler asked for."},
	steering.NodesGranted:     {"granted_nodes_total", "Nodes granted, that is ordered from the cloud."},
	steering.MembersBackedOff: {"member_backoffs_total", "Times a node group was left alone because the cloud refused or did not deliver."},
	steering.ProcessesNoticed: {"autoscaler_processes_total", "New processes of Cluster Autoscaler that were noticed."},
	steering.JournalFailed:    {"journal_failures_total", "Readings and writings of the journal that failed."},
	steering.NodesLate:        {"late_nodes_total", "Nodes taken back because they were not ready by the start-up deadline of their set."},
	steering.GrantsInFull:     {"full_grants_total", "Increases granted in full that should have been split, so that a set may have become uneven."},
	steering.SetsUneven:       {"uneven_sets_total", "Times a set was let become uneven because no member got smaller for --max-balance-deferral."},
}

// takeBacks are the reasons for which nodes are taken back.
var takeBacks = map[steering.Counter]string{
	steering.NodesLate: "late", steering.NodesOverdue: "overdue", steering.NodesFailed: "failed", steering.NodesGivenUp: "given-up",
}

// gauges are what the machine measures.
var gauges = []struct {
	metric
	value func(*steering.Gauges) float64
}{
	{metric{"node_groups", "Node groups."}, func(g *steering.Gauges) float64 { return float64(g.Groups) }},
	{metric{"in_flight_nodes", "Nodes that are ordered and not ready yet."}, func(g *steering.Gauges) float64 { return float64(g.InFlight) }},
	{metric{"unseen_nodes", "Nodes on their way that Cluster Autoscaler cannot see."}, func(g *steering.Gauges) float64 { return float64(g.Unseen) }},
	{metric{"backed_off_node_groups", "Node groups that are left alone now."}, func(g *steering.Gauges) float64 { return float64(g.BackedOff) }},
	{metric{"limited_node_groups", "Node groups that get one node at most, because they have failed or their nodes are not ready any more."}, func(g *steering.Gauges) float64 { return float64(g.Limited) }},
	{metric{"backed_off_sets", "Sets left out of the answers because all their members are left alone."}, func(g *steering.Gauges) float64 { return float64(g.ClosedSets) }},
	{metric{"held_node_groups", "Node groups told to be at their minimum, so that larger members of their sets shrink first."}, func(g *steering.Gauges) float64 { return float64(g.Held) }},
	{metric{"refused_policies", "1 while newer policies of sets are not used because they are wrong; those before are."}, func(g *steering.Gauges) float64 { return one(g.PoliciesRefused) }},
	{metric{"returning_node_groups", "Node groups that catch up slowly, since their zone was shifted away and has come back."}, func(g *steering.Gauges) float64 { return float64(g.Returning) }},
	{metric{"zonal_shift_invalid", "1 while the newest marks of zones cannot be used, so that those before hold."}, func(g *steering.Gauges) float64 { return one(g.ShiftProblem) }},
	{metric{"uneven_sets", "Sets whose sizes differ by more than levelling would make them, within the maximum sizes."}, func(g *steering.Gauges) float64 { return float64(g.UnevenSets) }},
	{metric{"withheld_nodes", "Nodes that Cluster Autoscaler asked for in its last loop and that the sidecar did not grant, since they are on their way, wait for others, or cannot be had."}, func(g *steering.Gauges) float64 { return float64(g.WithheldNodes) }},
	{metric{"withheld_pods", "About how many pending pods those nodes were asked for."}, func(g *steering.Gauges) float64 { return float64(g.WithheldPods) }},
	{metric{"oldest_in_flight_seconds", "Time since the oldest node on its way was ordered; 0 without one."}, func(g *steering.Gauges) float64 { return g.OldestInFlight.Seconds() }},
	{metric{"plan_age_seconds", "Age of the split that is being carried out; 0 without one."}, func(g *steering.Gauges) float64 { return g.PlanAge.Seconds() }},
}

// NewMetrics registers the sidecar's metrics; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	factory := promauto.With(registerer)
	m := &Metrics{
		counters:        map[steering.Counter]prometheus.Counter{},
		refreshFailures: factory.NewCounter(prometheus.CounterOpts{Name: subsystem + "refresh_failures_total", Help: "Loops skipped because the cloud could not be read."}),
		refresh: factory.NewHistogram(prometheus.HistogramOpts{
			Name: subsystem + "refresh_duration_seconds", Help: "How long reading the cloud took, once per loop.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
		byCall: factory.NewCounterVec(prometheus.CounterOpts{
			Name: subsystem + "decisions_total", Help: "Answers to Cluster Autoscaler that had to be decided, by call and result (granted, withheld, failed)."}, []string{"call", "result"}),
		takenBack: factory.NewCounterVec(prometheus.CounterOpts{
			Name: subsystem + "taken_back_nodes_total", Help: "Nodes taken back before they were ready, by reason: late (after the start-up deadline of the set), overdue (not begun in time), failed (could not be created), given-up (by Cluster Autoscaler)."}, []string{"reason"}),
		modes: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: subsystem + "mode", Help: "1 for the present mode: Steering, DryRun or PassThrough."}, []string{"mode"}),
		zoneShifted: factory.NewGaugeVec(prometheus.GaugeOpts{
			Name: subsystem + "zone_shifted", Help: "1 for each zone, or value of another label, that is shifted away."}, []string{"topology_key", "domain"}),
	}
	for counter, is := range counters {
		m.counters[counter] = factory.NewCounter(prometheus.CounterOpts{Name: subsystem + is.name, Help: is.help})
	}
	for _, is := range gauges {
		m.gauges = append(m.gauges, factory.NewGauge(prometheus.GaugeOpts{Name: subsystem + is.name, Help: is.help}))
	}
	for _, call := range []string{"BestOptions", "IncreaseSize", "DecreaseTargetSize", "Refresh"} {
		for _, result := range []string{"granted", "withheld", "failed"} {
			m.byCall.WithLabelValues(call, result)
		}
	}
	for _, reason := range takeBacks {
		m.takenBack.WithLabelValues(reason)
	}
	m.state(steering.Gauges{Mode: steering.Steering})
	return m
}

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

func (m *Metrics) refreshFailed()            { m.refreshFailures.Inc() }
func (m *Metrics) refreshed(d time.Duration) { m.refresh.Observe(d.Seconds()) }

func (m *Metrics) state(g steering.Gauges) {
	for _, name := range []steering.Mode{steering.Steering, steering.DryRun, steering.PassThrough} {
		m.modes.WithLabelValues(string(name)).Set(one(g.Mode == name))
	}
	for i, is := range gauges {
		m.gauges[i].Set(is.value(&g))
	}
	m.zoneShifted.Reset()
	for _, domain := range g.Shifted {
		m.zoneShifted.WithLabelValues(domain.Key, domain.Value).Set(1)
	}
}

// one is 1 for what is true.
func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
