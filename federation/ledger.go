package federation

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/evenkeel/evenkeel/replica"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

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
	// until is when pods count no more that have no node yet.
	until time.Time
	// places are where the pods that have no node yet are assumed to go, and settled is how many
	// have been given a place, if there was one.
	places  []onNode
	settled int64
}

// onNode is a number of pods on a node.
type onNode struct {
	node string
	pods int64
}

// NewLedger returns an empty ledger.
func NewLedger() *Ledger { return &Ledger{assumed: map[string]map[string]*assumption{}} }

// Recall takes in what an object was given before the program started, as its status says.
func (l *Ledger) Recall(key string, spec *v1alpha1.FederatedReplicaSetSpec, status *v1alpha1.FederatedReplicaSetStatus, now time.Time) {
	s, err := shapeOf(&spec.Template)
	if err != nil {
		return // there are no such pods
	}
	_, act := Timeouts(spec)
	for _, c := range status.Clusters {
		l.assume(c.Name, key, &assumption{shape: s, given: c.Written - c.Pending, until: now.Add(act)})
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

// remember takes in what a decision gives. An object keeps what it was given in clusters that are
// out of reach.
func (l *Ledger) remember(in Input, s *shape, given []v1alpha1.FederatedClusterStatus, rooms map[string]Room) {
	_, act := Timeouts(&in.Spec)
	keep := map[string]bool{}
	for _, c := range given {
		room, known := rooms[c.Name]
		keep[c.Name] = known || !c.Reachable
		if known {
			l.assume(c.Name, in.Key, &assumption{shape: s, given: c.Written - c.Pending, bound: room.Bound[in.Key], until: in.Now.Add(act)})
		}
	}
	for cluster, objects := range l.assumed {
		if !keep[cluster] {
			delete(objects, in.Key)
		}
	}
}

// assume replaces an assumption. Deciding the same again does not prolong it.
func (l *Ledger) assume(cluster, key string, a *assumption) {
	if a.given <= a.bound {
		delete(l.assumed[cluster], key)
		return
	}
	if l.assumed[cluster] == nil {
		l.assumed[cluster] = map[string]*assumption{}
	}
	if before := l.assumed[cluster][key]; before != nil && before.given == a.given && before.bound == a.bound {
		a.until = before.until
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
func (l *Ledger) left(room *Room, cluster, key string, now time.Time) []Resources {
	free := make([]Resources, len(room.Nodes))
	index := make(map[string]int, len(room.Nodes))
	for i, n := range room.Nodes {
		free[i], index[n.Object.Name] = n.Free, i
	}
	var homeless []*assumption
	for _, other := range slices.Sorted(maps.Keys(l.assumed[cluster])) {
		a := l.assumed[cluster][other]
		starting := a.starting(room.Bound[other], now)
		if other == key || starting == 0 {
			continue
		}
		if starting != a.settled || !a.fits(index, free) { // pods have gone elsewhere than assumed
			a.settled = starting
			homeless = append(homeless, a)
			continue
		}
		for _, p := range a.places {
			i := index[p.node]
			free[i] = free[i].Plus(-p.pods, a.shape.requests)
		}
	}
	for _, a := range homeless {
		a.settle(room.Nodes, free)
	}
	return free
}

// fits reports whether there is still room where the pods are assumed to go.
func (a *assumption) fits(index map[string]int, free []Resources) bool {
	return !slices.ContainsFunc(a.places, func(p onNode) bool {
		i, there := index[p.node]
		return !there || a.shape.requests.fits(free[i]) < p.pods
	})
}

// starting is how many pods have no node yet, and are expected to get one.
func (a *assumption) starting(bound int32, now time.Time) int64 {
	if !now.Before(a.until) {
		return 0
	}
	return int64(max(0, a.given-bound))
}

// settle finds places for the pods that have no node yet, and takes what they need from what is
// free.
func (a *assumption) settle(nodes []Node, free []Resources) {
	a.places = nil
	for i, n := range a.shape.place(a.settled, nodes, free) {
		a.places = append(a.places, onNode{nodes[i].Object.Name, n})
	}
	slices.SortFunc(a.places, func(a, b onNode) int { return cmp.Compare(a.node, b.node) })
}
