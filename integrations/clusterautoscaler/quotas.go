package clusterautoscaler

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/linked"
	"github.com/evenkeel/evenkeel/nodegroupset"

	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/utils"
	"sigs.k8s.io/cluster-autoscaler/pkg/resourcequotas"
	"sigs.k8s.io/cluster-autoscaler/pkg/resourcequotas/capacityquota"
)

// quotas reads the autoscaler's quotas. They are its own, whatever set them: what the options say
// once the autoscaler is built.
type quotas struct {
	options *coreoptions.AutoscalerOptions
	read    *resourcequotas.TrackerOptions // nil until the first split
}

// from returns the quotas of the options. Where the autoscaler was built from a copy of them, what
// is missing is made as it was made there.
func (q *quotas) from() resourcequotas.TrackerOptions {
	if q.read != nil {
		return *q.read
	}
	from := q.options.QuotasTrackerOptions
	if from.QuotaProvider == nil {
		providers := []resourcequotas.Provider{resourcequotas.NewCloudQuotasProvider(q.options.CloudProvider)}
		if q.options.CapacityQuotasEnabled {
			providers = append(providers, capacityquota.NewCapacityQuotasProvider(q.options.KubeClientNew))
		}
		from.QuotaProvider = resourcequotas.NewCombinedQuotasProvider(providers)
	}
	if from.CustomResourcesProcessor == nil {
		from.CustomResourcesProcessor = q.options.Processors.CustomResourcesProcessor
	}
	if from.NodeFilter == nil {
		from.NodeFilter = resourcequotas.NewCombinedNodeFilter([]resourcequotas.NodeFilter{utils.VirtualKubeletNodeFilter{}})
	}
	q.read = &from
	return from
}

// meter says what nodes take of quotas. As for the autoscaler, the first node of a group speaks for
// the whole group.
type meter struct {
	ctx     *ca_context.AutoscalingContext
	from    resourcequotas.TrackerOptions
	byGroup map[string]map[string]int64
}

// nodes are the loads of the nodes that count.
func (m *meter) nodes(nodes []*v1.Node) ([]linked.Load, error) {
	var loads []linked.Load
	for _, node := range nodes {
		if m.from.NodeFilter != nil && m.from.NodeFilter.ExcludeFromTracking(node) {
			continue
		}
		group, err := m.ctx.CloudProvider.NodeGroupForNode(node)
		if err != nil {
			return nil, fmt.Errorf("find the node group of node %s: %w", node.Name, err)
		}
		load, err := m.load(node, group)
		if err != nil {
			return nil, err
		}
		loads = append(loads, load)
	}
	return loads, nil
}

// load is that of one node, or of the template of a group.
func (m *meter) load(node *v1.Node, group cloudprovider.NodeGroup) (linked.Load, error) {
	if group != nil {
		if takes, known := m.byGroup[group.Id()]; known {
			return linked.Load{Node: node, Takes: takes}, nil
		}
	}
	cores, memory := utils.GetNodeCoresAndMemory(node)
	takes := map[string]int64{string(v1.ResourceCPU): cores, string(v1.ResourceMemory): memory, resourcequotas.ResourceNodes: 1}
	targets, err := m.from.CustomResourcesProcessor.GetNodeResourceTargets(m.ctx, node, group)
	if err != nil {
		return linked.Load{}, fmt.Errorf("read custom resources of node %s: %w", node.Name, err)
	}
	for _, target := range targets {
		if target.ResourceType != "" && target.ResourceCount > 0 {
			takes[target.ResourceType] = target.ResourceCount
		}
	}
	if group != nil {
		m.byGroup[group.Id()] = takes
	}
	return linked.Load{Node: node, Takes: takes}, nil
}

// over are the quotas over the groups that so many more nodes could exceed. The nodes are all that
// the cluster has and expects.
func (q *quotas) over(ctx *ca_context.AutoscalingContext, groups []linked.Sized[cloudprovider.NodeGroup],
	templateOf func(group string) *v1.Node,
	nodes []*v1.Node, more int64) ([]nodegroupset.Quota, error) {
	from := q.from()
	list, err := from.QuotaProvider.Quotas()
	if err != nil {
		return nil, fmt.Errorf("read quotas: %w", err)
	}
	m := &meter{ctx, from, map[string]map[string]int64{}}
	loads, err := m.nodes(nodes)
	if err != nil {
		return nil, err
	}
	sharers := make([]linked.Sharer, len(groups))
	for k, group := range groups {
		template := templateOf(group.Group.Name)
		if template == nil {
			return nil, fmt.Errorf("node group %s %w", group.Group.Name, linked.ErrNoTemplate)
		}
		load, err := m.load(template, group.NodeGroup)
		if err != nil {
			return nil, err
		}
		sharers[k] = linked.Sharer{Name: group.Group.Name, Size: group.Group.Size, Load: load}
	}
	return linked.SplitQuotas(list, loads, sharers, more), nil
}
