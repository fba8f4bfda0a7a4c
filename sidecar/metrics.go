package sidecar

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/steering"
)

// Metrics counts what the sidecar does.
type Metrics struct {
	asked, grantedNodes, backoffs, restarts, refreshFailures, journalFailures, unevens, lateNodes, grantsInFull                                                                        prometheus.Counter
	takenBack, byCall                                                                                                                                                                  *prometheus.CounterVec
	refresh                                                                                                                                                                            prometheus.Histogram
	modes                                                                                                                                                                              *prometheus.GaugeVec
	groups, inFlight, unseen, backedOffGroups, limitedGroups, shutSets, planAge, heldGroups, refusedPolicies, returning, shiftProblem, unevenSets, withheldNodes, withheldPods, oldest prometheus.Gauge
	zoneShifted                                                                                                                                                                        *prometheus.GaugeVec
}

const subsystem = "evenkeel_sidecar_"

// NewMetrics registers the sidecar's metrics; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: subsystem + name, Help: help})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: subsystem + name, Help: help})
	}
	m := &Metrics{
		byCall: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: subsystem + "decisions_total", Help: "Answers to Cluster Autoscaler that had to be decided, by call and result (granted, withheld, failed)."}, []string{"call", "result"}),
		asked:           counter("asked_nodes_total", "Nodes Cluster Autoscaler asked for."),
		grantedNodes:    counter("granted_nodes_total", "Nodes granted, that is ordered from the cloud."),
		backoffs:        counter("member_backoffs_total", "Times a node group was left alone because the cloud refused or did not deliver."),
		restarts:        counter("autoscaler_processes_total", "New processes of Cluster Autoscaler that were noticed."),
		refreshFailures: counter("refresh_failures_total", "Loops skipped because the cloud could not be read."),
		journalFailures: counter("journal_failures_total", "Readings and writings of the journal that failed."),
		lateNodes:       counter("late_nodes_total", "Nodes taken back because they were not ready by the start-up deadline of their set."),
		grantsInFull:    counter("full_grants_total", "Increases granted in full that should have been split, so that a set may have become uneven."),
		unevens:         counter("uneven_sets_total", "Times a set was let become uneven because no member got smaller for --max-balance-deferral."),
		refresh: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: subsystem + "refresh_duration_seconds", Help: "How long reading the cloud took, once per loop.", Buckets: prometheus.ExponentialBuckets(0.001, 4, 8)}),
		modes: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: subsystem + "mode", Help: "1 for the present mode: Steering, DryRun or PassThrough."}, []string{"mode"}),
		groups:          gauge("node_groups", "Node groups."),
		inFlight:        gauge("in_flight_nodes", "Nodes that are ordered and not ready yet."),
		unseen:          gauge("unseen_nodes", "Nodes on their way that Cluster Autoscaler cannot see."),
		backedOffGroups: gauge("backed_off_node_groups", "Node groups that are left alone now."),
		limitedGroups:   gauge("limited_node_groups", "Node groups that get one node at most, because they have failed or their nodes are not ready any more."),
		shutSets:        gauge("backed_off_sets", "Sets left out of the answers because all their members are left alone."),
		heldGroups:      gauge("held_node_groups", "Node groups told to be at their minimum, so that larger members of their sets shrink first."),
		refusedPolicies: gauge("refused_policies", "1 while newer policies of sets are not used because they are wrong; those before are."),
		returning:       gauge("returning_node_groups", "Node groups that catch up slowly, since their zone was shifted away and has come back."),
		shiftProblem:    gauge("zonal_shift_invalid", "1 while the newest marks of zones cannot be used, so that those before hold."),
		zoneShifted: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: subsystem + "zone_shifted", Help: "1 for each zone, or value of another label, that is shifted away."}, []string{"topology_key", "domain"}),
		unevenSets:    gauge("uneven_sets", "Sets whose sizes differ by more than levelling would make them, within the maximum sizes."),
		withheldNodes: gauge("withheld_nodes", "Nodes that Cluster Autoscaler asked for in its last loop and that the sidecar did not grant, since they are on their way, wait for others, or cannot be had."),
		withheldPods:  gauge("withheld_pods", "About how many pending pods those nodes were asked for."),
		oldest:        gauge("oldest_in_flight_seconds", "Time since the oldest node on its way was ordered; 0 without one."),
		takenBack: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: subsystem + "taken_back_nodes_total", Help: "Nodes taken back before they were ready, by reason: late (after the start-up deadline of the set), overdue (not begun in time), failed (could not be created), given-up (by Cluster Autoscaler)."}, []string{"reason"}),
		planAge: gauge("plan_age_seconds", "Age of the split that is being carried out; 0 without one."),
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
	if registerer != nil {
		registerer.MustRegister(m.byCall, m.asked, m.grantedNodes, m.backoffs, m.restarts, m.refreshFailures, m.journalFailures,
			m.refresh, m.modes, m.groups, m.inFlight, m.unseen, m.backedOffGroups, m.limitedGroups, m.shutSets, m.planAge, m.heldGroups, m.unevens, m.grantsInFull, m.lateNodes, m.refusedPolicies,
			m.returning, m.shiftProblem, m.zoneShifted, m.unevenSets, m.withheldNodes, m.withheldPods, m.oldest, m.takenBack)
	}
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

