package schedule

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// Group is a node group of an autoscaler.
type Group struct {
	ID string
	// Target is the number of nodes that it should have, Max how many it may have.
	Target, Max int
	// Instances are the provider IDs of its machines that have not failed.
	Instances []string
	// Template is what a new node looks like; nil if the cloud does not say.
	Template *cloudprovider.Template
}

// maxUpcoming bounds the nodes of a group that are taken to be on their way.
const maxUpcoming = 100

// ReadGroups reads the node groups of a cloud.
func ReadGroups(ctx context.Context, cloud cloudprovider.Provider) ([]Group, error) {
	if err := cloud.Refresh(ctx); err != nil {
		return nil, fmt.Errorf("refreshing the cloud: %w", err)
	}
	all, err := cloud.NodeGroups(ctx)
	if err != nil {
		return nil, fmt.Errorf("node groups: %w", err)
	}
	groups := make([]Group, len(all))
	for i := range all {
		g := &groups[i]
		g.ID, g.Max = all[i].ID, all[i].MaxSize
		if g.Target, err = cloud.TargetSize(ctx, g.ID); err != nil {
			return nil, fmt.Errorf("target size of node group %s: %w", g.ID, err)
		}
		instances, err := cloud.Nodes(ctx, g.ID)
		if err != nil {
			return nil, fmt.Errorf("instances of node group %s: %w", g.ID, err)
		}
		for _, instance := range instances {
			if instance.Error == nil && instance.State != cloudprovider.InstanceDeleting {
				g.Instances = append(g.Instances, instance.ID)
			}
		}
		t, err := cloud.Template(ctx, g.ID)
		switch {
		case err == nil:
			g.Template = &t
		case !errors.Is(err, cloudprovider.ErrNotImplemented):
			return nil, fmt.Errorf("template of node group %s: %w", g.ID, err)
		}
	}
	return groups, nil
}

// groups are what is known of an autoscaler.
type groups struct {
	w       *world
	known   []*group
	read    bool // from a cloud
	status  *provisioning.Status
	changed bool      // nodes have come or gone, or groups have changed
	next    time.Time // when to look at the nodes again
}

// group is a node group with what follows for it from the nodes.
type group struct {
	Group
	like     *cloudprovider.Template // what a new node looks like; nil if that is not known
	upcoming int
	since    time.Time // of the number of upcoming nodes
}

func (g *groups) set(all []Group) {
	before := map[string]*group{}
	for _, one := range g.known {
		before[one.ID] = one
	}
	g.known, g.read, g.changed, g.next = nil, true, true, time.Time{}
	for i := range all {
		one := &group{Group: all[i]}
		if old := before[one.ID]; old != nil {
			one.upcoming, one.since = old.upcoming, old.since
			delete(before, one.ID)
		}
		g.known = append(g.known, one)
	}
	for _, gone := range before {
		g.order(gone, 0)
	}
	slices.SortFunc(g.known, func(a, b *group) int { return cmp.Compare(a.ID, b.ID) })
}

// settle works out which nodes are on their way, once a second at most.
func (g *groups) settle() {
	now := g.w.o.Clock.Now()
	if !g.changed || !g.read || now.Before(g.next) {
		return
	}
	g.changed, g.next = false, now.Add(time.Second)
	owner := map[string]*group{}
	for _, one := range g.known {
		for _, id := range one.Instances {
			owner[id] = one
		}
	}
	there, sample := map[*group]int{}, map[*group]*host{}
	for _, name := range slices.Sorted(maps.Keys(g.w.nodes)) {
		h := g.w.nodes[name]
		if h.node == nil {
			continue
		}
		if one := owner[h.node.Spec.ProviderID]; one != nil {
			there[one]++
			if sample[one] == nil && wasReady(h.node) {
				sample[one] = h
			}
		}
	}
	for _, one := range g.known {
		one.like = nil
		switch h := sample[one]; {
		case h != nil:
			one.like = template.OfNode(one.ID, h.node, h.on(nil), g.w.o.StartupTaints)
		case one.Template != nil && one.Template.Node != nil:
			one.like = template.OfCloud(one.ID, *one.Template, nil, g.w.o.StartupTaints)
		}
		upcoming := min(max(0, one.Target-there[one]), maxUpcoming)
		if one.like == nil || g.pauses(one.ID) {
			upcoming = 0
		}
		g.order(one, upcoming)
	}
}

// order makes so many nodes of a group come, which are given up if none comes in time.
func (g *groups) order(one *group, upcoming int) {
	now := g.w.o.Clock.Now()
	if upcoming != one.upcoming {
		one.since = now
	}
	before := one.upcoming
	one.upcoming = upcoming
	if upcoming > 0 && now.Sub(one.since) >= g.w.o.ProvisionTime {
		upcoming = 0
	}
	for i := range max(before, upcoming) {
		name := fmt.Sprintf("%s~%d", one.ID, i)
		h := g.w.nodes[name]
		if i >= upcoming {
			if h != nil {
				g.w.deleteNode(name)
			}
			continue
		}
		n := copyOf(one.like, name)
		h = g.w.host(name)
		h.until = one.since.Add(g.w.o.ProvisionTime)
		if h.shown == nil || !alike(h.shown, n.Node) {
			g.w.unseat(name)
			h = g.w.host(name)
			h.shown, h.daemons = n.Node, n.Pods
			g.w.dirty[name] = true
		}
	}
}

func copyOf(t *cloudprovider.Template, name string) predicates.Node {
	n := t.Node.DeepCopy()
	n.Name = name
	n.Labels[v1.LabelHostname] = name
	return predicates.Node{Node: n, Pods: t.Pods}
}

// pauses reports whether the autoscaler does not let a group grow for now.
func (g *groups) pauses(id string) bool { return g.fresh() && g.status.Groups[id].Paused }

func (g *groups) fresh() bool {
	return g.status != nil && g.w.o.Clock.Since(g.status.Time) < provisioning.Fresh
}

// bring says whether an autoscaler can bring a node for a pod that finds none.
func (g *groups) bring(p *v1.Pod, stop func() bool) (workloadspread.Room, error) {
	switch {
	case g.w.o.Autoscaler == AutoscalerNever:
		return workloadspread.RoomNone, nil
	case !g.read:
		return g.unread(), nil
	}
	answer := workloadspread.RoomNone
	for _, one := range g.known {
		switch {
		case one.Target >= one.Max || g.pauses(one.ID):
		case one.like == nil:
			answer = workloadspread.RoomUnknown // it may be the one
		default:
			takes, err := g.w.live.FindOn(copyOf(one.like, one.ID+"~new"), p, stop)
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

// unread is the answer if no node group is known: which nodes an autoscaler could bring is not known
// then, so it may bring any unless it says that no group can grow.
func (g *groups) unread() workloadspread.Room {
	switch {
	case g.w.o.Autoscaler == AutoscalerAlways, len(g.w.karpenter) > 0:
		return workloadspread.RoomByAutoscaler
	case !g.fresh():
		return workloadspread.RoomNone
	}
	for _, one := range g.status.Groups {
		if !one.Paused && !one.Full {
			return workloadspread.RoomByAutoscaler
		}
	}
	return workloadspread.RoomNone
}

// byKarpenter reports whether Karpenter has made a node.
func byKarpenter(n *v1.Node) bool {
	for key := range n.Labels {
		if strings.HasPrefix(key, "karpenter.sh/") {
			return true
		}
	}
	return false
}
