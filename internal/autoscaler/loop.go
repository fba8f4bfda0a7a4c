package autoscaler

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
)

// How old pods must be before the first of them starts a scale-up.
const podsAreNew = 2 * time.Second

// loop is one loop of Cluster Autoscaler. An error has ended it early.
func (a *Autoscaler) loop(now time.Time) error {
	nodes, readyNodes := a.listNodes()
	if err := a.remote.refresh(); err != nil {
		return fmt.Errorf("refresh: %w", err)
	}
	a.remote.NodeGroups()
	a.updateTemplates(nodes)
	if err := a.registry.update(nodes, now); err != nil {
		a.unneeded = map[string]time.Time{}
		return fmt.Errorf("cluster state: %w", err)
	}
	if a.records.on {
		a.records.survey(a, now)
	}
	a.removeOldUnregistered(now)
	if !a.registry.clusterHealthy() {
		a.unneeded = map[string]time.Time{}
		return fmt.Errorf("%d of %d nodes are unready: the cluster is unhealthy", a.registry.unready, a.registry.nodes)
	}
	a.deleteFailed()
	fixed, err := a.fixSizes(now)
	if err != nil || fixed {
		return err
	}

	s, err := a.snapshot(nodes, now)
	if err != nil {
		return worldError{err}
	}
	pods, err := a.unschedulable(s, now)
	if err != nil {
		return worldError{err}
	}
	a.scaleUpErr = nil
	if a.shouldScaleUp(pods, readyNodes, now) {
		scaled, err := a.scaleUpMode(s, pods, now)
		a.scaleUpErr = err
		switch {
		case isWorldError(err):
			return err
		case err == nil && scaled: // after another error the loop goes on
			a.lastScaleUp = now
			a.choices.reset()
		}
	}
	if a.options.Removal != nil {
		if err := a.removeUnneeded(s, now); err != nil {
			return worldError{err}
		}
	}
	if a.options.EnforceMinSize {
		return a.scaleUpToMin(s, now)
	}
	return nil
}

func isWorldError(err error) bool {
	_, ok := err.(worldError) //nolint:errorlint // returned as it is
	return ok
}

// listNodes has the nodes in the order of a cache, which is none, and asks for the GPU label for
// every ready one. Those that should have GPUs and have none yet count as not ready.
func (a *Autoscaler) listNodes() (nodes []predicates.Node, readyNodes int) {
	nodes = slices.Clone(a.world.Nodes())
	a.shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	for i, node := range nodes {
		if !template.IsHealthy(node.Node) || node.Node.Spec.Unschedulable {
			continue
		}
		a.remote.askGPULabel()
		_, labelled := node.Node.Labels[a.gpuLabel()]
		if _, gpus := template.GPUs(node.Node.Status.Allocatable); !labelled || gpus > 0 {
			readyNodes++
			continue
		}
		nodes[i].Node = notReady(node.Node)
	}
	return nodes, readyNodes
}

// removeOldUnregistered deletes instances that have not become nodes for too long, down to the
// minimum. An error ends it.
func (a *Autoscaler) removeOldUnregistered(now time.Time) {
	old := map[string][]*v1.Node{}
	for _, u := range a.registry.unregistered {
		id, err := a.remote.groupOf(u.node)
		if err != nil || id == "" {
			continue
		}
		limit, err := a.registry.provisionTime(id)
		if err != nil {
			return
		}
		if u.since.Add(limit).Before(now) {
			old[id] = append(old[id], u.node)
		}
	}
	for _, g := range a.groupsInAnyOrder() {
		nodes := old[g.ID]
		if len(nodes) == 0 {
			continue
		}
		size, err := a.remote.targetSize(g.ID)
		if err != nil {
			continue
		}
		nodes = nodes[:min(len(nodes), max(size-g.MinSize(), 0))]
		nodes, err = a.allOrNone(g, nodes)
		if err != nil || len(nodes) == 0 {
			continue
		}
		err = a.remote.deleteNodes(g.ID, nodes)
		a.records.repaired(g.ID, len(nodes), "they did not become nodes within the provision time", err)
		delete(a.registry.cached, g.ID)
		if err != nil {
			return
		}
	}
}

// groupsInAnyOrder is the list of groups as iterating over a map gives it.
func (a *Autoscaler) groupsInAnyOrder() []*group {
	groups := slices.Clone(a.remote.NodeGroups())
	a.shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
	return groups
}

// allOrNone makes the nodes to delete of a zero-or-max group all of its instances.
func (a *Autoscaler) allOrNone(g *group, nodes []*v1.Node) ([]*v1.Node, error) {
	if len(nodes) == 0 {
		return nil, nil
	}
	if all, err := a.remote.ZeroOrMax(g); err != nil || !all {
		return nodes, err
	}
	instances, err := a.remote.instances(g.ID)
	if err != nil {
		return nil, err
	}
	return fakeNodes(instances, ""), nil
}

// deleteFailed deletes the instances that could not be created, in every loop until they are gone.
func (a *Autoscaler) deleteFailed() {
	deleted := false
	for _, g := range a.groupsInAnyOrder() {
		failed := notCreated(a.registry.current[g.ID])
		nodes, err := a.allOrNone(g, fakeNodes(failed, cloudprovider.FakeNodeCreateError))
		if err != nil || len(nodes) == 0 {
			continue
		}
		err = a.remote.deleteNodes(g.ID, nodes)
		a.records.repaired(g.ID, len(nodes), fmt.Sprintf("their machines could not be created: %s: %s", failed[0].Error.Code,
			failed[0].Error.Message), err)
		if err == nil {
			deleted = true
			delete(a.registry.cached, g.ID)
		}
	}
	if deleted {
		a.registry.recalculate()
	}
}

