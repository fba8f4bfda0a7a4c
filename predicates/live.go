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
	// nodes are the nodes as they were given last; dirty are those that the tables have yet to take
	// over, in order, and waits says which these are. What labels their pods look at is known of as many
	// of them as learned says.
	nodes   map[string]Node
	dirty   []string
	learned int
	waits   sets.Set[string]
	empty   []int          // slots without a node
	hosts   map[string]int // nodes by hostname
	alike   int            // hostnames that several nodes have
	last    map[*tenant]int
	sweep   int // number of kinds of pods at which those that are gone are looked for
}

// Bounds of what a Live remembers.
const (
	maxLiveRanked = 1 << 22 // rankings times nodes
	minSweep      = 1_000
)

// Live returns a live cluster without nodes. It knows the default profile only: with another one, the
// plugins are asked about every pod and node.
func (c *Checker) Live() *Live {
	l := &Live{s: c.Scheduler(), nodes: map[string]Node{}}
	l.forget()
	return l
}

// forget makes all nodes new.
func (l *Live) forget() {
	l.s.forget()
	l.empty, l.hosts, l.alike, l.last, l.sweep = nil, map[string]int{}, 0, map[*tenant]int{}, minSweep
	l.s.sharedHosts = false
	l.dirty, l.learned, l.waits = nil, 0, sets.New[string]()
	for name := range l.nodes {
		l.dirty = append(l.dirty, name)
		l.waits.Insert(name)
	}
	slices.Sort(l.dirty)
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

// looked makes the tables void that depend on objects: none does on volumes and claims.
func (l *Live) looked(objects []runtime.Object) {
	for _, o := range objects {
		switch o := o.(type) {
		case *v1.PersistentVolumeClaim, *v1.PersistentVolume, *storagev1.StorageClass, *storagev1.CSIDriver, *storagev1.CSIStorageCapacity, *storagev1.VolumeAttachment:
		case *storagev1.CSINode:
			if at, known := l.s.position[o.Name]; known {
				l.s.dress(at, l.s.slots[at].shown, false)
			}
		default:
			l.s.turnOver()
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
	return l.s.slots[at].name, nil
}

// FindOn reports whether the node would take the pod if it were one more. It must have another name
// than the nodes there are.
func (l *Live) FindOn(n Node, p *v1.Pod, stop func() bool) (bool, error) {
	l.s.c.mu.Lock()
	defer l.s.c.mu.Unlock()
	if n.Node == nil || p == nil || slices.Contains(n.Pods, nil) {
		return false, ErrNilObject
	}
	name := n.Node.Name
	l.nodes[name] = n
	l.mark(name)
	defer func() { // it is gone before the next question
		delete(l.nodes, name)
		l.mark(name)
	}()
	t, err := l.ready(p, stop)
	if err != nil {
		return false, err
	}
	at := l.s.position[name]
	takes, err := l.candidates(l.s.ranking(t), p, stop)
	return takes != nil && takes(at), err
}

func (l *Live) find(p *v1.Pod, stop func() bool) (int, error) {
	if p == nil {
		return -1, ErrNilObject
	}
	t, err := l.ready(p, stop)
	if err != nil || t.failed.at(l.s) {
		return -1, err
	}
	if (t.ranking == nil || t.ranking.epoch != l.s.epoch) && stop() {
		return -1, ErrInterrupted
	}
	r := l.s.ranking(t)
	takes, err := l.candidates(r, p, stop)
	switch {
	case err != nil:
		return -1, err
	case takes == nil:
		t.failed = failure{epoch: l.s.epoch, changes: len(l.s.journal), forGood: !t.needsOthers()}
		return -1, nil
	case !r.exact && !mounts(p):
		return r.best(hashOf(p.Namespace, p.Name)), nil
	}
	begin, n := l.last[t], len(l.s.slots)
	for i := range n {
		if i%64 == 63 && stop() {
			return -1, ErrInterrupted
		}
		if at := (begin + i) % n; takes(at) {
			l.last[t] = at
			return at, nil
		}
	}
	return -1, nil
}

// candidates returns which slots take a pod, or nil if the tables know that none does.
func (l *Live) candidates(r *ranking, p *v1.Pod, stop func() bool) (func(at int) bool, error) {
	switch {
	case r.exact:
		return l.plugins(p, stop)
	case !r.weigh():
		return nil, nil
	case !mounts(p):
		return r.takes, nil
	}
	mounts := l.mounts(p)
	return func(at int) bool { return r.takes(at) && mounts(at) }, nil
}

// takes reports whether the node of a slot is a candidate, once all are weighed.
func (r *ranking) takes(i int) bool {
	return r.score[i] != rejected && r.totals[r.standing[i]] != rejected
}

// mounts reports whether a plugin looks at a volume of the pod.
func mounts(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return volumeChecked(p, &v) })
}

// ready takes over what has changed, and returns what stands for the pod but for its volumes.
func (l *Live) ready(p *v1.Pod, stop func() bool) (*tenant, error) {
	bare := *p
	bare.Spec.Volumes = nil
	for {
		if err := l.settle(&bare, stop); err != nil {
			return nil, err
		}
		t, err := l.s.tenant(&bare)
		delete(l.s.known, &bare)
		if err != nil || len(l.dirty) == 0 {
			return t, err
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
		for _, p := range l.nodes[l.dirty[l.learned-1]].Pods {
			if _, known := l.s.known[p]; !known && !finished(p) && l.learn(p) {
				break
			}
		}
	}
	for len(l.dirty) > 0 {
		if stop() {
			return ErrInterrupted
		}
		name := l.dirty[0]
		n, there := l.nodes[name]
		l.dirty, l.learned = l.dirty[1:], l.learned-1
		l.waits.Delete(name)
		if err := l.take(name, n, there); err != nil {
			l.forget()
			return fmt.Errorf("pods of node %q: %w", name, err)
		}
	}
	l.trim()
	return nil
}

// learn notes the labels that a pod looks at. It reports whether all that is known of pods is void.
func (l *Live) learn(p *v1.Pod) bool {
	nodeKeys, podKeys := l.s.nodeKeys.Len(), l.s.podKeys.Len()
	l.s.look(p)
	l.s.grown = false
	if l.s.podKeys.Len() > podKeys && len(l.s.slots)+len(l.s.tenants) > 0 {
		l.forget()
		return true
	}
	if l.s.nodeKeys.Len() > nodeKeys {
		for _, sl := range l.s.slots {
			if !sl.gone {
				sl.shape, sl.body = l.s.shape(sl.node)
			}
		}
		l.s.turnOver()
	}
	return false
}

// take takes over one node.
func (l *Live) take(name string, n Node, there bool) error {
	s := l.s
	at, known := s.position[name]
	if !known && !there {
		return nil
	}
	if !known {
		at = len(s.slots)
		sl := &slot{name: name, hash: hashOf(name), shape: -1}
		if last := len(l.empty) - 1; last >= 0 {
			at, l.empty = l.empty[last], l.empty[:last]
			s.slots[at] = sl
		} else {
			s.slots = append(s.slots, sl)
		}
		s.position[name] = at
	}
	sl := s.slots[at]
	l.host(sl.shown, -1)
	before := sl.given
	if there {
		l.host(n.Node, 1)
		if err := s.update(n, false); err != nil {
			return err
		}
	} else {
		delete(s.position, name)
		l.empty = append(l.empty, at)
		for _, it := range slices.Clone(sl.items) {
			s.put(at, it.tenant, -it.n)
		}
		sl.gone, sl.shown = true, nil
		s.exchanged(at)
	}
	l.gone(before, n.Pods)
	if s.sharedHosts != (l.alike > 0) {
		s.sharedHosts = l.alike > 0
		s.turnOver()
	}
	return nil
}

// host counts the hostname of a node.
func (l *Live) host(n *v1.Node, by int) {
	if n == nil {
		return
	}
	if host, has := n.Labels[v1.LabelHostname]; has {
		before := l.hosts[host]
		l.hosts[host] += by
		l.alike += toInt(before+by > 1) - toInt(before > 1)
		if before+by == 0 {
			delete(l.hosts, host)
		}
	}
}

// gone forgets the pods that are not on a node any more.
func (l *Live) gone(before, now []*v1.Pod) {
	if slices.Equal(before, now) {
		return
	}
	stay := make(map[*v1.Pod]bool, len(now))
	for _, p := range now {
		stay[p] = true
	}
	for _, p := range before {
		if !stay[p] {
			delete(l.s.known, p)
		}
	}
}

// trim keeps what is remembered within bounds.
func (l *Live) trim() {
	s := l.s
	if len(s.journal) > maxJournal {
		s.turnOver()
	}
	if s.ranked*len(s.slots) > maxLiveRanked {
		for _, t := range s.tenants {
			t.ranking = nil
		}
		s.ranked = 0
	}
	if len(s.tenants) < l.sweep {
		return
	}
	used := map[*tenant]bool{}
	for _, sl := range s.slots {
		for _, it := range sl.items {
			used[it.tenant] = true
		}
	}
	if len(s.tenants) > 2*len(used)+minSweep {
		l.forget() // the next question begins anew
	}
	l.sweep = 2*len(used) + 2*minSweep
}

// plugins asks all plugins, for pods whose rules are beyond the tables.
func (l *Live) plugins(p *v1.Pod, stop func() bool) (func(at int) bool, error) {
	s := l.s
	nodes := make([]fwk.NodeInfo, 0, len(s.slots))
	for _, sl := range s.slots {
		if stop() {
			return nil, ErrInterrupted
		}
		if !sl.gone {
			nodes = append(nodes, sl.nodeInfo())
		}
	}
	cy := s.c.begin(p, nodes)
	return func(at int) bool {
		sl := s.slots[at]
		return !sl.gone && cy.filter(sl.nodeInfo()) == nil && s.attaches(sl, p)
	}, nil
}

// mounts returns whether a node takes the volumes of a pod, by the plugins that look at these.
func (l *Live) mounts(p *v1.Pod) func(at int) bool {
	s := l.s
	var users []fwk.NodeInfo
	for _, sl := range s.slots {
		if slices.ContainsFunc(sl.items, func(it occupants) bool { return len(it.info.Pod.Spec.Volumes) > 0 }) {
			users = append(users, sl.nodeInfo())
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
	return func(at int) bool {
		sl := s.slots[at]
		return s.attaches(sl, p) && !slices.ContainsFunc(asks, func(ask func(fwk.NodeInfo) *fwk.Status) bool { return !ask(sl.nodeInfo()).IsSuccess() })
	}
}
