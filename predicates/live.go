package predicates

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
)

// Live is a cluster that changes node by node, and is asked where a pod would be bound. It costs what
// has changed since the last question: each kind of pods has tables of the nodes, as in a Scheduler.
//
// It is safe for concurrent use; calls run one after the other, and those of its Checker with them.
// Objects that were given to it must not be changed.
type Live struct {
	s *Scheduler
	// nodes are the nodes as they were given last, and shown as the tables have taken them over; dirty
	// are those that differ, in order, and waits says which these are. What labels their pods look at is
	// known of as many of them as learned says.
	nodes, shown map[string]Node
	dirty        []string
	learned      int
	waits        sets.Set[string]
	last         map[*kind]int
	sweep        int // number of kinds of pods at which those that are gone are looked for
}

// Bounds of what a Live remembers.
const (
	maxLiveRanked = 1 << 22 // tables times nodes
	minSweep      = 1_000
)

// Live returns a live cluster without nodes. It scores by the default profile only.
func (c *Checker) Live() *Live {
	l := &Live{s: c.Scheduler(), nodes: map[string]Node{}}
	l.forget()
	return l
}

// forget makes all nodes new.
func (l *Live) forget() {
	l.s.forget()
	l.shown, l.last, l.sweep = map[string]Node{}, map[*kind]int{}, minSweep
	l.dirty, l.learned, l.waits = nil, 0, sets.New[string]()
	for name := range l.nodes {
		l.dirty = append(l.dirty, name)
		l.waits.Insert(name)
	}
	slices.Sort(l.dirty)
}

// SetNode adds a node, or replaces it, or removes it if it is nil. The pods on it stay, for it may come back.
func (l *Live) SetNode(name string, n *v1.Node) {
	l.change(name, func(is *Node) { is.Node = n })
}

// AddPod adds a pod to a node, which may come later.
func (l *Live) AddPod(node string, p *v1.Pod) {
	l.change(node, func(is *Node) { is.Pods = append(slices.Clip(is.Pods), p) })
}

// RemovePod removes a pod from a node.
func (l *Live) RemovePod(node string, p *v1.Pod) {
	l.change(node, func(is *Node) {
		is.Pods = slices.DeleteFunc(slices.Clone(is.Pods), func(o *v1.Pod) bool { return o == p })
	})
}

func (l *Live) change(name string, how func(*Node)) {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	n := l.nodes[name]
	how(&n)
	if l.nodes[name] = n; n.Node == nil && len(n.Pods) == 0 {
		delete(l.nodes, name)
	}
	l.mark(name)
}

// Node returns a node with the pods on it.
func (l *Live) Node(name string) Node {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	return l.nodes[name]
}

// Set adds a node, or replaces it and the pods on it. It returns ErrNilObject for a nil node or pod.
func (l *Live) Set(n Node) error {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	if n.Node == nil || slices.Contains(n.Pods, nil) {
		return fmt.Errorf("node or pod: %w", ErrNilObject)
	}
	l.nodes[n.Node.Name] = n
	l.mark(n.Node.Name)
	return nil
}

// Remove removes a node and the pods on it.
func (l *Live) Remove(name string) {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	delete(l.nodes, name)
	l.mark(name)
}

func (l *Live) mark(name string) {
	if !l.waits.Has(name) {
		l.waits.Insert(name)
		l.dirty = append(l.dirty, name)
	}
}

// Put adds objects that the plugins look up, or replaces those of the same name.
func (l *Live) Put(objects ...runtime.Object) error {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	topology := l.s.c.storage.topologyKeys.Len()
	if err := l.s.c.put(objects); err != nil {
		return err
	}
	if l.s.c.storage.topologyKeys.Len() > topology {
		l.forget() // nodes look different
	}
	l.looked(objects)
	return nil
}

// Drop removes objects that the plugins looked up.
func (l *Live) Drop(objects ...runtime.Object) error {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	if err := l.s.c.drop(objects); err != nil {
		return err
	}
	l.looked(objects)
	return nil
}