// takeBacks are the reasons for which nodes are taken back.
var takeBacks = map[steering.Counter]string{
	steering.NodesLate: "late", steering.NodesOverdue: "overdue", steering.NodesFailed: "failed", steering.NodesGivenUp: "given-up",
}

// count adds to the counter of an effect.
func (m *Metrics) count(c steering.Counter, n int) {
	counters := map[steering.Counter]prometheus.Counter{
		steering.NodesAsked: m.asked, steering.NodesGranted: m.grantedNodes, steering.MembersBackedOff: m.backoffs,
		steering.ProcessesNoticed: m.restarts, steering.SetsUneven: m.unevens, steering.NodesLate: m.lateNodes, steering.JournalFailed: m.journalFailures, steering.GrantsInFull: m.grantsInFull,
	}
	if reason := takeBacks[c]; reason != "" {
		m.takenBack.WithLabelValues(reason).Add(float64(n))
	}
	if counter := counters[c]; counter != nil {
		counter.Add(float64(n))
	}
}

func (m *Metrics) refreshFailed()            { m.refreshFailures.Inc() }
func (m *Metrics) refreshed(d time.Duration) { m.refresh.Observe(d.Seconds()) }

func (m *Metrics) state(g steering.Gauges) {
	for _, name := range []steering.Mode{steering.Steering, steering.DryRun, steering.PassThrough} {
		value := 0.0
		if g.Mode == name {
			value = 1
		}
		m.modes.WithLabelValues(string(name)).Set(value)
	}
	m.groups.Set(float64(g.Groups))
	m.inFlight.Set(float64(g.InFlight))
	m.unseen.Set(float64(g.Unseen))
	m.backedOffGroups.Set(float64(g.BackedOff))
	m.limitedGroups.Set(float64(g.Limited))
	m.shutSets.Set(float64(g.ClosedSets))
	m.heldGroups.Set(float64(g.Held))
	m.unevenSets.Set(float64(g.UnevenSets))
	m.withheldNodes.Set(float64(g.WithheldNodes))
	m.withheldPods.Set(float64(g.WithheldPods))
	m.oldest.Set(g.OldestInFlight.Seconds())
	m.planAge.Set(g.PlanAge.Seconds())
	refused := 0.0
	if g.PoliciesRefused {
		refused = 1
	}
	m.refusedPolicies.Set(refused)
	m.returning.Set(float64(g.Returning))
	m.shiftProblem.Set(0)
	if g.ShiftProblem {
		m.shiftProblem.Set(1)
	}
	m.zoneShifted.Reset()
	for _, domain := range g.Shifted {
		m.zoneShifted.WithLabelValues(domain.Key, domain.Value).Set(1)
	}
}
