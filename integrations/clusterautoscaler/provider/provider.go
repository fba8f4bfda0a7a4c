// Package provider shows a cloud that speaks evenkeel's contract, package cloudprovider, to Cluster
// Autoscaler (CA) as one of CA's own cloud providers, so that it can be linked in instead of served
// over a protocol.
//
// It translates types and adds nothing: it keeps the list of groups from one refresh to the next,
// as the contract says, and asks the cloud for everything else. It must not know any cloud.
package provider

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/evenkeel/evenkeel/cloudprovider"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	ca "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/errors"
	"sigs.k8s.io/cluster-autoscaler/pkg/utils/gpu"
)

// DefaultTimeout bounds a call of the cloud unless Options say otherwise.
const DefaultTimeout = time.Minute

// Options are what a Provider can do without. The zero value works.
type Options struct {
	// Name is what CA calls the provider; empty means evenkeel.
	Name string
	// Limits are the bounds of cores, memory and so on over the whole cluster, which CA hands to
	// every provider; nil means none.
	Limits *ca.ResourceLimiter
	// GPULabel is the label of nodes with GPUs, its value the type of GPU; empty for a cloud that
	// does not label them.
	GPULabel string
	// Timeout bounds every call of the cloud; 0 means DefaultTimeout.
	Timeout time.Duration
}

// Provider is a cloud as CA sees it.
type Provider struct {
	cloud cloudprovider.Provider
	o     Options

	mu     sync.Mutex
	groups []ca.NodeGroup // as listed at the last refresh, in the cloud's order
	byID   map[string]*group
}

var _ ca.CloudProvider = &Provider{}

// New returns a provider for the cloud, refreshed once so that CA knows its groups from the start.
// The error is the refresh's.
func New(cloud cloudprovider.Provider, o Options) (*Provider, error) {
	if o.Name == "" {
		o.Name = "evenkeel"
	}
	if o.Limits == nil {
		o.Limits = ca.NewResourceLimiter(nil, nil)
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	p := &Provider{cloud: cloud, o: o}
	return p, p.Refresh()
}

// within returns the context of one call. CA's interface hands none down.
func (p *Provider) within() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), p.o.Timeout)
}

// Name returns the provider's name.
func (p *Provider) Name() string { return p.o.Name }

// Refresh refreshes the cloud and reads the list of its groups. After an error, which makes CA skip
// a loop, the list is that of the last success.
func (p *Provider) Refresh() error {
	ctx, cancel := p.within()
	defer cancel()
	if err := p.cloud.Refresh(ctx); err != nil {
		return fmt.Errorf("refresh the cloud: %w", err)
	}
	listed, err := p.cloud.NodeGroups(ctx)
	if err != nil {
		return fmt.Errorf("list the node groups: %w", err)
	}
	groups, byID := make([]ca.NodeGroup, 0, len(listed)), make(map[string]*group, len(listed))
	for _, g := range listed {
		one := &group{p: p, is: g}
		groups, byID[g.ID] = append(groups, one), one
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.groups, p.byID = groups, byID
	return nil
}

// NodeGroups returns the groups listed at the last refresh.
func (p *Provider) NodeGroups() []ca.NodeGroup {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]ca.NodeGroup(nil), p.groups...)
}

// NodeGroupForNode returns the group of a node, nil for a node that belongs to none. The node may
// be one of CA's placeholders for an instance without node object.
func (p *Provider) NodeGroupForNode(node *v1.Node) (ca.NodeGroup, error) {
	ctx, cancel := p.within()
	defer cancel()
	id, ok, err := p.cloud.NodeGroupForNode(ctx, node)
	if err != nil {
		return nil, fmt.Errorf("node group of node %s: %w", node.Name, err)
	}
	if !ok {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	found, ok := p.byID[id]
	if !ok {
		return nil, fmt.Errorf("node %s is of node group %s, which was not there at the last refresh", node.Name, id)
	}
	return found, nil
}

// HasInstance is not offered: the contract has no such question, and CA then goes by its own taint
// on nodes it deletes.
func (*Provider) HasInstance(*v1.Node) (bool, error) { return true, ca.ErrNotImplemented }

// Pricing returns the cloud's prices, and CA's ErrNotImplemented for a cloud without.
func (p *Provider) Pricing() (ca.PricingModel, errors.AutoscalerError) {
	prices, ok := p.cloud.(cloudprovider.Pricing)
	if !ok {
		return nil, ca.ErrNotImplemented
	}
	return &pricing{p: p, prices: prices}, nil
}

// GetAvailableMachineTypes is not offered: the contract makes no groups.
func (*Provider) GetAvailableMachineTypes() ([]string, error) { return nil, ca.ErrNotImplemented }

// NewNodeGroup is not offered: the contract makes no groups.
func (*Provider) NewNodeGroup(string, map[string]string, map[string]string, []v1.Taint, map[string]resource.Quantity) (ca.NodeGroup, error) {
	return nil, ca.ErrNotImplemented
}

// GetResourceLimiter returns the limits of the options, never nil.
func (p *Provider) GetResourceLimiter() (*ca.ResourceLimiter, error) { return p.o.Limits, nil }

// GPULabel returns the label of the options.
func (p *Provider) GPULabel() string { return p.o.GPULabel }

// GetAvailableGPUTypes returns none: the contract does not list them.
func (*Provider) GetAvailableGPUTypes() map[string]struct{} { return nil }

// GetNodeGpuConfig finds a node's GPU by its label and its resources; nil for a node without.
func (p *Provider) GetNodeGpuConfig(node *v1.Node) *ca.GpuConfig {
	return gpu.GetNodeGPUFromCloudProvider(p, node)
}

// Cleanup lets the cloud release what it holds. Nothing may be called after it.
func (p *Provider) Cleanup() error {
	ctx, cancel := p.within()
	defer cancel()
	return p.cloud.Cleanup(ctx)
}