// fixSizes lowers target sizes that have been above the number of nodes for too long. A size
// repaired ends the loop.
func (a *Autoscaler) fixSizes(now time.Time) (fixed bool, err error) {
	for _, g := range a.remote.NodeGroups() {
		w, ok := a.registry.wrong[g.ID]
		if !ok {
			continue
		}
		limit, err := a.registry.provisionTime(g.ID)
		if err != nil {
			return false, fmt.Errorf("fix sizes: %w", err)
		}
		if delta := w.registered - w.target; delta < 0 && w.since.Add(limit).Before(now) {
			err := a.remote.decrease(g.ID, delta)
			a.records.repaired(g.ID, -delta, "their machines were never created", err)
			if err != nil {
				return fixed, fmt.Errorf("fix sizes: %w", err)
			}
			fixed = true
		}
	}
	return fixed, nil
}

// view is the snapshot of a loop: what the simulation knows of the cluster.
type view struct {
	*snapshot
	nodes  []predicates.Node // upcoming ones are after the real ones
	real   int
	coming []string // groups of the upcoming ones
}

// snapshot puts nodes to come in the place of those registered that are not ready yet.
func (a *Autoscaler) snapshot(nodes []predicates.Node, now time.Time) (*view, error) {
	counts, registered := a.registry.upcomingNodes(now)
	v := &view{}
	for _, node := range nodes {
		if !registered[node.Node.Name] {
			v.nodes = append(v.nodes, node)
		}
	}
	v.real = len(v.nodes)
	for _, g := range a.groupsInAnyOrder() {
		t := a.templates[g.ID]
		for i := 0; t != nil && i < counts[g.ID]; i++ {
			v.nodes, v.coming = append(v.nodes, t.copied(fmt.Sprintf("-upcoming-%d", i))), append(v.coming, g.ID)
		}
	}
	v.snapshot = newSnapshot(a.options.Checker, v.nodes)
	if r, ok := a.world.(Requests); ok {
		return v, a.place(v, r.Booked(), nil)
	}
	return v, nil
}

// place puts pods into the view; left gets those that fit nowhere.
func (a *Autoscaler) place(v *view, pods []*v1.Pod, left *[]*v1.Pod) error {
	if len(pods) == 0 {
		return nil
	}
	at, err := v.snapshot.place(pods)
	if err != nil {
		return fmt.Errorf("simulation: %w", err)
	}
	for i, node := range at {
		switch {
		case node >= 0:
			a.records.placed(pods[i], node >= v.real)
		case left != nil:
			*left = append(*left, pods[i])
		}
	}
	return nil
}

// unschedulable are the pending pods, listed in no order, that fit on no node, real or to come, and
// are not brand-new. Pods that consume a ProvisioningRequest are nobody's business; those of the
// next request are added as they are, which CA does after it.
func (a *Autoscaler) unschedulable(v *view, now time.Time) ([]*v1.Pod, error) {
	var candidates, left []*v1.Pod
	for _, pod := range a.world.Pending() {
		if pod.Annotations[RequestAnnotation] == "" {
			candidates = append(candidates, pod)
		}
	}
	a.shuffle(len(candidates), func(i, j int) { candidates[i], candidates[j] = candidates[j], candidates[i] })
	if len(candidates) > maxMixed {
		a.groupKinds(candidates)
	}
	higher := func(p, q *v1.Pod) int {
		return cmp.Compare(ptr.Deref(q.Spec.Priority, 0), ptr.Deref(p.Spec.Priority, 0))
	}
	if !slices.IsSortedFunc(candidates, higher) {
		slices.SortStableFunc(candidates, higher)
	}
	if err := a.place(v, candidates, &left); err != nil {
		return nil, err
	}
	left, err := a.processors.unplaced(left, func(pods []*v1.Pod) ([]*v1.Pod, error) {
		var still []*v1.Pod
		err := a.place(v, pods, &still)
		return still, err
	})
	if err != nil {
		return nil, err
	}
	if r := a.nextRequest(now); r != nil {
		left = append(left, r.Pods...)
	}
	return slices.DeleteFunc(left, func(p *v1.Pod) bool { return !now.After(p.CreationTimestamp.Time) }), nil
}

// maxMixed is how many pods are tried in random order. More of them are tried kind by kind, which
// costs far less and matters little to how many find a place.
const maxMixed = 1000

// groupKinds puts equal pods next to each other.
func (a *Autoscaler) groupKinds(pods []*v1.Pod) {
	rank := map[int]int{0: 0}
	byRank := [][]*v1.Pod{nil}
	for _, pod := range pods {
		kind := a.kindOf(pod)
		at, ranked := rank[kind]
		if !ranked {
			at = len(byRank)
			rank[kind], byRank = at, append(byRank, nil)
		}
		byRank[at] = append(byRank[at], pod)
	}
	copy(pods, slices.Concat(byRank...))
}

func (a *Autoscaler) shouldScaleUp(pods []*v1.Pod, readyNodes int, now time.Time) bool {
	a.scaleDownDisabled = false
	if len(pods) == 0 {
		return false
	}
	oldest := slices.MinFunc(pods, func(p, q *v1.Pod) int { return p.CreationTimestamp.Compare(q.CreationTimestamp.Time) })
	switch {
	case slices.ContainsFunc(pods, func(p *v1.Pod) bool { return p.Annotations[RequestAnnotation] != "" }):
		return true // a request forces the scale-up
	case a.options.MaxNodesTotal > 0 && readyNodes >= a.options.MaxNodesTotal:
		a.records.noMore(pods, a.options.MaxNodesTotal)
		return false
	case oldest.CreationTimestamp.Add(podsAreNew).After(now):
		a.scaleDownDisabled = true
		return false
	}
	return true
}