// HasClaim reports whether there is a claim of a volume.
func (l *Live) HasClaim(namespace, name string) bool {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	_, there := l.s.c.storage.claim(namespace + "/" + name)
	return there
}

// looked makes void what depends on objects: no table does on volumes and claims.
func (l *Live) looked(objects []runtime.Object) {
	for _, o := range objects {
		switch o := o.(type) {
		case *v1.PersistentVolumeClaim, *v1.PersistentVolume, *storagev1.StorageClass, *storagev1.CSIDriver, *storagev1.CSIStorageCapacity, *storagev1.VolumeAttachment:
		case *storagev1.CSINode:
			if n, there := l.shown[o.Name]; there {
				delete(l.s.u.nodes, hostedNode{node: n.Node})
				l.mark(o.Name)
			}
		default:
			clear(l.s.u.kinds)
			clear(l.s.u.kindOf)
			clear(l.last)
			l.s.drop()
		}
	}
}

// Settle takes over what has changed, so that the next question does not have to. Once stop returns
// true it returns ErrInterrupted; what it has done is not lost.
func (l *Live) Settle(stop func() bool) error {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	return l.settle(nil, stop)
}

// Find returns the name of the node that kube-scheduler would bind the pod to, or "" if no node takes
// it. Claims that wait for their pod stay unbound. Once stop returns true, and the answer is not known
// yet, it returns ErrInterrupted.
func (l *Live) Find(p *v1.Pod, stop func() bool) (string, error) {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	at, err := l.find(p, stop)
	if err != nil || at < 0 {
		return "", err
	}
	return l.s.seats[at].name, nil
}

// FindOn reports whether the node would take the pod if it were one more. It must have another name
// than the nodes there are.
func (l *Live) FindOn(n Node, p *v1.Pod, stop func() bool) (takes bool, err error) {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	if n.Node == nil || p == nil || slices.Contains(n.Pods, nil) {
		return false, ErrNilObject
	}
	for _, p := range n.Pods {
		l.learn(p)
	}
	defer func() { // they are gone before the next question
		for _, p := range n.Pods {
			delete(l.s.u.known, p)
		}
	}()
	k, err := l.ready(p, stop)
	if err != nil {
		return false, err
	}
	st, err := l.s.u.state(n, false)
	if err != nil {
		return false, err
	}
	for _, it := range st.items {
		l.s.meet(it.terms)
	}
	l.s.host(st, 1)
	defer l.s.host(st, -1)
	t := l.s.table(k, 0, len(l.s.nodes))
	t.onNew(st, func(at *standing) {
		takes = t.rate(len(l.s.nodes), st) != rejected && t.passes(at)
	})
	return takes && (!mounts(p) || l.mounts(p)(st)), nil
}

func (l *Live) find(p *v1.Pod, stop func() bool) (int, error) {
	if p == nil {
		return -1, ErrNilObject
	}
	k, err := l.ready(p, stop)
	if err != nil {
		return -1, err
	}
	switch t := l.s.tables[k]; {
	case t == nil && stop():
		return -1, ErrInterrupted
	case t != nil && t.hopeless():
		return -1, nil
	}
	n := len(l.s.nodes)
	t := l.s.table(k, 0, n)
	if !t.weigh() {
		t.failed = failure{true, len(l.s.journal)}
		return -1, nil
	}
	if !mounts(p) {
		return l.s.best(t, hashOf(p.Namespace, p.Name)), nil
	}
	begin, mounts := l.last[k], l.mounts(p)
	for i := range n {
		if i%64 == 63 && stop() {
			return -1, ErrInterrupted
		}
		if at := (begin + i) % n; t.takes(at) && mounts(l.s.nodes[at]) {
			l.last[k] = at
			return at, nil
		}
	}
	return -1, nil
}

// ready takes over what has changed, and returns what stands for the pod but for its volumes.
func (l *Live) ready(p *v1.Pod, stop func() bool) (*kind, error) {
	bare := *p
	bare.Spec.Volumes = nil
	for {
		if err := l.settle(&bare, stop); err != nil {
			return nil, err
		}
		if len(l.dirty) == 0 { // otherwise all was made new
			k, err := l.s.u.kind(&bare)
			delete(l.s.u.kindOf, &bare)
			return k, err
		}
	}
}

