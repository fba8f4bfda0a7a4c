package autoscaler

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
)

// removeUnneeded decides which nodes go, and has the cloud delete them.
func (a *Autoscaler) removeUnneeded(v *view, now time.Time) error {
	options := *a.options.Removal
	options.Order, options.Select = a.processors.candidates(), a.processors.removable()
	w := a.removalWorld(v, now, &options)
	decision, err := a.known.Plan(w, a.options.Checker, options)
	if err != nil {
		return err
	}
	clear(a.unneeded)
	for i := range decision.Nodes {
		if o := &decision.Nodes[i]; o.Outcome.Unneeded() {
			a.unneeded[o.Node] = o.UnneededSince
		}
	}
	a.downNext = decision.Next
	down := &ScaleDown{Survey: a.records.world, Decision: decision}
	for _, call := range removals(&decision) {
		if call.Err = a.delete(call, now); call.Err == nil {
			call.Shrank = len(call.Nodes)
		}
		down.Attempts = append(down.Attempts, call)
	}
	if a.records.on {
		a.records.down = down
	}
	return nil
}

// removalWorld is what the decision is made from.
func (a *Autoscaler) removalWorld(v *view, now time.Time, options *removal.Options) *removal.World {
	w := &removal.World{Now: now, Pending: a.world.Pending()}
	cool := func(since time.Time, delay time.Duration, why string) {
		if until := since.Add(delay); !since.IsZero() && until.After(now) && until.After(w.CoolingUntil) {
			w.CoolingUntil, w.Cooling = until, why
		}
	}
	cool(a.lastScaleUp, options.CoolDown(), "the cluster has grown")
	cool(a.lastDownFailure, removal.DefaultDelayAfterFailure, "a deletion failed")
	if a.scaleDownDisabled {
		cool(now, a.options.ScanInterval, "pods have just come")
	}
	for _, g := range a.remote.nodeGroups() {
		out := removal.Group{ID: g.ID, Min: g.MinSize, Settings: a.options.groupDefaults()}
		out.Target, out.Err = a.remote.targetSize(g.ID)
		own, err := a.remote.groupOptions(g.ID)
		switch {
		case err != nil && out.Err == nil:
			out.Err = err
		case own != nil:
			out.Settings, out.AllOrNothing = *own, own.ZeroOrMaxNodeScaling
		}
		w.Groups = append(w.Groups, out)
	}
	slices.SortFunc(w.Groups, func(g, h removal.Group) int { return strings.Compare(g.ID, h.ID) })
	here := map[string]bool{}
	for _, n := range v.nodes[:v.real] {
		group, _ := a.remote.groupOf(n.Node) // one that is not known is of no group
		draining, leaving := a.draining[n.Node.Name]
		here[n.Node.Name] = true
		w.Nodes = append(w.Nodes, removal.Node{
			Node: n, Group: group, Leaving: leaving || deleting(n.Node), Draining: draining, UnneededSince: a.unneeded[n.Node.Name],
		})
	}
	for name := range a.draining {
		if !here[name] {
			delete(a.draining, name)
		}
	}
	return w
}

// removals are the calls of a decision: a group's empty nodes together, every other node by itself.
func removals(d *removal.Decision) []Deletion {
	var calls []Deletion
	empty := map[string]int{}
	for _, at := range d.Go {
		o := &d.Nodes[at]
		if call, known := empty[o.Group]; known && !o.Drain {
			calls[call].Nodes = append(calls[call].Nodes, o.Node)
			continue
		}
		if !o.Drain {
			empty[o.Group] = len(calls)
		}
		calls = append(calls, Deletion{Group: o.Group, Nodes: []string{o.Node}, Drain: o.Drain})
	}
	return calls
}

// delete taints nodes, which moves their pods, and deletes them; a failure takes the taint back.
func (a *Autoscaler) delete(call Deletion, now time.Time) error {
	var nodes []*v1.Node
	for _, n := range a.world.Nodes() {
		if slices.Contains(call.Nodes, n.Node.Name) {
			nodes = append(nodes, n.Node)
		}
	}
	for _, node := range nodes {
		a.world.SetDeleting(node.Name, true)
	}
	err := a.remote.deleteNodes(call.Group, nodes, "unneeded")
	for _, node := range nodes {
		if err != nil {
			a.world.SetDeleting(node.Name, false)
			continue
		}
		delete(a.unneeded, node.Name)
		a.draining[node.Name] = call.Drain
	}
	delete(a.registry.cached, call.Group)
	if err != nil {
		a.lastDownFailure = now
		return err
	}
	a.lastScaleDown = now
	a.registry.recalculate()
	return nil
}
