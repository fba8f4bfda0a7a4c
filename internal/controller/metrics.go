package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Gatherer has the metrics of the program and those of controller-runtime: of passes, queues and calls. Where both have
// one, such as those of the Go runtime, it tells the program's, and an error of the other's: some metrics are better than
// none.
func Gatherer(program prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.Gatherers{program, metrics.Registry}
}

// metricLongestPass is the gauge that controller-runtime keeps of the passes under way, in seconds by controller.
var metricLongestPass = prometheus.BuildFQName("", metrics.WorkQueueSubsystem, metrics.LongestRunningProcessorKey)

// stuck tells which controllers have been on one pass for longer than the limit.
func stuck(gatherer prometheus.Gatherer, limit time.Duration) error {
	families, err := gatherer.Gather()
	if err != nil {
		return fmt.Errorf("reading how long passes have been going on: %w", err)
	}
	var problems []error
	for _, family := range families {
		if family.GetName() != metricLongestPass {
			continue
		}
		for _, metric := range family.GetMetric() {
			took := time.Duration(metric.GetGauge().GetValue() * float64(time.Second))
			if took <= limit {
				continue
			}
			for _, label := range metric.GetLabel() {
				if label.GetName() == "controller" {
					problems = append(problems, fmt.Errorf("a pass of %s has been going on for %s", label.GetValue(), took.Truncate(time.Second)))
				}
			}
		}
	}
	return errors.Join(problems...)
}
