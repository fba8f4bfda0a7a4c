package clusterautoscaler

import (
	"github.com/evenkeel/evenkeel/internal/linked"

	v1 "k8s.io/api/core/v1"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/podlistprocessor"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/pods"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/scheduling"
)

// retries is the autoscaler's PodListProcessor: the one that was there, and its last word is asked for again for pods
// whose place depends on others.
type retries struct {
	pods.PodListProcessor
	schedulable pods.PodListProcessor
}

func (b *Balancer) installPending(p *processors.AutoscalingProcessors) {
	if p.PodListProcessor != nil {
		p.PodListProcessor = &retries{p.PodListProcessor, podlistprocessor.NewFilterOutSchedulablePodListProcessor(scheduling.ScheduleAnywhere)}
	}
}

// Process returns the pods that nodes are ordered for.
func (r *retries) Process(ctx *ca_context.AutoscalingContext, unschedulable []*v1.Pod) ([]*v1.Pod, error) {
	left, err := r.PodListProcessor.Process(ctx, unschedulable)
	if err != nil {
		return nil, err
	}
	return linked.Retry(left, func(pods []*v1.Pod) ([]*v1.Pod, error) { return r.schedulable.Process(ctx, pods) })
}

// CleanUp is called when the autoscaler ends.
func (r *retries) CleanUp() {
	r.PodListProcessor.CleanUp()
	r.schedulable.CleanUp()
}
