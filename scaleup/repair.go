package scaleup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Repair is what a round took back before it planned: instances that failed or
// that did not become nodes in time, and orders that brought no instance.
type Repair struct {
	Group  string `json:"group"`
	Nodes  int    `json:"nodes"`
	Reason string `json:"reason"`
	Err    error  `json:"-"`
}

// repair deletes instances that will not become nodes, so that the pods that
// wait for them are seen again, and backs their groups off.
func (s *Scaler) repair(ctx context.Context, w *World, cluster Cluster) []Repair {
	registered := make(map[string]bool, len(cluster.Nodes))
	for _, n := range cluster.Nodes {
		registered[n.Node.Spec.ProviderID] = true
	}
	pass := &inspection{Scaler: s, world: w, now: w.Now, registered: registered, awaited: map[string]time.Time{}, promised: map[*nodegroupset.Terms]int{}}
	var repairs []Repair
	for i := range w.Groups {
		if g := &w.Groups[i]; g.Err == nil {
			repairs = append(repairs, pass.group(ctx, g)...)
		}
	}
	for i := range pass.lateGroups {
		repairs = append(repairs, pass.giveUp(ctx, &pass.lateGroups[i])...)
	}
	s.awaited = pass.awaited
	return repairs
}

// inspection looks at the instances of all groups once.
type inspection struct {
	*Scaler
	world      *World
	now        time.Time
	registered map[string]bool
	awaited    map[string]time.Time // what is still awaited, since when
	lateGroups []lateGroup
	promised   map[*nodegroupset.Terms]int // nodes given up that others of the set are to have
}

func (p *inspection) group(ctx context.Context, g *Group) []Repair {
	instances, err := p.provider.Nodes(ctx, g.ID)
	if err != nil {
		return []Repair{{Group: g.ID, Reason: "list instances", Err: err}}
	}
	var repairs []Repair
	if reason, lost := p.lost(instances); len(lost) > 0 {
		r := Repair{Group: g.ID, Nodes: len(lost), Reason: reason}
		r.Err = p.provider.DeleteNodes(ctx, g.ID, lost)
		repairs = append(repairs, p.book(g, r))
	}
	if missing := p.missing(g, instances); missing > 0 {
		r := Repair{Group: g.ID, Nodes: missing, Reason: fmt.Sprintf("no instance within %s", p.opts.maxNodeProvisionTime())}
		r.Err = p.provider.DecreaseTargetSize(ctx, g.ID, -missing)
		repairs = append(repairs, p.book(g, r))
	}
	p.noteLate(g, instances)
	return repairs
}

// book notes what was taken back and backs the group off.
func (p *inspection) book(g *Group, r Repair) Repair {
	if r.Err == nil {
		g.Target -= r.Nodes
		g.NotStarted = min(g.NotStarted, max(0, g.Upcoming-r.Nodes))
		g.Upcoming = max(0, g.Upcoming-r.Nodes)
	}
	p.backoff.Failed(g.ID, r.Reason, p.now)
	g.BackedOffUntil, g.BackoffReason, _ = p.backoff.Active(g.ID, p.now)
	return r
}

// missing is how many ordered nodes have had no instance for too long.
func (p *inspection) missing(g *Group, instances []cloudprovider.Instance) int {
	there := present(instances)
	if g.Target <= there {
		return 0
	}
	if p.overdue(orderOf(g.ID)) {
		return g.Target - there
	}
	return 0
}

// present counts the instances that are there for the target size.
func present(instances []cloudprovider.Instance) int {
	there := 0
	for _, instance := range instances {
		if instance.State != cloudprovider.InstanceDeleting {
			there++
		}
	}
	return there
}

// orderOf is what a group's order is awaited under; instances go by their id.
func orderOf(group string) string { return "order of " + group }

// overdue reports whether something has been awaited for too long; if not, it is awaited further.
func (p *inspection) overdue(what string) bool {
	since, known := p.Scaler.awaited[what]
	if !known {
		since = p.now
	}
	if p.now.Sub(since) >= p.opts.maxNodeProvisionTime() {
		return true
	}
	p.awaited[what] = since
	return false
}

// lost picks the instances that failed or took too long, and the reason.
func (p *inspection) lost(instances []cloudprovider.Instance) (string, []*v1.Node) {
	var lost []*v1.Node
	var reasons []string
	give := func(id, kind, reason string) {
		lost = append(lost, cloudprovider.FakeNode(id, kind))
		if !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	for _, instance := range instances {
		switch {
		case instance.State == cloudprovider.InstanceDeleting || p.registered[instance.ID]:
		case instance.Error != nil:
			give(instance.ID, cloudprovider.FakeNodeCreateError, fmt.Sprintf("%s: %s", instance.Error.Code, instance.Error.Message))
		case p.overdue(instance.ID):
			give(instance.ID, cloudprovider.FakeNodeUnregistered, fmt.Sprintf("no node within %s", p.opts.maxNodeProvisionTime()))
		}
	}
	slices.Sort(reasons)
	return strings.Join(reasons, "; "), lost
}
