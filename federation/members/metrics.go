package members

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// The results of probes.
const (
	resultSuccess, resultFailure = "success", "failure"
)

// states are the values of the label state.
var states = []State{Connecting, Ready, NotAnswering, Offline, Stabilizing}

// Metrics are the metrics of member clusters. The label cluster is the name of a MemberCluster.
type Metrics struct {
	state   *prometheus.GaugeVec
	probes  *prometheus.CounterVec
	latency *prometheus.HistogramVec
	// waiting is read of members when the metrics are, so that nothing is left of one that has gone.
	waiting *prometheus.Desc
	members atomic.Pointer[Members]
	expiry  *prometheus.GaugeVec
	skew    *prometheus.GaugeVec
}

// NewMetrics returns the metrics of member clusters, registered with the registerer if that is not
// nil. It fails if metrics of the same names are registered already.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	const prefix = "evenkeel_member_"
	m := &Metrics{
		state: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "state", Help: "1 for the state that a member cluster is in, 0 for the others, by cluster and state.",
		}, []string{"cluster", "state"}),
		probes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: prefix + "probes_total", Help: "Probes of member clusters, by cluster and result.",
		}, []string{"cluster", "result"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: prefix + "request_duration_seconds", Help: "Time that calls to member clusters took, without probes and watches, by cluster and HTTP method.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 8),
		}, []string{"cluster", "method"}),
		waiting: prometheus.NewDesc(prefix+"waiting_writes", "Writes of local objects that wait for one before, by cluster.", []string{"cluster"}, nil),
		expiry: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "credentials_expiry_timestamp_seconds", Help: "When the credentials of a member cluster expire, in seconds since 1970, by cluster.",
		}, []string{"cluster"}),
		skew: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: prefix + "clock_skew_seconds", Help: "By how much the clock of a member cluster is ahead of that of the controllers; 0 for less than five seconds, by cluster.",
		}, []string{"cluster"}),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.state, m.probes, m.latency, m.expiry, m.skew, queues{m}} {
		if err := registerer.Register(c); err != nil {
			return nil, fmt.Errorf("registering the metrics of member clusters: %w", err)
		}
	}
	return m, nil
}

// queues shows how many writes wait.
type queues struct{ *Metrics }

// Describe implements prometheus.Collector.
func (q queues) Describe(to chan<- *prometheus.Desc) { to <- q.waiting }

// Collect implements prometheus.Collector.
func (q queues) Collect(to chan<- prometheus.Metric) {
	members := q.members.Load()
	if members == nil {
		return
	}
	for _, c := range members.List() {
		to <- prometheus.MustNewConstMetric(q.waiting, prometheus.GaugeValue, float64(c.changes.depth()), c.name)
	}
}

func (m *Metrics) see(cluster string, state State) {
	for _, s := range states {
		value := 0.0
		if s == state {
			value = 1
		}
		m.state.WithLabelValues(cluster, string(s)).Set(value)
	}
}

func (m *Metrics) probed(cluster string, err error) {
	result := resultSuccess
	if err != nil {
		result = resultFailure
	}
	m.probes.WithLabelValues(cluster, result).Inc()
}

func (m *Metrics) called(cluster string, r *http.Request, took time.Duration) {
	if !r.URL.Query().Has("watch") {
		m.latency.WithLabelValues(cluster, r.Method).Observe(took.Seconds())
	}
}

// expires notes when credentials expire; never if the time is zero.
func (m *Metrics) expires(cluster string, at time.Time) {
	if at.IsZero() {
		m.expiry.DeleteLabelValues(cluster)
		return
	}
	m.expiry.WithLabelValues(cluster).Set(float64(at.Unix()))
}

func (m *Metrics) forget(cluster string) {
	of := prometheus.Labels{"cluster": cluster}
	m.state.DeletePartialMatch(of)
	m.probes.DeletePartialMatch(of)
	m.latency.DeletePartialMatch(of)
	m.expiry.DeletePartialMatch(of)
	m.skew.DeletePartialMatch(of)
}
