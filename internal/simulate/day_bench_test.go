package simulate

import (
	"context"
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
)

// wholeDay is a fleet over 24 hours: every workload grows and shrinks between a
// third and all of its pods six times, each at hours of its own; zones go down, run
// out of machines and refuse calls, and what nobody needs is removed.
func wholeDay(groups, pods, kinds int) *Setup {
	s := fleet(groups, pods, kinds)
	s.Duration = 24 * time.Hour
	s.ScaleDown = &removal.Options{MaxParallelism: 50, MaxDrainParallelism: 10}
	for i := range s.Workloads {
		w := &s.Workloads[i]
		full := w.Steps[0].Replicas
		for step := 1; step <= 12; step++ {
			replicas := full
			if step%2 == 1 {
				replicas = (full + 2) / 3
			}
			at := time.Duration(step)*110*time.Minute + time.Duration(i%10)*5*time.Minute
			w.Steps = append(w.Steps, Step{At: at, Replicas: replicas})
		}
	}
	hours := func(from, until int) v1alpha1.FaultWindow {
		return during(time.Duration(from)*time.Hour, time.Duration(until)*time.Hour)
	}
	s.Cloud.Outages = []v1alpha1.Outage{{Zones: []string{"zone-a"}, FaultWindow: hours(5, 6), Mode: v1alpha1.OutageUnready},
		{Zones: []string{"zone-b"}, FaultWindow: hours(15, 16), Mode: v1alpha1.OutageVanish}}
	s.Cloud.StockOuts = []v1alpha1.StockOut{{Zones: []string{"zone-c"}, FaultWindow: hours(8, 10), Mode: v1alpha1.StockOutRefuse}}
	return s
}

// BenchmarkDay plays 24 hours.
func BenchmarkDay(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the command does
	for _, size := range []struct{ pods, groups int }{{1_000, 75}, {5_000, 75}, {20_000, 75}} {
		b.Run(fmt.Sprintf("pods=%d/groups=%d", size.pods, size.groups), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				report, err := Run(context.Background(), wholeDay(size.groups, size.pods, 100), nil)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(report.Status.Rounds), "rounds")
				b.ReportMetric(float64(report.Status.NodesOrdered), "nodes")
				b.ReportMetric(float64(report.Status.NodesScaledDown), "removed")
			}
		})
	}
}