// settle takes over the nodes that have changed, and learns what labels the pod looks at.
func (l *Live) settle(p *v1.Pod, stop func() bool) error {
	if p != nil {
		l.learn(p)
	}
	for l.learned < len(l.dirty) { // from the beginning if all nodes are made new
		if stop() {
			return ErrInterrupted
		}
		l.learned++
		n := l.nodes[l.dirty[l.learned-1]]
		for _, p := range n.Pods {
			if n.Node == nil {
				break // it is not there yet, or not any more
			}
			if _, known := l.s.u.known[p]; !known && !finished(p) && l.learn(p) {
				break
			}
		}
	}
	for len(l.dirty) > 0 {
		if stop() {
			return ErrInterrupted
		}
		name := l.dirty[0]
		l.dirty, l.learned = l.dirty[1:], l.learned-1
		l.waits.Delete(name)
		if err := l.take(name); err != nil {
			l.forget()
			return fmt.Errorf("pods of node %q: %w", name, err)
		}
	}
	l.s.refresh()
	l.trim()
	return nil
}

// learn notes the labels that a pod looks at. It reports whether all that is known of pods is void.
func (l *Live) learn(p *v1.Pod) bool {
	l.s.u.learn(p)
	void := l.s.u.grown
	if void {
		l.forget()
	}
	return void
}

// take takes over one node, and forgets the pods that are not on it any more.
func (l *Live) take(name string) error {
	before, known := l.shown[name]
	n := l.nodes[name]
	switch {
	case n.Node != nil:
		if err := l.s.update(n, false); err != nil {
			return err
		}
		l.shown[name] = n
	case known:
		l.s.remove(name)
		delete(l.shown, name)
		n.Pods = nil
	}
	if known && before.Node != n.Node {
		delete(l.s.u.nodes, hostedNode{node: before.Node})
	}
	if slices.Equal(before.Pods, n.Pods) {
		return nil
	}
	stay := make(map[*v1.Pod]bool, len(n.Pods))
	for _, p := range n.Pods {
		stay[p] = true
	}
	for _, p := range before.Pods {
		if !stay[p] {
			delete(l.s.u.known, p)
		}
	}
	return nil
}

// trim keeps what is remembered within bounds.
func (l *Live) trim() {
	s := l.s
	s.fleet.trim(maxLiveRanked)
	if len(s.u.residents)+len(s.u.kinds) < l.sweep {
		return
	}
	used := map[*resident]bool{}
	for _, st := range s.nodes {
		if st != nil {
			for _, it := range st.items {
				used[it.resident] = true
			}
		}
	}
	if len(s.u.residents)+len(s.u.kinds) > 2*len(used)+minSweep {
		l.forget() // the next question begins anew
	}
	l.sweep = 2*len(used) + 2*minSweep
}

// mounts returns whether a node takes the volumes of a pod, by the plugins that look at these.
func (l *Live) mounts(p *v1.Pod) func(*state) bool {
	s := l.s
	var users []fwk.NodeInfo
	for _, st := range s.nodes {
		if st != nil && slices.ContainsFunc(st.items, func(it item) bool { return len(it.info.Pod.Spec.Volumes) > 0 }) {
			users = append(users, st.nodeInfo())
		}
	}
	s.c.seen.nodes = users
	var asks []func(fwk.NodeInfo) *fwk.Status
	for _, f := range s.c.filters {
		switch f.Name() {
		case names.VolumeRestrictions, names.VolumeBinding, names.VolumeZone:
			asks = append(asks, s.c.alone(f, p, users))
		}
	}
	return func(st *state) bool {
		return s.c.attaches(st, p) && !slices.ContainsFunc(asks, func(ask func(fwk.NodeInfo) *fwk.Status) bool { return !ask(st.nodeInfo()).IsSuccess() })
	}
}
