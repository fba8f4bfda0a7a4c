package clusterautoscaler

import (
	"time"

	"sigs.k8s.io/cluster-autoscaler/pkg/clusterstate"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/status"
)

// installReport makes decisions count in the process's metrics, and sizes be read at the end of every loop.
func (b *Balancer) installReport(p *processors.AutoscalingProcessors) {
	b.journal.countIn(processMetrics())
	next := p.AutoscalingStatusProcessor
	if next == nil {
		next = &status.NoOpAutoscalingStatusProcessor{}
	}
	p.AutoscalingStatusProcessor = &sizeReader{AutoscalingStatusProcessor: next, journal: b.journal}
}

// sizeReader reads how large the groups of the sets are, since nothing else does in a loop without decisions. It reads them in the
// autoscaler's own goroutine because a cloud provider need not be safe for concurrent use.
type sizeReader struct {
	status.AutoscalingStatusProcessor
	journal *journal
}

// Process reads the sizes, and has the wrapped processor do what it does.
func (r *sizeReader) Process(ctx *ca_context.AutoscalingContext, state *clusterstate.ClusterStateRegistry, now time.Time) error {
	together := map[string]bool{}
	for _, set := range shared(r.journal.remembers().compared.is.Sets) {
		for _, id := range set {
			together[id] = true
		}
	}
	reading := sizeReading{Sizes: map[string]int{}, Failed: map[string]string{}}
	for _, group := range ctx.CloudProvider.NodeGroups() {
		id := group.Id()
		if !together[id] {
			continue
		}
		size, err := group.TargetSize()
		if err != nil {
			reading.Failed[id] = err.Error()
			continue
		}
		reading.Sizes[id] = size
	}
	r.journal.sized(reading)
	return r.AutoscalingStatusProcessor.Process(ctx, state, now)
}
