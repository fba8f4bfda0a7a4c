package predicates

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Scheduler binds pods to nodes as kube-scheduler does: of the nodes that pass
// its filters, the one with the highest score takes the pod. If several share
// it, kube-scheduler picks one at random; here a hash of the names of pod and
// node decides, so that the same input gives the same nodes.
//
// It keeps what it learned of nodes and pods from call to call, and looks again
// only at what has changed. It shares its Checker's lock.
type Scheduler struct {
	c   *Checker
	enc encoder

	slots    []*slot
	position map[string]int // of the slots, by name of the node
	visit    int            // number of the call, to tell which nodes are gone
	shapes   map[string]int // what pods can tell apart of nodes, with and without labels, numbered
	nodeKeys sets.Set[string]
	podKeys  sets.Set[string]
	grown    bool // keys have come, so that what was equal may no longer be
	// sharedHosts says that two nodes have the same hostname.
	sharedHosts bool

	tenants []*tenant
	byKey   map[string]*tenant
	known   byPod[*tenant]
	ranked  int // rankings there are

	// epoch grows when rules change; journal lists the pods that came to nodes
	// and left them within the epoch, and the nodes that changed.
	epoch   int
	journal []change
}

// change is a number of equal pods that came to a node or, below zero, left it; without a tenant, that
// the node itself is another one.
type change struct {
	slot, n int
	tenant  *tenant
}

// Bounds of what a Scheduler remembers.
const (
	maxJournal = 1 << 17
	maxRanked  = 1 << 25 // rankings times nodes
)

// Scheduler returns a scheduler without nodes. With the default profile it
// scores as kube-scheduler does by default; a configuration given to the Checker
// is obeyed, at the price of asking every plugin about every pod and node.
func (c *Checker) Scheduler() *Scheduler {
	s := &Scheduler{c: c}
	s.forget()
	return s
}

// forget drops everything but the label keys that pods look at.
func (s *Scheduler) forget() {
	if s.nodeKeys == nil {
		s.nodeKeys = sets.New(v1.LabelTopologyZone)
		s.podKeys = sets.New[string]()
	}
	s.slots, s.position, s.shapes = nil, map[string]int{}, map[string]int{}
	s.tenants, s.byKey, s.known = nil, map[string]*tenant{}, byPod[*tenant]{}
	s.ranked, s.grown = 0, false
	s.turnOver()
}

func (s *Scheduler) turnOver() {
	s.epoch++
	s.journal = s.journal[:0]
}

// Bind decides for every pod on which of the open nodes it is bound, and answers
// the node's position, or -1 where none takes it. Pods go by priority, then in
// the order given; those that find no node are tried again where others that were
// bound may have made a place for them. Nobody is preempted. Closed nodes take
// no pods, but what runs on them counts for spread and affinity. Pods that wait
// for scheduling gates or are being deleted stay where they are. Claims that
// waited for their pod are bound with it, as by BindClaims.
//
// Objects may be looked at again in later calls and must not be changed. Nodes
// have unique names. The error is ErrNilObject or describes a pod that cannot be
// read.
func (s *Scheduler) Bind(open, closed []Node, pods []*v1.Pod) ([]int, error) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	queue, err := s.meet(open, closed, pods)
	if err != nil {
		s.forget() // half of the changes may have been taken over
		return nil, err
	}
	bound := make([]int, len(pods))
	for i := range bound {
		bound[i] = -1
	}
	openAt := make(map[int]int, len(open))
	for i := range open {
		openAt[s.position[open[i].Node.Name]] = i
	}
	for len(queue) > 0 {
		left := queue[:0]
		total := len(queue)
		for i, q := range queue {
			s.c.told(Step{Doing: "binding pods to nodes", Done: i, Total: total, Of: "pods"})
			if err := s.c.interrupted(); err != nil {
				s.forget()
				return nil, err
			}
			at := s.place(q.tenant, q.hash)
			if at >= 0 {
				bound[q.pod] = openAt[at]
			} else {
				left = append(left, q)
			}
		}
		before := len(queue)
		queue = left
		if len(left) == before || !slices.ContainsFunc(left, func(q queued) bool { return q.tenant.needsOthers() }) {
			break
		}
	}
	s.trim()
	return bound, nil
}

