package clusterautoscaler

import (
	"time"

	"github.com/evenkeel/evenkeel/internal/linked"

	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/metrics"
	"sigs.k8s.io/cluster-autoscaler/pkg/observers/nodegroupchange"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupconfig"
)

// installDeadlines makes the start-up deadlines of declared sets the provision times of their groups.
func (b *Balancer) installDeadlines(p *processors.AutoscalingProcessors) {
	deadlines := b.groupSet.need.deadlines
	if p.NodeGroupConfigProcessor != nil {
		p.NodeGroupConfigProcessor = &provisionTimes{p.NodeGroupConfigProcessor, deadlines}
	}
	if p.ScaleStateNotifier != nil {
		p.ScaleStateNotifier.Register(failures{deadlines})
	}
}

// provisionTimes is the autoscaler's NodeGroupConfigProcessor: the one that was there, with the
// start-up deadlines of declared sets.
type provisionTimes struct {
	nodegroupconfig.NodeGroupConfigProcessor
	deadlines *linked.Deadlines[cloudprovider.NodeGroup]
}

// GetMaxNodeProvisionTime returns how long nodes of a group may take to come.
func (p *provisionTimes) GetMaxNodeProvisionTime(group cloudprovider.NodeGroup) (time.Duration, error) {
	limit, err := p.NodeGroupConfigProcessor.GetMaxNodeProvisionTime(group)
	if err != nil {
		return limit, err
	}
	return p.deadlines.Patience(group.Id(), limit), nil
}

// failures tells the deadlines of scale-ups that have failed.
type failures struct {
	deadlines *linked.Deadlines[cloudprovider.NodeGroup]
}

var _ nodegroupchange.NodeGroupChangeObserver = failures{}

// RegisterFailedScaleUp records that a scale-up has failed.
func (f failures) RegisterFailedScaleUp(group cloudprovider.NodeGroup, _ int, why cloudprovider.InstanceErrorInfo, _ time.Time) {
	f.deadlines.Failed(group.Id(), why.ErrorMessage, why.ErrorCode == string(metrics.Timeout))
}

// RegisterScaleUp has nothing to record.
func (failures) RegisterScaleUp(cloudprovider.NodeGroup, int, time.Time) {}

// RegisterScaleDown has nothing to record.
func (failures) RegisterScaleDown(cloudprovider.NodeGroup, string, time.Time, time.Time) {}

// RegisterFailedScaleDown has nothing to record.
func (failures) RegisterFailedScaleDown(cloudprovider.NodeGroup, string, time.Time) {}
