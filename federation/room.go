package federation

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/replica"
)

// Node is a ready, schedulable node of a cluster whose room is known.
type Node struct {
	// Object has name, labels and taints. It is not changed.
	Object *v1.Node
	// Allocatable is what it has for pods, and Free what the pods on it leave, which may be negative.
	Allocatable, Free podfit.Resources
}

// Room is what a cluster has left, where that is known: its nodes, and how many pods of each
// object have one. Both must have been observed at the same time.
type Room struct {
	// Nodes by name.
	Nodes []Node
	Bound map[string]int32 // the pods with a node that are not about to end, by namespace/name of their object
	// Created are the pods that exist, by namespace/name of their object. Nil means that they are not known.
	Created map[string]int32
}

// A shape is what matters of the pods of an object for where they fit.
type shape struct {
	requests podfit.Resources
	rules    podfit.Rules
}

func shapeOf(t *v1alpha1.PodTemplate) (*shape, error) {
	pod := &v1.Pod{}
	if err := json.Unmarshal(t.Spec.Raw, &pod.Spec); err != nil {
		return nil, fmt.Errorf("spec.template.spec: %w", err)
	}
	return &shape{podfit.Requests(pod), podfit.RulesOf(pod)}, nil
}

// count is how many such pods nodes have room for, of what is free on each.
func (s *shape) count(nodes []Node, free []podfit.Resources) (sum int64) {
	for i := range nodes {
		if n := free[i].Takes(s.requests); n > 0 && s.rules.Admit(nodes[i].Object) {
			sum += n
		}
	}
	return sum
}

// place gives up to n such pods to nodes, one after the other to the node that is the emptiest then, as
// schedulers do by default, and takes what they need from what is free. It returns how many each
// node gets.
func (s *shape) place(n int64, nodes []Node, free []podfit.Resources) map[string]int64 {
	emptiest := func(a, b int) int {
		return cmp.Or(cmp.Compare(nodes[b].unused(free[b]), nodes[a].unused(free[a])), cmp.Compare(a, b))
	}
	var order []int
	for i := range nodes {
		if n > 0 && free[i].Takes(s.requests) > 0 && s.rules.Admit(nodes[i].Object) {
			order = append(order, i)
		}
	}
	slices.SortFunc(order, emptiest)
	out := map[string]int64{}
	for ; n > 0 && len(order) > 0; n-- {
		first := order[0]
		out[nodes[first].Object.Name]++
		free[first].Add(-1, s.requests)
		order = slices.Delete(order, 0, 1)
		if free[first].Takes(s.requests) > 0 {
			at, _ := slices.BinarySearchFunc(order, first, emptiest)
			order = slices.Insert(order, at, first)
		}
	}
	return out
}

// unused is the part of cores and memory that is free, twice.
func (n *Node) unused(free podfit.Resources) (sum float64) {
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		if n.Allocatable[name] > 0 {
			sum += float64(free[name]) / float64(n.Allocatable[name])
		}
	}
	return sum
}

// Ledger knows what decisions have used up of the clusters' room before their pods show it. Without
// it, many objects that are scaled at the same time would all choose the same room. It is not safe
// for use by several goroutines.
type Ledger struct {
	assumed map[string]map[string]*assumption // by cluster and object
}

// assumption is what an object was given in a cluster: pods that have no node yet will get one.
type assumption struct {
	shape *shape
	// given is how many pods the object is to have, and bound how many of them had a node when that
	// was decided.
	given, bound int32
	until        time.Time // when pods count no more that have no node yet
	// created is how many pods there were, and creating when pods count no more that do not exist: a quota of the
	// cluster may keep them from being created for as long as the object says that its pods take to start.
	created  int32
	creating time.Time
	// places are how many of the pods that have no node yet are assumed to go to which node, and placed is how
	// many of them have been given a place, if there was one.
	places map[string]int64
	placed int64
}

// Recall records what an object was given before the program started, as its status says.
func (l *Ledger) Recall(key string, spec *v1alpha1.FederatedReplicaSetSpec, status *v1alpha1.FederatedReplicaSetStatus, now time.Time) {
	s, err := shapeOf(&spec.Template)
	if err != nil {
		return // there are no such pods
	}
	_, act := Timeouts(spec)
	for _, c := range status.Clusters {
		l.assume(c.Name, key, &assumption{shape: s, given: c.Written - c.Pending, until: now.Add(act), creating: now.Add(creation)})
	}
}

