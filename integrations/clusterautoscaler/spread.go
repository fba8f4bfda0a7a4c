package clusterautoscaler

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/linked"

	ca "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/expander"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroups"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
)

// spread plans scale-ups for pods with a topology spread over zones. The plan is made when the
// autoscaler has chosen an option, because all options are known then, and used when it shares the
// nodes of that option.
type spread struct {
	groupSet *groupSet
	clock    clock.PassiveClock

	pods []*v1.Pod                        // of the scale-up
	plan *linked.SpreadPlan[ca.NodeGroup] // nil for none
}

// podsOfScaleUp is the autoscaler's NodeGroupListProcessor: the one that was there. It is the first to
// see which pods a scale-up is for: those its PodListProcessor has left that are old enough, and in a
// salvo those that are still without nodes.
type podsOfScaleUp struct {
	nodegroups.NodeGroupListProcessor
	spread *spread
}

// installSpread sets what sees the pods of scale-ups.
func (b *Balancer) installSpread(p *processors.AutoscalingProcessors) {
	if b.groupSet.spread == nil {
		return
	}
	next := p.NodeGroupListProcessor
	if next == nil {
		next = nodegroups.NewDefaultNodeGroupListProcessor()
	}
	p.NodeGroupListProcessor = &podsOfScaleUp{next, b.groupSet.spread}
}

// Process remembers the pods, and has the wrapped processor do what it does.
func (p *podsOfScaleUp) Process(ctx *ca_context.AutoscalingContext, groups []ca.NodeGroup, templates map[string]*framework.NodeInfo,
	pods []*v1.Pod) (
	[]ca.NodeGroup, map[string]*framework.NodeInfo, error) {
	p.spread.pods, p.spread.plan = pods, nil
	return p.NodeGroupListProcessor.Process(ctx, groups, templates, pods)
}

// takePlan returns the plan and forgets it: it holds for one split.
func (s *spread) takePlan() *linked.SpreadPlan[ca.NodeGroup] {
	if s == nil {
		return nil
	}
	plan := s.plan
	s.plan = nil
	return plan
}

// widened returns the chosen option with all pods that a plan has room for, or as it is if there is no
// plan. The autoscaler takes these pods to be helped.
func (s *spread) widened(ctx *ca_context.AutoscalingContext, options []expander.Option, best *expander.Option,
	templates map[string]*framework.NodeInfo) *expander.Option {
	if s == nil || best == nil || best.NodeCount <= 0 || !best.NodeGroup.Exist() {
		return best
	}
	plan, why := s.work(ctx, options, best, templates)
	if why != "" {
		klog.V(2).InfoS("No plan for all pending pods, they get nodes as Cluster Autoscaler asks for them", "chosen", best.NodeGroup.Id(),
			"reason", why)
		return best
	}
	s.plan = plan
	all := *best
	all.Pods = plan.Pods
	return &all
}

func (s *spread) work(ctx *ca_context.AutoscalingContext, options []expander.Option, best *expander.Option,
	templates map[string]*framework.NodeInfo) (
	plan *linked.SpreadPlan[ca.NodeGroup], why string) {
	chosen := best.NodeGroup.Id()
	at := slices.IndexFunc(options, func(o expander.Option) bool { return o.NodeGroup.Id() == chosen })
	if at < 0 || templates[chosen] == nil {
		return nil, "the expander has chosen no option with a template"
	}
	infos, err := ctx.ClusterSnapshot.ListNodeInfos()
	if err != nil {
		return nil, err.Error()
	}
	work := linked.Spread[ca.NodeGroup]{
		Pods: s.pods, Chosen: at, Templates: map[string]linked.Template{},
		Lag: s.groupSet.shift.Lag, Declared: s.groupSet.sets.Declared, Deadlines: s.groupSet.need.deadlines,
		Try: func(added []string, pods []linked.Placement) error { return s.try(ctx, infos, templates, added, pods) },
	}
	for _, option := range options {
		work.Options = append(work.Options, linked.Option{Group: option.NodeGroup.Id(), Pods: option.Pods})
		if template := templates[option.NodeGroup.Id()]; template != nil {
			work.Templates[option.NodeGroup.Id()] = templateOf(template)
		}
	}
	work.Members = s.members(ctx, options, best, templates)
	for _, info := range infos {
		work.Nodes = append(work.Nodes, templateOf(info))
	}
	for _, member := range work.Members {
		work.Templates[member.Id()] = templateOf(templates[member.Id()])
	}
	if s.groupSet.quotas != nil {
		work.Limits = func(sized []linked.Sized[ca.NodeGroup], more int64) (linked.Limits, error) {
			limits, err := s.groupSet.limits(ctx, sized, more)
			if most := ctx.MaxNodesPerScaleUp; most > 0 {
				limits.Room = min(limits.Room, int64(most))
			}
			return limits, err
		}
	}
	return work.Plan()
}

