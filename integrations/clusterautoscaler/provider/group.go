package provider

import (
	stderrors "errors"
	"fmt"

	"github.com/evenkeel/evenkeel/cloudprovider"

	v1 "k8s.io/api/core/v1"
	ca "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
)

// group is a node group as CA sees it. Its name and bounds are those of a refresh, all else is
// asked for.
type group struct {
	p  *Provider
	is cloudprovider.NodeGroup
}

var _ ca.NodeGroup = &group{}

func (g *group) Id() string { return g.is.ID } //nolint:revive,staticcheck // the name in the interface
func (g *group) Debug() string {
	return fmt.Sprintf("%s (%d..%d) %s", g.is.ID, g.is.MinSize, g.is.MaxSize, g.is.Debug)
}
func (g *group) MinSize() int { return g.is.MinSize }
func (g *group) MaxSize() int { return g.is.MaxSize }

// Exist is true: the contract lists groups that are there, and makes none.
func (*group) Exist() bool                   { return true }
func (*group) Autoprovisioned() bool         { return false }
func (*group) Create() (ca.NodeGroup, error) { return nil, ca.ErrNotImplemented }
func (*group) Delete() error                 { return ca.ErrNotImplemented }

func (g *group) TargetSize() (int, error) {
	ctx, cancel := g.p.within()
	defer cancel()
	return g.p.cloud.TargetSize(ctx, g.is.ID)
}

func (g *group) IncreaseSize(delta int) error {
	ctx, cancel := g.p.within()
	defer cancel()
	return g.p.cloud.IncreaseSize(ctx, g.is.ID, delta)
}

// AtomicIncreaseSize is not offered: an increase is taken or refused as a whole, but not all of its
// machines need appear.
func (*group) AtomicIncreaseSize(int) error { return ca.ErrNotImplemented }

func (g *group) DecreaseTargetSize(delta int) error {
	ctx, cancel := g.p.within()
	defer cancel()
	return g.p.cloud.DecreaseTargetSize(ctx, g.is.ID, delta)
}

func (g *group) DeleteNodes(nodes []*v1.Node) error {
	ctx, cancel := g.p.within()
	defer cancel()
	return g.p.cloud.DeleteNodes(ctx, g.is.ID, nodes)
}

// ForceDeleteNodes is not offered: the contract has one way to delete. CA takes that then.
func (*group) ForceDeleteNodes([]*v1.Node) error { return ca.ErrNotImplemented }

func (g *group) Nodes() ([]ca.Instance, error) {
	ctx, cancel := g.p.within()
	defer cancel()
	instances, err := g.p.cloud.Nodes(ctx, g.is.ID)
	if err != nil {
		return nil, err
	}
	out := make([]ca.Instance, 0, len(instances))
	for _, i := range instances {
		out = append(out, ca.Instance{Id: i.ID, Status: status(i)})
	}
	return out, nil
}

// status is nil where the cloud tells nothing. CA looks at the error of instances only that are
// being created.
func status(i cloudprovider.Instance) *ca.InstanceStatus {
	var out ca.InstanceStatus
	switch i.State {
	case cloudprovider.InstanceRunning:
		out.State = ca.InstanceRunning
	case cloudprovider.InstanceCreating:
		out.State = ca.InstanceCreating
	case cloudprovider.InstanceDeleting:
		out.State = ca.InstanceDeleting
	default:
		if i.Error == nil {
			return nil
		}
		out.State = ca.InstanceCreating
	}
	if i.Error != nil {
		out.ErrorInfo = &ca.InstanceErrorInfo{ErrorClass: ca.OtherErrorClass, ErrorCode: i.Error.Code, ErrorMessage: i.Error.Message}
		if i.Error.Class == cloudprovider.OutOfResourcesErrorClass {
			out.ErrorInfo.ErrorClass = ca.OutOfResourcesErrorClass
		}
	}
	return &out
}

func (g *group) TemplateNodeInfo() (*framework.NodeInfo, error) {
	ctx, cancel := g.p.within()
	defer cancel()
	template, err := g.p.cloud.Template(ctx, g.is.ID)
	if err != nil {
		return nil, absent(err)
	}
	info := framework.NewNodeInfo(template.Node, nil)
	for _, pod := range template.Pods {
		info.AddPod(framework.NewPodInfo(pod, nil))
	}
	return info, nil
}

func (g *group) GetOptions(defaults config.NodeGroupAutoscalingOptions) (*config.NodeGroupAutoscalingOptions, error) {
	ctx, cancel := g.p.within()
	defer cancel()
	options, err := g.p.cloud.Options(ctx, g.is.ID, cloudprovider.GroupOptions{
		ScaleDownUtilizationThreshold:    defaults.ScaleDownUtilizationThreshold,
		ScaleDownGPUUtilizationThreshold: defaults.ScaleDownGpuUtilizationThreshold,
		ScaleDownUnneededTime:            defaults.ScaleDownUnneededTime,
		ScaleDownUnreadyTime:             defaults.ScaleDownUnreadyTime,
		MaxNodeProvisionTime:             defaults.MaxNodeProvisionTime,
		MaxNodeStartupTime:               defaults.MaxNodeStartupTime,
		ZeroOrMaxNodeScaling:             defaults.ZeroOrMaxNodeScaling,
		AllowNonAtomicScaleUpToMax:       defaults.AllowNonAtomicScaleUpToMax,
		IgnoreDaemonSetsUtilization:      defaults.IgnoreDaemonSetsUtilization,
	})
	if err != nil {
		return nil, absent(err)
	}
	return &config.NodeGroupAutoscalingOptions{
		ScaleDownUtilizationThreshold:    options.ScaleDownUtilizationThreshold,
		ScaleDownGpuUtilizationThreshold: options.ScaleDownGPUUtilizationThreshold,
		ScaleDownUnneededTime:            options.ScaleDownUnneededTime,
		ScaleDownUnreadyTime:             options.ScaleDownUnreadyTime,
		MaxNodeProvisionTime:             options.MaxNodeProvisionTime,
		MaxNodeStartupTime:               options.MaxNodeStartupTime,
		ZeroOrMaxNodeScaling:             options.ZeroOrMaxNodeScaling,
		AllowNonAtomicScaleUpToMax:       options.AllowNonAtomicScaleUpToMax,
		IgnoreDaemonSetsUtilization:      options.IgnoreDaemonSetsUtilization,
	}, nil
}

// absent turns what a cloud does not offer into the value that CA compares with ==.
func absent(err error) error {
	if stderrors.Is(err, cloudprovider.ErrNotImplemented) {
		return ca.ErrNotImplemented
	}
	return err
}
