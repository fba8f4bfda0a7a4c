package schedule

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/evenkeel/evenkeel/internal/metricset"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// Metrics count what a Simulator answers.
type Metrics struct {
	seconds          prometheus.Observer
	rooms, fallbacks *prometheus.CounterVec
}

// NewMetrics registers metrics; nil registers them nowhere.
func NewMetrics(r prometheus.Registerer) (*Metrics, error) {
	set := metricset.New("evenkeel_workloadspread_")
	m := &Metrics{
		seconds: set.Histogram("simulation_seconds", "Time of the simulation of one new pod, over all subsets.",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .1}).WithLabelValues(),
		rooms: set.Counter("simulated_subsets_total",
			"Subsets for which a new pod was simulated, by what has room: node, autoscaler, none or unknown.", "room"),
		fallbacks: set.Counter("simulation_fallbacks_total",
			"Simulations that had no answer, so that the plain order counts, by reason: busy, timeout or error.", "reason"),
	}
	metricset.Preset(m.rooms, roomNames)
	metricset.Preset(m.fallbacks, []string{"busy", "timeout", "error"})
	return m, set.Register(r)
}

// roomNames are the answers, in the order of their numbers.
var roomNames = []string{"unknown", "node", "autoscaler", "none"}

func (m *Metrics) answered(took time.Duration, rooms []workloadspread.Room, fallback string) {
	m.seconds.Observe(took.Seconds())
	for _, room := range rooms {
		m.rooms.WithLabelValues(roomNames[room]).Inc()
	}
	if fallback != "" {
		m.fallbacks.WithLabelValues(fallback).Inc()
	}
}
