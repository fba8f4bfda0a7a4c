package clusterautoscaler

import (
	"fmt"
	"maps"
	"math"
	"math/bits"
	"slices"

	v1 "k8s.io/api/core/v1"

	engine "github.com/evenkeel/evenkeel/nodegroupset"

	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/core/utils"
	"sigs.k8s.io/cluster-autoscaler/pkg/resourcequotas"
	"sigs.k8s.io/cluster-autoscaler/pkg/resourcequotas/capacityquota"
)

// quotas turns the autoscaler's quotas into caps of a split. The autoscaler cuts every member of a split by what is left for it, and
// what it cuts is lost until the next loop; a split that knows the quotas gives it to the others, and nothing is cut.
//
// They are the autoscaler's own, whoever set them: what the options say once the autoscaler is built.
type quotas struct {
	options *coreoptions.AutoscalerOptions
	read    *resourcequotas.TrackerOptions // nil until the first split
}

// from returns the quotas of the options. Where the autoscaler was built from a copy of them, what is missing is made as it was made there.
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

// nodeResources is what one node takes of a quota, by resource.
type nodeResources map[string]int64

// nodeMeter says what nodes take. As for the autoscaler, the first node of a group speaks for the whole group.
type nodeMeter struct {
	ctx     *ca_context.AutoscalingContext
	from    resourcequotas.TrackerOptions
	byGroup map[string]nodeResources
}

func (m *nodeMeter) measure(node *v1.Node, group cloudprovider.NodeGroup) (nodeResources, error) {
	if group != nil {
		if known, found := m.byGroup[group.Id()]; found {
			return known, nil
		}
	}
	cores, memory := utils.GetNodeCoresAndMemory(node)
	out := nodeResources{string(v1.ResourceCPU): cores, string(v1.ResourceMemory): memory, resourcequotas.ResourceNodes: 1}
	targets, err := m.from.CustomResourcesProcessor.GetNodeResourceTargets(m.ctx, node, group)
	if err != nil {
		return nil, fmt.Errorf("read custom resources of node %s: %w", node.Name, err)
	}
	for _, target := range targets {
		if target.ResourceType != "" && target.ResourceCount > 0 {
			out[target.ResourceType] = target.ResourceCount
		}
	}
	if group != nil {
		m.byGroup[group.Id()] = out
	}
	return out, nil
}

// use adds up what the nodes of the cluster take of every quota.
func (m *nodeMeter) use(nodes []*v1.Node, list []resourcequotas.Quota) ([]nodeResources, error) {
	used := make([]nodeResources, len(list))
	for i := range used {
		used[i] = nodeResources{}
	}
	for _, node := range nodes {
		if m.from.NodeFilter != nil && m.from.NodeFilter.ExcludeFromTracking(node) {
			continue
		}
		group, err := m.ctx.CloudProvider.NodeGroupForNode(node)
		if err != nil {
			return nil, fmt.Errorf("find the node group of node %s: %w", node.Name, err)
		}
		takes, err := m.measure(node, group)
		if err != nil {
			return nil, err
		}
		for i, quota := range list {
			if quota.AppliesTo(node) {
				for resource, amount := range takes {
					used[i][resource] = add(used[i][resource], amount)
				}
			}
		}
	}
	return used, nil
}

// sharer is a group of a split as quotas see it.
type sharer struct {
	engine.Group
	template *v1.Node
	takes    nodeResources
}

// caps are the quotas over the groups that so many more nodes could exceed. The templates are those of the groups; the nodes are all
// that the cluster has and expects.
func (q *quotas) caps(ctx *ca_context.AutoscalingContext, groups []sizedGroup, templates, nodes []*v1.Node, more int64) ([]engine.Cap, error) {
	from := q.from()
	list, err := from.QuotaProvider.Quotas()
	if err != nil {
		return nil, fmt.Errorf("read quotas: %w", err)
	}
	meter := &nodeMeter{ctx, from, map[string]nodeResources{}}
	used, err := meter.use(nodes, list)
	if err != nil {
		return nil, err
	}
	sharers := make([]sharer, len(groups))
	for k, group := range groups {
		takes, err := meter.measure(templates[k], group.NodeGroup)
		if err != nil {
			return nil, err
		}
		sharers[k] = sharer{group.Group, templates[k], takes}
	}
	var caps []engine.Cap
	for i, quota := range list {
		limits := quota.Limits()
		for _, resource := range slices.Sorted(maps.Keys(limits)) {
			limit := max(0, limits[resource])
			c, binds := capOf(quota, resource, sharers, capRoom{left: limit - min(used[i][resource], limit), more: more})
			if binds {
				caps = append(caps, c)
			}
		}
	}
	return caps, nil
}

// capRoom is what is left of a quota, and how many more nodes are wanted.
type capRoom struct{ left, more int64 }

// capOf turns one limit of a quota into a cap, and says whether it can keep nodes away at all.
func capOf(quota resourcequotas.Quota, resource string, sharers []sharer, room capRoom) (c engine.Cap, binds bool) {
	c = engine.Cap{Name: quota.ID() + " (" + resource + ")", Limit: room.left}
	for _, s := range sharers {
		if units := s.takes[resource]; units > 0 && quota.AppliesTo(s.template) {
			c.Groups, c.Units = append(c.Groups, s.Name), append(c.Units, units)
			c.Limit = add(c.Limit, times(units, s.Size))
			binds = binds || times(units, room.more) > room.left
		}
	}
	return c, binds
}

// add and times stay at the largest number where the result would be beyond it. Nothing is negative here.

func add(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

func times(a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi != 0 || lo > math.MaxInt64 {
		return math.MaxInt64
	}
	return int64(lo)
}
