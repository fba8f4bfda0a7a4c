package clusterautoscaler

import (
	"context"
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	ca "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

// memoryCloud is a cloud in memory as a provider of the autoscaler, which calls no more of it than the methods below.
type memoryCloud struct {
	ca.CloudProvider
	cloud  *fake.Cloud
	limits *ca.ResourceLimiter
	groups []ca.NodeGroup // as listed at the last refresh
}

// memoryGroup is a group of it.
type memoryGroup struct {
	ca.NodeGroup
	cloud *fake.Cloud
	is    cloudprovider.NodeGroup
}

func newMemoryCloud(cloud *fake.Cloud, limits *ca.ResourceLimiter) (*memoryCloud, error) {
	c := &memoryCloud{cloud: cloud, limits: limits}
	return c, c.Refresh()
}

func (c *memoryCloud) Name() string                                     { return "memory" }
func (c *memoryCloud) NodeGroups() []ca.NodeGroup                       { return c.groups }
func (c *memoryCloud) HasInstance(*v1.Node) (bool, error)               { return true, ca.ErrNotImplemented }
func (c *memoryCloud) GetResourceLimiter() (*ca.ResourceLimiter, error) { return c.limits, nil }
func (c *memoryCloud) GPULabel() string                                 { return "" }
func (c *memoryCloud) GetAvailableGPUTypes() map[string]struct{}        { return nil }
func (c *memoryCloud) GetNodeGpuConfig(*v1.Node) *ca.GpuConfig          { return nil }

func (c *memoryCloud) Refresh() error {
	listed, err := c.cloud.NodeGroups(context.Background())
	c.groups = nil
	for _, g := range listed {
		c.groups = append(c.groups, &memoryGroup{cloud: c.cloud, is: g})
	}
	return err
}

func (c *memoryCloud) NodeGroupForNode(node *v1.Node) (ca.NodeGroup, error) {
	id, ok, err := c.cloud.NodeGroupForNode(context.Background(), node)
	if err != nil || !ok {
		return nil, err
	}
	for _, g := range c.groups {
		if g.Id() == id {
			return g, nil
		}
	}
	return nil, fmt.Errorf("node %s is of the unknown node group %s", node.Name, id)
}

func (g *memoryGroup) Id() string            { return g.is.ID } //nolint:revive,staticcheck // the name in the interface
func (g *memoryGroup) Debug() string         { return g.is.ID }
func (g *memoryGroup) MinSize() int          { return g.is.MinSize }
func (g *memoryGroup) MaxSize() int          { return g.is.MaxSize }
func (g *memoryGroup) Exist() bool           { return true }
func (g *memoryGroup) Autoprovisioned() bool { return false }

func (g *memoryGroup) AtomicIncreaseSize(int) error { return ca.ErrNotImplemented }

func (g *memoryGroup) TargetSize() (int, error) {
	return g.cloud.TargetSize(context.Background(), g.is.ID)
}

func (g *memoryGroup) IncreaseSize(delta int) error {
	return g.cloud.IncreaseSize(context.Background(), g.is.ID, delta)
}

func (g *memoryGroup) DecreaseTargetSize(delta int) error {
	return g.cloud.DecreaseTargetSize(context.Background(), g.is.ID, delta)
}

func (g *memoryGroup) DeleteNodes(nodes []*v1.Node) error {
	return g.cloud.DeleteNodes(context.Background(), g.is.ID, nodes)
}

func (g *memoryGroup) ForceDeleteNodes([]*v1.Node) error { return ca.ErrNotImplemented }

func (g *memoryGroup) Nodes() ([]ca.Instance, error) {
	instances, err := g.cloud.Nodes(context.Background(), g.is.ID)
	var out []ca.Instance
	states := map[cloudprovider.InstanceState]ca.InstanceState{
		cloudprovider.InstanceRunning: ca.InstanceRunning, cloudprovider.InstanceCreating: ca.InstanceCreating,
		cloudprovider.InstanceDeleting: ca.InstanceDeleting,
	}
	for _, i := range instances {
		out = append(out, ca.Instance{Id: i.ID, Status: &ca.InstanceStatus{State: states[i.State]}})
	}
	return out, err
}

func (g *memoryGroup) TemplateNodeInfo() (*framework.NodeInfo, error) {
	template, err := g.cloud.Template(context.Background(), g.is.ID)
	if err != nil {
		return nil, err
	}
	info := framework.NewNodeInfo(template.Node, nil)
	for _, pod := range template.Pods {
		info.AddPod(framework.NewPodInfo(pod, nil))
	}
	return info, nil
}

// GetOptions knows of groups that are all or nothing.
func (g *memoryGroup) GetOptions(defaults config.NodeGroupAutoscalingOptions) (*config.NodeGroupAutoscalingOptions, error) {
	options, err := g.cloud.Options(context.Background(), g.is.ID, cloudprovider.GroupOptions{})
	if errors.Is(err, cloudprovider.ErrNotImplemented) {
		return nil, ca.ErrNotImplemented
	}
	defaults.ZeroOrMaxNodeScaling = options.ZeroOrMaxNodeScaling
	return &defaults, err
}
