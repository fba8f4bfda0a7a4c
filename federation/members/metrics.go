package members

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/metricset"
)

// states are the values of the label state.
var states = []State{Connecting, Ready, NotAnswering, Offline, Stabilizing}

// Metrics are the metrics of member clusters. The label cluster is the name of a MemberCluster.
type Metrics struct {
	set                          *metricset.Set
	state, waiting, expiry, skew *prometheus.GaugeVec
	probes                       *prometheus.CounterVec
	latency                      *prometheus.HistogramVec
}

// NewMetrics registers metrics; nil registers them nowhere.
func NewMetrics(registerer prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_member_")
	m := &Metrics{
		set:    set,
		state:  set.Gauge("state", "1 for the state that a member cluster is in, 0 for the others, by cluster and state.", "cluster", "state"),
		probes: set.Counter("probes_total", "Probes of member clusters, by cluster and result.", "cluster", "result"),
		latency: set.Histogram("request_duration_seconds",
			"Time that calls to member clusters took, without probes and watches, by cluster and HTTP method.",
			prometheus.ExponentialBuckets(0.001, 4, 8), "cluster", "method"),
		waiting: set.Gauge("waiting_writes", "Writes of local objects that wait for one before, by cluster.", "cluster"),
		expiry: set.Gauge("credentials_expiry_timestamp_seconds",
			"When the credentials of a member cluster expire, in seconds since 1970, by cluster.", "cluster"),
		skew: set.Gauge("clock_skew_seconds",
			"By how much the clock of a member cluster is ahead of that of the controllers; 0 for less than five seconds, by cluster.", "cluster"),
	}
	return m, set.Register(registerer)
}

func (m *Metrics) see(cluster string, state State) {
	for _, s := range states {
		m.state.WithLabelValues(cluster, string(s)).Set(metricset.Number(s == state))
	}
	m.waiting.WithLabelValues(cluster)
}

func (m *Metrics) probed(cluster string, err error) {
	m.probes.WithLabelValues(cluster, passes.ResultOf(err)).Inc()
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

func (m *Metrics) forget(cluster string) { m.set.Forget(prometheus.Labels{"cluster": cluster}) }