// members are the chosen group and those similar to it that may grow: those of which the autoscaler
// says so, and those that it leaves out for the moment because the spread rejects the next pod there.
func (s *spread) members(ctx *ca_context.AutoscalingContext, options []expander.Option, best *expander.Option,
	templates map[string]*framework.NodeInfo) []ca.NodeGroup {
	growing := map[string]bool{}
	for _, option := range options {
		growing[option.NodeGroup.Id()] = true
	}
	for _, similar := range best.SimilarNodeGroups {
		growing[similar.Id()] = true
	}
	members := []ca.NodeGroup{best.NodeGroup}
	for _, group := range s.groupSet.shift.Growing(s.groupSet.sets.Similar(best.NodeGroup.Id(), templates, cloudOf(ctx))) {
		if templates[group.Id()] != nil && group.Exist() && (growing[group.Id()] || s.safe(ctx, group)) {
			members = append(members, group)
		}
	}
	return members
}

// safe reports whether a group is healthy and not backed off.
func (s *spread) safe(ctx *ca_context.AutoscalingContext, group ca.NodeGroup) bool {
	return ctx.ClusterStateRegistry != nil && ctx.ClusterStateRegistry.NodeGroupScaleUpSafety(group, s.clock.Now()).SafeToScale
}

// try puts pods on nodes of the snapshot, and on new ones, as the plan says.
func (s *spread) try(ctx *ca_context.AutoscalingContext, infos []*framework.NodeInfo, templates map[string]*framework.NodeInfo,
	added []string, pods []linked.Placement) error {
	began := s.clock.Now()
	ctx.ClusterSnapshot.Fork()
	defer ctx.ClusterSnapshot.Revert()
	names := make([]string, 0, len(infos)+len(added))
	for _, info := range infos {
		names = append(names, info.Node().Name)
	}
	for i, group := range added {
		node, err := simulator.SanitizedNodeInfo(templates[group], fmt.Sprintf("planned-%d", i))
		if err != nil {
			return fmt.Errorf("new node of %s: %w", group, err)
		}
		if err := ctx.ClusterSnapshot.AddNodeInfo(node); err != nil {
			return fmt.Errorf("new node of %s: %w", group, err)
		}
		names = append(names, node.Node().Name)
	}
	for _, placement := range pods {
		if most := ctx.MaxNodeGroupBinpackingDuration; most > 0 && s.clock.Since(began) > most {
			return fmt.Errorf("the scheduler takes longer than --max-nodegroup-binpacking-duration=%s for %d pods", most.Round(time.Second),
				len(pods))
		}
		if err := ctx.ClusterSnapshot.SchedulePod(placement.Pod, names[placement.Node]); err != nil {
			return fmt.Errorf("the scheduler does not put pod %s/%s on %s: %w", placement.Pod.Namespace, placement.Pod.Name, names[placement.Node],
				err)
		}
	}
	return nil
}
