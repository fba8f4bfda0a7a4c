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
	// nodes are the nodes as they were given last, and counted as they are in the tables; changed are the
	// names of those that differ.
	nodes, counted map[string]Node
	changed        sets.Set[string]
	next           map[*kind]int // node from which on one is looked for that takes volumes
	// mostKeys is how many label keys are remembered before those are dropped that only pods look at that are gone:
	// twice those that are looked at, and minKeys at least.
	mostKeys, minKeys int
}

// maxLiveRanked bounds what a Live remembers: tables times nodes.
const maxLiveRanked = 1 << 22

// minLiveKeys are more label keys than pods of most clusters look at.
const minLiveKeys = 1024

// Live returns a live cluster without nodes. It scores by the default profile only.
func (c *Checker) Live() *Live {
	l := &Live{s: c.Scheduler(), nodes: map[string]Node{}, mostKeys: minLiveKeys, minKeys: minLiveKeys}
	l.forget()
	return l
}

// forget makes all nodes new.
func (l *Live) forget() {
	l.s.forget()
	l.counted, l.changed, l.next = map[string]Node{}, sets.KeySet(l.nodes), map[*kind]int{}
}

// SetNode adds a node, or replaces it, or removes it if it is nil. The pods on it stay, for it may come back.
func (l *Live) SetNode(name string, n *v1.Node) {
	l.change(name, func(is *Node) { is.Node = n })
}

// AddPod adds a pod to a node, which may come later.
func (l *Live) AddPod(node string, p *v1.Pod) {
	l.change(node, func(is *Node) { is.Pods = append(slices.Clip(is.Pods), p) }, p)
}

// RemovePod removes a pod from a node.
func (l *Live) RemovePod(node string, p *v1.Pod) {
	l.change(node, func(is *Node) {
		is.Pods = slices.DeleteFunc(slices.Clone(is.Pods), func(o *v1.Pod) bool { return o == p })
	})
}

// Set adds a node, or replaces it and the pods on it. It returns ErrNilObject for a nil node or pod.
func (l *Live) Set(n Node) error {
	if n.Node == nil || slices.Contains(n.Pods, nil) {
		return fmt.Errorf("node or pod: %w", ErrNilObject)
	}
	l.change(n.Node.Name, func(is *Node) { *is = n }, n.Pods...)
	return nil
}

// Remove removes a node and the pods on it.
func (l *Live) Remove(name string) { l.change(name, func(is *Node) { *is = Node{} }) }

// change changes a node to which pods come.
func (l *Live) change(name string, how func(*Node), come ...*v1.Pod) {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	n := l.nodes[name]
	how(&n)
	if l.nodes[name] = n; n.Node == nil && len(n.Pods) == 0 {
		delete(l.nodes, name)
	}
	l.changed.Insert(name)
	l.learn(come)
}

// Node returns a node with the pods on it.
func (l *Live) Node(name string) Node {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	return l.nodes[name]
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
	l.objectsChanged(objects)
	return nil
}

// Drop removes objects that the plugins looked up.
func (l *Live) Drop(objects ...runtime.Object) error {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	if err := l.s.c.drop(objects); err != nil {
		return err
	}
	l.objectsChanged(objects)
	return nil
}

// HasClaim reports whether there is a claim of a volume.
func (l *Live) HasClaim(namespace, name string) bool {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	_, there := l.s.c.storage.claim(namespace + "/" + name)
	return there
}

// objectsChanged makes void what depends on objects: no table does on volumes and claims.
func (l *Live) objectsChanged(objects []runtime.Object) {
	for _, o := range objects {
		switch o := o.(type) {
		case *v1.PersistentVolumeClaim, *v1.PersistentVolume, *storagev1.StorageClass, *storagev1.CSIDriver,
			*storagev1.CSIStorageCapacity, *storagev1.VolumeAttachment:
		case *storagev1.CSINode:
			if n, there := l.counted[o.Name]; there {
				delete(l.s.u.nodes, stateKey{node: n.Node})
				l.changed.Insert(o.Name)
			}
		default:
			clear(l.s.u.kinds)
			clear(l.s.u.kindOf)
			clear(l.next)
			l.s.drop()
		}
	}
}

// Sync takes over what has changed, so that the next question does not have to. Once stop returns
// true it returns ErrInterrupted; what it has done is not lost.
func (l *Live) Sync(stop func() bool) error {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	return l.sync(stop)
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
	return l.s.entries[at].name, nil
}

