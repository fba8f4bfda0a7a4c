package scaleup

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/predicates"
)

// observer reads the world for one round.
type observer struct {
	*Scaler
	now     time.Time
	cluster Cluster
	// members are the nodes of each group, by name.
	members map[string][]predicates.Node
}

// Observe reads groups, sizes and templates, as every round does first. A group that
// can not be read carries its error; only a cloud that can not be read at all fails.
func (s *Scaler) Observe(ctx context.Context, now time.Time, cluster Cluster) (*World, error) {
	if err := s.provider.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("refresh the cloud: %w", err)
	}
	groups, err := s.provider.NodeGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("list node groups: %w", err)
	}
	o := &observer{Scaler: s, now: now, cluster: cluster, members: map[string][]predicates.Node{}}
	w := &World{Now: now, Pending: cluster.Pending, Groups: make([]Group, 0, len(groups))}
	if err := o.sortNodes(ctx, w); err != nil {
		return nil, err
	}
	o.Scaler.members = o.members
	for _, g := range groups {
		w.Groups = append(w.Groups, o.group(ctx, g))
	}
	slices.SortFunc(w.Groups, func(a, b Group) int { return strings.Compare(a.ID, b.ID) })
	if err := o.showClouds(ctx, w.Groups); err != nil {
		return nil, err
	}
	return w, completeTemplates(w.Groups, s.opts.Similarity, cluster)
}

// sortNodes finds the group of every node and leaves those out that are still
// starting.
func (o *observer) sortNodes(ctx context.Context, w *World) error {
	wereReady := o.everReady
	o.everReady = make(map[string]bool, len(o.cluster.Nodes))
	for _, n := range o.cluster.Nodes {
		group, _, err := o.provider.NodeGroupForNode(ctx, n.Node)
		if err != nil {
			return fmt.Errorf("find the node group of node %s: %w", n.Node.Name, err)
		}
		if IsReady(n.Node) || wereReady[n.Node.Name] {
			o.everReady[n.Node.Name] = true
		}
		if group != "" {
			o.members[group] = append(o.members[group], n)
			if o.isStarting(n.Node) {
				continue
			}
		}
		w.Nodes = append(w.Nodes, n)
		w.GroupOf = append(w.GroupOf, group)
	}
	return nil
}

// isStarting tells a node that was never ready from one that stopped being.
func (o *observer) isStarting(n *v1.Node) bool {
	return !IsReady(n) && !IsLeaving(n) && !o.everReady[n.Name] &&
		o.now.Before(n.CreationTimestamp.Add(o.opts.maxNodeProvisionTime()))
}

// IsReady tells whether the node says that it is ready.
func IsReady(n *v1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// IsLeaving tells whether the node is on its way out: deleted, or marked with
// ToBeDeletedTaint.
func IsLeaving(n *v1.Node) bool {
	return n.DeletionTimestamp != nil ||
		slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool { return t.Key == ToBeDeletedTaint })
}

// group reads one group; what fails stays with it.
func (o *observer) group(ctx context.Context, g cloudprovider.NodeGroup) Group {
	out := Group{ID: g.ID, Min: g.MinSize, Max: g.MaxSize}
	target, err := o.provider.TargetSize(ctx, g.ID)
	if err != nil {
		out.Err = fmt.Errorf("read the target size: %w", err)
		return out
	}
	out.Target = target
	leaving := 0
	for _, n := range o.members[g.ID] {
		switch {
		case IsLeaving(n.Node):
			leaving++
		case IsReady(n.Node):
			out.Ready++
		case o.isStarting(n.Node):
			out.NotStarted++
		default:
			out.Unready++
		}
	}
	out.Upcoming = max(0, out.Target-out.Ready-out.Unready)
	out.Upcoming = min(out.Upcoming, max(0, out.Target-out.Ready-out.Unready-leaving)+out.NotStarted)
	if until, reason, active := o.backoff.Active(g.ID, o.now); active {
		out.BackedOffUntil, out.BackoffReason = until, reason
	}
	options, err := cloudprovider.OptionsOrDefaults(ctx, o.provider, g.ID, cloudprovider.GroupOptions{})
	if err != nil {
		out.Err = fmt.Errorf("read the options: %w", err)
		return out
	}
	out.AllOrNothing = options.ZeroOrMaxNodeScaling
	if out.Template, out.TemplateFrom, err = o.template(ctx, g.ID); err != nil {
		out.Err = fmt.Errorf("no template: %w", err)
		return out
	}
	out.Zone = zoneOf(out.Template.Node)
	out.Price, out.HasPrice = o.price(ctx, out.Template.Node)
	return out
}

func zoneOf(n *v1.Node) string {
	if zone := n.Labels[v1.LabelTopologyZone]; zone != "" {
		return zone
	}
	return n.Labels[v1.LabelFailureDomainBetaZone]
}

// template prefers a real node of the group; without one it is the last seen
// of such nodes, without that the cloud's own with the daemon sets that would
// run on it.
func (o *observer) template(ctx context.Context, group string) (*cloudprovider.Template, string, error) {
	if n, found := o.sample(group); found {
		template := TemplateOfNode(group, n, o.opts.StartupTaints)
		o.checker.LikeNode(template.Node, n.Node)
		o.remembered[group] = template
		return template, "node " + n.Node.Name, nil
	}
	if template, seen := o.remembered[group]; seen {
		return template, "an earlier node", nil
	}
	cloud, err := o.provider.Template(ctx, group)
	if err != nil {
		return nil, "", err
	}
	if cloud.Node == nil {
		return nil, "", errors.New("the cloud's template has no node")
	}
	template := &cloudprovider.Template{Node: cleanNode(group, cloud.Node, o.opts.StartupTaints), Pods: cloud.Pods}
	daemons, err := o.daemons.on(o.cluster.DaemonSets, template)
	if err != nil {
		return nil, "", err
	}
	template.Pods = append(slices.Clip(template.Pods), daemons...)
	return template, fromCloud, nil
}

// sample picks the node that stands for the group: ready, schedulable, staying,
// the first by name.
func (o *observer) sample(group string) (predicates.Node, bool) {
	var best predicates.Node
	for _, n := range o.members[group] {
		if !IsReady(n.Node) || IsLeaving(n.Node) || n.Node.Spec.Unschedulable {
			continue
		}
		if best.Node == nil || n.Node.Name < best.Node.Name {
			best = n
		}
	}
	return best, best.Node != nil
}

// price of one node for an hour; strategies that need prices rank unknown ones
// last.
func (o *observer) price(ctx context.Context, node *v1.Node) (cloudprovider.Price, bool) {
	pricing, ok := o.provider.(cloudprovider.Pricing)
	if !ok {
		return 0, false
	}
	price, err := pricing.NodePrice(ctx, node, o.now, o.now.Add(time.Hour))
	return price, err == nil
}