// Decide is [Decide] where the room of some clusters is known, by their names. What other objects
// were given a moment ago is taken away from it, and what this decision gives is remembered until
// its pods have nodes, but not for longer than they have time to start.
func (l *Ledger) Decide(in Input, rooms map[string]Room) (Decision, error) {
	s, err := shapeOf(&in.Spec.Template)
	if err != nil { // the clusters refuse such pods
		l.Forget(in.Key)
		return Decide(in)
	}
	clusters := slices.Clone(in.Clusters)
	for i := range clusters {
		if room, known := rooms[clusters[i].Name]; known {
			fitting := s.count(room.Nodes, l.left(&room, clusters[i].Name, in.Key, in.Now))
			clusters[i].Room = new(replica.Clip(int64(room.Bound[in.Key]) + fitting))
		}
	}
	in.Clusters = clusters
	d, err := Decide(in)
	if err != nil {
		return d, err
	}
	l.remember(in, s, d.Status.Clusters, rooms)
	return d, nil
}

// remember records what a decision gives. An object keeps what it was given in clusters that are
// out of reach.
func (l *Ledger) remember(in Input, s *shape, given []v1alpha1.FederatedClusterStatus, rooms map[string]Room) {
	_, act := Timeouts(&in.Spec)
	keep := map[string]bool{}
	for _, c := range given {
		room, known := rooms[c.Name]
		keep[c.Name] = known || !c.Reachable
		if known {
			l.assume(c.Name, in.Key, &assumption{shape: s, given: c.Written - c.Pending, bound: room.Bound[in.Key], until: in.Now.Add(act),
				created: room.Created[in.Key], creating: in.Now.Add(creation)})
		}
	}
	for cluster, objects := range l.assumed {
		if !keep[cluster] {
			delete(objects, in.Key)
		}
	}
}

// creation is how long the pods of an object take to be created, if nothing keeps them from it.
const creation = time.Minute

// assume replaces an assumption. Deciding the same again does not prolong it, and asking for another number does not
// either, as far as pods are meant that nothing creates.
func (l *Ledger) assume(cluster, key string, a *assumption) {
	if a.given <= a.bound {
		delete(l.assumed[cluster], key)
		return
	}
	if l.assumed == nil {
		l.assumed = map[string]map[string]*assumption{}
	}
	if l.assumed[cluster] == nil {
		l.assumed[cluster] = map[string]*assumption{}
	}
	if before := l.assumed[cluster][key]; before != nil {
		if before.given == a.given && before.bound == a.bound {
			a.until = before.until
		}
		if a.created <= before.created {
			a.creating = before.creating
		}
	}
	l.assumed[cluster][key] = a
}

// Forget drops what is assumed about an object, which may have been deleted.
func (l *Ledger) Forget(key string) {
	for _, objects := range l.assumed {
		delete(objects, key)
	}
}

// left is what other objects leave of what is free on each node.
func (l *Ledger) left(room *Room, cluster, key string, now time.Time) []podfit.Resources {
	free := make([]podfit.Resources, len(room.Nodes))
	index := make(map[string]int, len(room.Nodes))
	for i, n := range room.Nodes {
		free[i], index[n.Object.Name] = maps.Clone(n.Free), i
	}
	var unplaced []*assumption
	for _, other := range slices.Sorted(maps.Keys(l.assumed[cluster])) {
		a := l.assumed[cluster][other]
		starting := a.starting(room, other, now)
		if other == key || starting == 0 {
			continue
		}
		if starting != a.placed || !a.fits(index, free) { // pods have gone elsewhere than assumed
			a.placed = starting
			unplaced = append(unplaced, a)
			continue
		}
		for node, pods := range a.places {
			free[index[node]].Add(-pods, a.shape.requests)
		}
	}
	for _, a := range unplaced {
		a.places = a.shape.place(a.placed, room.Nodes, free)
	}
	return free
}

// fits reports whether there is still room where the pods are assumed to go.
func (a *assumption) fits(index map[string]int, free []podfit.Resources) bool {
	for node, pods := range a.places {
		if i, there := index[node]; !there || free[i].Takes(a.shape.requests) < pods {
			return false
		}
	}
	return true
}

// starting is how many pods of an object have no node yet, and are expected to get one.
func (a *assumption) starting(room *Room, key string, now time.Time) int64 {
	given := a.given
	if room.Created != nil && !now.Before(a.creating) {
		given = min(given, room.Created[key])
	}
	if !now.Before(a.until) {
		return 0
	}
	return int64(max(0, given-room.Bound[key]))
}
