package schedule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// group is a node group of an autoscaler.
type group struct {
	id          string
	target, max int                    // the number of nodes that it should have, and may have
	instances   []string               // provider IDs of its machines that have not failed
	template    cloudprovider.Template // of a new node; without one if the cloud does not say
	// like is a new node, if it is known what one looks like.
	like     *predicates.Node
	upcoming int
	since    time.Time // of the number of upcoming nodes
}

// maxUpcoming bounds the nodes of a group that are taken to be on their way.
const maxUpcoming = 100

// readGroups reads the node groups of a cloud.
func readGroups(ctx context.Context, cloud cloudprovider.Provider) ([]*group, error) {
	if err := cloud.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("refreshing the cloud: %w", err)
	}
	all, err := cloud.NodeGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("node groups: %w", err)
	}
	groups := make([]*group, len(all))
	for i := range all {
		g := &group{id: all[i].ID, max: all[i].MaxSize}
		if err := g.read(ctx, cloud); err != nil {
			return nil, fmt.Errorf("node group %s: %w", g.id, err)
		}
		groups[i] = g
	}
	return groups, nil
}

func (g *group) read(ctx context.Context, cloud cloudprovider.Provider) (err error) {
	if g.target, err = cloud.TargetSize(ctx, g.id); err != nil {
		return fmt.Errorf("target size: %w", err)
	}
	instances, err := cloud.Nodes(ctx, g.id)
	if err != nil {
		return fmt.Errorf("instances: %w", err)
	}
	for _, instance := range instances {
		if instance.Error == nil && instance.State != cloudprovider.InstanceDeleting {
			g.instances = append(g.instances, instance.ID)
		}
	}
	if g.template, err = cloud.Template(ctx, g.id); err != nil && !errors.Is(err, cloudprovider.ErrNotImplemented) {
		return fmt.Errorf("template: %w", err)
	}
	return nil
}

// autoscaler is what is known of one.
type autoscaler struct {
	groups    []*group // nil if no cloud was read
	recount   bool     // nodes have come or gone, or groups have changed
	status    *provisioning.Status
	karpenter bool // has made some of the nodes
}

func (c *cluster) setGroups(all []*group) {
	for _, g := range all {
		if i := slices.IndexFunc(c.groups, func(o *group) bool { return o.id == g.id }); i >= 0 {
			g.upcoming, g.since = c.groups[i].upcoming, c.groups[i].since
		}
	}
	c.groups, c.recount, c.next = all, true, time.Time{}
}

// order works out what a new node of each group looks like, and which nodes are on their way. They are given
// up if none comes in time.
func (c *cluster) order() {
	now, owner := c.o.Clock.Now(), map[string]*group{}
	for _, g := range c.groups {
		for _, id := range g.instances {
			owner[id] = g
		}
	}
	there, sample := map[*group]int{}, map[*group]*v1.Node{}
	for _, n := range c.nodes {
		if n.object == nil {
			continue
		}
		if g := owner[n.object.Spec.ProviderID]; g != nil {
			there[g]++
			if wasReady(n.object) && (sample[g] == nil || template.Compare(n.object, sample[g]) < 0) {
				sample[g] = n.object
			}
		}
	}
	comes := map[string]bool{}
	for _, g := range c.groups {
		g.like = c.likeOf(g, sample[g])
		upcoming := min(max(0, g.target-there[g]), maxUpcoming)
		if g.like == nil || c.pauses(g.id) {
			upcoming = 0
		}
		if upcoming != g.upcoming {
			g.upcoming, g.since = upcoming, now
		}
		end := g.since.Add(c.o.ProvisionTime)
		for i := range upcoming {
			if now.Before(end) {
				n := named(*g.like, fmt.Sprintf("%s~%d", g.id, i))
				comes[n.Node.Name] = true
				if c.put(&nodeInfo{ready: n.Node, until: end}) {
					_ = c.live.Set(n) // neither it nor a pod of it is nil
				}
			}
		}
	}
	for name, n := range c.nodes {
		if n.object == nil && !comes[name] {
			c.removeNode(name)
			c.live.Remove(name) // with the pods that it would have come with
		}
	}
	c.recount = false
}

// likeOf is a new node of a group by one of its nodes, or else by what the cloud says; nil if neither is known.
func (c *cluster) likeOf(g *group, sample *v1.Node) *predicates.Node {
	var t *cloudprovider.Template
	switch {
	case sample != nil:
		t = template.OfNode(g.id, sample, c.live.Node(sample.Name).Pods, c.o.StartupTaints)
	case g.template.Node != nil:
		t = template.OfCloud(g.id, g.template, nil, c.o.StartupTaints)
	default:
		return nil
	}
	n := named(predicates.Node(*t), g.id+"~new")
	return &n
}

// named is a copy of a node with another name.
func named(n predicates.Node, name string) predicates.Node {
	n.Node = n.Node.DeepCopy()
	n.Node.Name, n.Node.Labels[v1.LabelHostname] = name, name
	return n
}

// fresh reports whether the status of Cluster Autoscaler is of now.
func (c *cluster) fresh() bool {
	return c.status != nil && c.o.Clock.Since(c.status.Time) < provisioning.Fresh
}

// pauses reports whether the autoscaler does not let a group grow for now.
func (c *cluster) pauses(id string) bool { return c.fresh() && c.status.Groups[id].Paused }

// bring says whether an autoscaler can bring a node for a pod that finds none.
func (c *cluster) bring(p *v1.Pod, stop func() bool) (workloadspread.Room, error) {
	switch {
	case c.o.Autoscaler == AutoscalerNever:
		return workloadspread.RoomNone, nil
	case c.groups == nil && c.bringsAny():
		return workloadspread.RoomByAutoscaler, nil
	}
	answer := workloadspread.RoomNone
	for _, g := range c.groups {
		switch {
		case g.target >= g.max || c.pauses(g.id):
		case g.like == nil:
			answer = workloadspread.RoomUnknown // it may be the one
		default:
			takes, err := c.live.FindOn(*g.like, p, stop)
			if err != nil {
				return workloadspread.RoomUnknown, err
			}
			if takes {
				return workloadspread.RoomByAutoscaler, nil
			}
		}
	}
	return answer, nil
}

// bringsAny reports whether there is an autoscaler of which no node group is known: which nodes it could
// bring is not known then, so it may bring any unless it says that no group can grow.
func (c *cluster) bringsAny() bool {
	if c.o.Autoscaler == AutoscalerAlways || c.karpenter {
		return true
	}
	if c.fresh() {
		for _, g := range c.status.Groups {
			if !g.Paused && !g.Full {
				return true
			}
		}
	}
	return false
}
