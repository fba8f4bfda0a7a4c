package clusterautoscaler

import (
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/internal/linked"

	"k8s.io/component-base/metrics/legacyregistry"
	"sigs.k8s.io/cluster-autoscaler/pkg/clusterstate"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/status"
)

// processMetrics are registered where the autoscaler's own are, which it serves under /metrics. All
// balancers of a process share them.
var processMetrics = sync.OnceValue(func() *linked.Metrics { return linked.NewMetrics(legacyregistry.Registerer()) })

// installReport makes decisions count in the process's metrics, and sizes be read at the end of
// every loop.
func (b *Balancer) installReport(p *processors.AutoscalingProcessors) {
	b.journal.CountIn(processMetrics())
	next := p.AutoscalingStatusProcessor
	if next == nil {
		next = &status.NoOpAutoscalingStatusProcessor{}
	}
	p.AutoscalingStatusProcessor = &sizeReader{AutoscalingStatusProcessor: next, journal: b.journal}
}

// sizeReader reads how large the groups of the sets are at the end of a loop.
type sizeReader struct {
	status.AutoscalingStatusProcessor
	journal *linked.Journal
}

// Process reads the sizes, and has the wrapped processor do what it does.
func (r *sizeReader) Process(ctx *ca_context.AutoscalingContext, state *clusterstate.ClusterStateRegistry, now time.Time) error {
	linked.ReadSizes(r.journal, ctx.CloudProvider.NodeGroups())
	return r.AutoscalingStatusProcessor.Process(ctx, state, now)
}
