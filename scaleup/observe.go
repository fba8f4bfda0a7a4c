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
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
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
// cannot be read carries its error; only a cloud that cannot be read at all fails.
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
	o.showClouds(ctx, w.Groups)
	return w, s.completeTemplates(w.Groups, cluster)
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
		if template.IsReady(n.Node) || wereReady[n.Node.Name] {
			o.everReady[n.Node.Name] = true
		}
		if group != "" {
			o.trialEnds(group, n.Node, wereReady[n.Node.Name])
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

// isStarting reports whether a node has never been ready yet, and not for too long.
func (o *observer) isStarting(n *v1.Node) bool {
	return !template.IsReady(n) && !template.IsLeaving(n) && !o.everReady[n.Name] &&
		o.now.Before(n.CreationTimestamp.Add(o.opts.maxNodeProvisionTime()))
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
		case template.IsLeaving(n.Node):
			leaving++
		case template.IsReady(n.Node):
			out.Ready++
		case o.isStarting(n.Node):
			out.NotStarted++
		default:
			out.Unready++
		}
	}
	out.Upcoming = max(0, out.Target-out.Ready-out.Unready)
	out.Upcoming = min(out.Upcoming, max(0, out.Target-out.Ready-out.Unready-leaving)+out.NotStarted)
	before := o.ordered[g.ID]
	o.ordered[g.ID] = before.Last(out.Upcoming)
	if terms := o.terms[g.ID]; terms != nil && before.Nodes() > out.Upcoming {
		o.slow[g.ID] = before.Until(o.now.Add(-terms.Patience(o.opts.maxNodeProvisionTime()))) > 0
	}
	out.Orders, out.StartupTime = o.ordered[g.ID], o.opts.StartupTimes[g.ID]
	if o.opts.NodeNames != nil {
		out.NodeName = o.opts.NodeNames(g.ID, out.Upcoming)
	}
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
	out.Zone = nodegroupset.ZoneOf(out.Template.Node)
	out.Price, out.HasPrice = o.price(ctx, out.Template.Node)
	return out
}

// template is made from a real node of the group. Without one it is the last that was, without that
// the cloud's own with the daemon sets that would run on it.
func (o *observer) template(ctx context.Context, group string) (*cloudprovider.Template, string, error) {
	if n, found := o.sample(group); found {
		t := template.OfNode(group, n.Node, n.Pods, o.opts.StartupTaints)
		o.checker.LikeNode(t.Node, n.Node)
		o.memory.Keep(group, t)
		return t, "node " + n.Node.Name, nil
	}
	if t, seen := o.memory.Template(group); seen {
		return t, "an earlier node", nil
	}
	cloud, err := o.provider.Template(ctx, group)
	if err != nil {
		return nil, "", err
	}
	if cloud.Node == nil {
		return nil, "", errors.New("the cloud's template has no node")
	}
	return template.OfCloud(group, cloud, o.cluster.DaemonSets, o.opts.StartupTaints), fromCloud, nil
}

// fromCloud is where the template of a group is from that has never had a node.
const fromCloud = "cloud"

// sample is the node that stands for the group.
func (o *observer) sample(group string) (predicates.Node, bool) {
	members := o.members[group]
	if len(members) == 0 {
		return predicates.Node{}, false
	}
	best := slices.MinFunc(members, func(a, b predicates.Node) int { return template.Compare(a.Node, b.Node) })
	return best, template.IsUsable(best.Node)
}

// showClouds puts on every template the providerID that has shown the cloud of its group: now or in
// any earlier round, on any of its nodes or, asked once only, in the cloud's own template.
func (o *observer) showClouds(ctx context.Context, groups []Group) {
	templates := map[string]cloudprovider.Template{}
	for i := range groups {
		g := &groups[i]
		if g.Template == nil {
			continue
		}
		templates[g.ID] = *g.Template
		if o.memory.NamesCloud(g.ID, g.Template.Node) || o.memory.NamesCloud(g.ID, nodesOf(o.members[g.ID])...) ||
			o.askedCloud[g.ID] || g.TemplateFrom == fromCloud {
			continue
		}
		o.askedCloud[g.ID] = true
		if t, err := o.provider.Template(ctx, g.ID); err == nil && t.Node != nil {
			o.memory.NamesCloud(g.ID, t.Node)
		}
	}
	o.memory.ShareCloud(templates)
	for i := range groups {
		if t, ok := templates[groups[i].ID]; ok {
			groups[i].Template = &t
		}
	}
}

func nodesOf(members []predicates.Node) []*v1.Node {
	nodes := make([]*v1.Node, len(members))
	for i, n := range members {
		nodes[i] = n.Node
	}
	return nodes
}

// completeTemplates fills in what the cloud does not say of groups that have never had a node.
func (s *Scaler) completeTemplates(groups []Group, cluster Cluster) error {
	templates, empty := map[string]cloudprovider.Template{}, map[string]bool{}
	for i := range groups {
		if g := &groups[i]; g.Template != nil {
			templates[g.ID], empty[g.ID] = *g.Template, g.TemplateFrom == fromCloud
		}
	}
	completions, err := template.Complete(templates, empty, s.opts.Similarity, cluster.podSpecs())
	for i := range groups {
		g := &groups[i]
		switch c := completions[g.ID]; {
		case c.Err != nil:
			g.Err = c.Err
		case c.Note != "":
			g.TemplateFrom += ", " + c.Note
			if c.Template != nil {
				g.Template = c.Template
			}
		}
	}
	return err
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