// queued is a pod in the scheduling queue.
type queued struct {
	pod      int // position in the input
	priority int32
	tenant   *tenant
	hash     uint64
}

// meet takes over the nodes and the pods on them, and returns the queue.
func (s *Scheduler) meet(open, closed []Node, pods []*v1.Pod) ([]queued, error) {
	for {
		queue, err := s.meetOnce(open, closed, pods)
		if err != nil || !s.grown {
			return queue, err
		}
		s.forget() // once more, under the keys that came
	}
}

func (s *Scheduler) meetOnce(open, closed []Node, pods []*v1.Pod) ([]queued, error) {
	s.grow(s.podKeys, s.c.rules.ownerKeys)
	if len(s.tenants) == 0 {
		for _, p := range pods { // before any is looked up under keys that are not all yet
			if p != nil {
				s.look(p)
			}
		}
	}
	queue := make([]queued, 0, len(pods))
	for i, p := range pods {
		if p == nil {
			return nil, fmt.Errorf("pod %d: %w", i, ErrNilObject)
		}
		if len(p.Spec.SchedulingGates) > 0 || p.DeletionTimestamp != nil || finished(p) {
			continue
		}
		t, err := s.tenant(p)
		if err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		q := queued{pod: i, tenant: t, hash: hashOf(p.Namespace, p.Name)}
		if p.Spec.Priority != nil {
			q.priority = *p.Spec.Priority
		}
		queue = append(queue, q)
	}
	slices.SortStableFunc(queue, func(a, b queued) int { return cmp.Compare(b.priority, a.priority) })
	return queue, s.takeOver(open, closed)
}

// place binds one pod and returns the position of its node, or -1.
func (s *Scheduler) place(t *tenant, hash uint64) int {
	if t.failed.at(s) {
		return -1
	}
	r := s.ranking(t)
	find := r.best
	if r.exact {
		find = func(hash uint64) int { return s.askPlugins(t, hash) }
	}
	at := find(hash)
	if at < 0 {
		t.failed = failure{epoch: s.epoch, changes: len(s.journal), forGood: !t.needsOthers()}
		if r.exact {
			t.failed = failure{} // claims and volumes may change meanwhile
		}
		return -1
	}
	s.put(at, t, 1)
	s.slots[at].given = nil // what the caller makes of it is seen next time
	if r.exact {
		_ = s.c.put(s.c.storage.bindings(t.info.Pod, s.slots[at].node)) // the stores are in memory and know objects of these types
	}
	return at
}

// failure says when a pod last found no node; the zero value, that it is not known.
type failure struct {
	epoch, changes int
	forGood        bool // pods that come do not help it
}

// at reports whether the pod would find no node now either.
func (f *failure) at(s *Scheduler) bool {
	if f.epoch != s.epoch {
		return false
	}
	if f.changes == len(s.journal) {
		return true
	}
	if !f.forGood {
		return false
	}
	for _, c := range s.journal[f.changes:] {
		if c.n < 0 || c.tenant == nil {
			return false
		}
	}
	f.changes = len(s.journal)
	return true
}

// trim keeps what is remembered within bounds.
func (s *Scheduler) trim() {
	if len(s.journal) > maxJournal {
		s.turnOver()
	}
	if s.ranked*len(s.slots) > maxRanked {
		for _, t := range s.tenants {
			t.ranking = nil
		}
		s.ranked = 0
	}
	pods := 0
	for _, sl := range s.slots {
		pods += sl.pods
	}
	if len(s.known) > 4*pods+10_000 {
		s.forget() // of pods and kinds of pods that have long gone
	}
}

// hashOf is a hash of names (FNV-1a), the same in every run.
func hashOf(names ...string) uint64 {
	h := uint64(14695981039346656037)
	for _, name := range names {
		for i := range len(name) {
			h = (h ^ uint64(name[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211
	}
	return h
}

// mix makes every bit of the result depend on every bit of both hashes, by the
// finalizer of MurmurHash3.
func mix(a, b uint64) uint64 {
	h := a ^ (b + 0x9e3779b97f4a7c15 + a<<6 + a>>2)
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
