package autoscaler

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
)

// removeUnneeded decides which nodes go, and has the cloud delete them.
func (a *Autoscaler) removeUnneeded(v *view, now time.Time) error {
	options := *a.options.Removal
	options.Order, options.Select, options.GPULabel = a.processors.candidates(), a.processors.removable(), a.gpuLabel()
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
	down := &ScaleDown{Survey: a.records.world, Decision: decision}
	under := a.drains
	a.drains = nil
	for _, d := range under {
		if _, there := a.draining[d.Nodes[0]]; there {
			a.carryOut(d, down, now)
		}
	}
	for _, call := range removals(&decision) {
		for _, node := range call.Nodes {
			a.world.SetDeleting(node, true)
			a.draining[node] = call.Drain
		}
		a.carryOut(drain{Deletion: call, until: now.Add(options.EvictionTime())}, down, now)
	}
	a.downNext = decision.Next
	for _, d := range a.drains {
		if a.downNext.IsZero() || d.next.Before(a.downNext) {
			a.downNext = d.next
		}
	}
	if a.records.on {
		a.records.down = down
	}
	return nil
}

// removalWorld is what the decision is made from.
func (a *Autoscaler) removalWorld(v *view, now time.Time, options *removal.Options) *removal.World {
	w := &removal.World{Now: now, Pending: a.world.Pending(), Budgets: a.world.Budgets(), Floors: a.floors(v)}
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
	for _, g := range a.remote.NodeGroups() {
		out := removal.Group{ID: g.ID, Min: g.MinSize(), Settings: a.options.groupDefaults()}
		out.Target, out.Err = a.remote.targetSize(g.ID)
		out.Target -= a.undeleted(g.ID)
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

// undeleted is how many nodes of a group are on their way out that its target size still counts.
func (a *Autoscaler) undeleted(group string) (n int) {
	for i := range a.drains {
		if a.drains[i].Group == group {
			n++
		}
	}
	return n
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

// evictionRetry is how long it takes until an eviction that was refused is tried again.
const evictionRetry = 10 * time.Second

// drain is a deletion whose pods may have to be evicted first.
type drain struct {
	Deletion
	held        string    // why a pod is left
	next, until time.Time // when evictions are tried again, and given up
}

// carryOut evicts the pods of tainted nodes as far as budgets allow, and has the cloud delete the nodes
// once none is left.
func (a *Autoscaler) carryOut(d drain, down *ScaleDown, now time.Time) {
	if now.Before(d.next) {
		a.drains = append(a.drains, d)
		return
	}
	if d.Drain && (d.next.IsZero() || now.Before(d.until)) {
		d.held = a.world.Evict(d.Nodes[0])
	}
	if d.held != "" && now.Before(d.until) {
		if d.next = now.Add(evictionRetry); d.next.After(d.until) {
			d.next = d.until
		}
		a.drains = append(a.drains, d)
		down.Drains = append(down.Drains, Drain{Group: d.Group, Node: d.Nodes[0], Held: d.held})
		return
	}
	call := d.Deletion
	if call.Err = a.delete(&d, now); call.Err == nil {
		call.Shrank = len(call.Nodes)
	}
	down.Attempts = append(down.Attempts, call)
}

// delete deletes tainted nodes; a failure takes the taint back.
func (a *Autoscaler) delete(d *drain, now time.Time) error {
	var nodes []*v1.Node
	for _, n := range a.world.Nodes() {
		if slices.Contains(d.Nodes, n.Node.Name) {
			nodes = append(nodes, n.Node)
		}
	}
	err := fmt.Errorf("%s was not drained in time: %s", strings.Join(d.Nodes, ", "), d.held)
	if d.held == "" {
		err = a.remote.deleteNodes(d.Group, nodes)
		delete(a.registry.cached, d.Group)
	}
	for _, node := range d.Nodes {
		if err == nil {
			delete(a.unneeded, node)
			continue
		}
		a.world.SetDeleting(node, false)
		delete(a.draining, node)
	}
	if err != nil {
		a.lastDownFailure = now
		return err
	}
	a.registry.recalculate()
	return nil
}