// FindOn reports whether the node would take the pod if it were one more. It must have another name
// than the nodes there are.
func (l *Live) FindOn(n Node, p *v1.Pod, stop func() bool) (takes bool, err error) {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	if n.Node == nil || p == nil || slices.Contains(n.Pods, nil) {
		return false, ErrNilObject
	}
	defer func() { // they are gone before the next question
		for _, p := range n.Pods {
			delete(l.s.u.known, p)
		}
	}()
	k, err := l.ready(p, stop, n.Pods...)
	if err != nil {
		return false, err
	}
	st, err := l.s.u.state(n, false)
	if err != nil {
		return false, err
	}
	for _, it := range st.items {
		l.s.addTerms(it.terms)
	}
	l.s.countHostname(st, 1)
	defer l.s.countHostname(st, -1)
	t := l.s.table(k, 0, len(l.s.nodes))
	t.onNew(st, func(at *bucket) {
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
	if l.s.tables[k] == nil && stop() {
		return -1, ErrInterrupted
	}
	t := l.s.weighed(k)
	switch {
	case t == nil:
		return -1, nil
	case !mounts(p):
		return l.s.best(t, hashOf(p.Namespace, p.Name)), nil
	}
	n, mounts := len(l.s.nodes), l.mounts(p)
	for i := range n {
		if i%64 == 63 && stop() {
			return -1, ErrInterrupted
		}
		if at := (l.next[k] + i) % n; t.takes(at) && mounts(l.s.nodes[at]) {
			l.next[k] = at
			return at, nil
		}
	}
	return -1, nil
}

// ready takes over what has changed, and returns what stands for the pod but for its volumes. Others are asked about
// with it.
func (l *Live) ready(p *v1.Pod, stop func() bool, others ...*v1.Pod) (*kind, error) {
	bare := *p
	bare.Spec.Volumes = nil
	l.learn(append(slices.Clip(others), &bare))
	if err := l.sync(stop); err != nil {
		return nil, err
	}
	k, err := l.s.u.kind(&bare)
	delete(l.s.u.kindOf, &bare)
	return k, err
}

// learn notes the labels that pods look at. If they bring new ones, all that is known of pods is void. Anybody who creates
// pods brings labels, so those that no pod looks at any more are dropped once they are many.
func (l *Live) learn(pods []*v1.Pod) {
	l.note(pods)
	switch u := l.s.u; {
	case u.nodeKeys.Len()+u.podKeys.Len() > l.mostKeys:
		l.s.u = nil
		l.forget()
		for _, n := range l.nodes {
			l.note(n.Pods)
		}
		l.mostKeys = max(l.minKeys, 2*(l.s.u.nodeKeys.Len()+l.s.u.podKeys.Len()))
		l.note(pods)
	case u.grown:
		l.forget()
	}
}

func (l *Live) note(pods []*v1.Pod) {
	for _, p := range pods {
		if !finished(p) {
			l.s.u.learn(p)
		}
	}
}

// sync takes over the nodes that have changed.
func (l *Live) sync(stop func() bool) error {
	if l.s.mostGone() {
		l.forget()
	}
	for _, name := range sets.List(l.changed) {
		if stop() {
			return ErrInterrupted
		}
		if err := l.apply(name); err != nil {
			l.forget()
			return fmt.Errorf("pods of node %q: %w", name, err)
		}
		l.changed.Delete(name)
	}
	l.s.refresh()
	l.s.fleet.trim(maxLiveRanked)
	return nil
}

// apply takes over one node, and forgets the pods that are not on it any more.
func (l *Live) apply(name string) error {
	before, known := l.counted[name]
	n := l.nodes[name]
	switch {
	case n.Node != nil:
		if err := l.s.update(n, false); err != nil {
			return err
		}
		l.counted[name] = n
	case known:
		l.s.remove(name)
		delete(l.counted, name)
		n.Pods = nil
	}
	if known && before.Node != n.Node {
		delete(l.s.u.nodes, stateKey{node: before.Node})
	}
	for _, p := range before.Pods {
		if !slices.Contains(n.Pods, p) {
			delete(l.s.u.known, p)
		}
	}
	return nil
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
	var plugins []func(fwk.NodeInfo) *fwk.Status
	for _, f := range s.c.filters {
		switch f.Name() {
		case names.VolumeRestrictions, names.VolumeBinding, names.VolumeZone:
			plugins = append(plugins, s.c.alone(f, p, users))
		}
	}
	return func(st *state) bool {
		refuses := func(ask func(fwk.NodeInfo) *fwk.Status) bool { return !ask(st.nodeInfo()).IsSuccess() }
		return s.c.attaches(st, p) && !slices.ContainsFunc(plugins, refuses)
	}
}
