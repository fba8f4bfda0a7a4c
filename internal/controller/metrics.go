package controller

import (
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// Gatherer returns the metrics of the program and those of controller-runtime about passes, queues
// and calls. If both have a metric, such as those of the Go runtime, it returns the program's, and
// an error about the other.
func Gatherer(program prometheus.Gatherer) prometheus.Gatherer {
	return prometheus.Gatherers{program, metrics.Registry}
}

// metricLongestPass is the gauge of controller-runtime for the passes under way, in seconds by
// controller.
var metricLongestPass = prometheus.BuildFQName("", metrics.WorkQueueSubsystem, metrics.LongestRunningProcessorKey)

// stuck returns an error that names the controllers with a pass that has been running for longer
// than the limit.
func stuck(gatherer prometheus.Gatherer, limit time.Duration) error {
	families, err := gatherer.Gather()
	if err != nil {
		return fmt.Errorf("reading how long passes have been running: %w", err)
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
					problems = append(problems, fmt.Errorf("a reconciliation of controller %s has been running for %s", label.GetValue(),
						took.Truncate(time.Second)))
				}
			}
		}
	}
	return errors.Join(problems...)
}
