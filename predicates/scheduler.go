package predicates

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// Scheduler binds pods to nodes as kube-scheduler does: of the nodes that pass
// its filters, the one with the highest score takes the pod. If several share
// it, kube-scheduler picks one at random; here a hash of the names of pod and
// node decides, so that the same input gives the same nodes.
//
// It keeps what it learned of nodes and pods from call to call, and looks again
// only at what has changed. It shares its Checker's lock.
type Scheduler struct {
	fleet
	c        *Checker
	entries  []nodeEntry    // of the nodes
	position map[string]int // of the nodes, by name
	empty    []int          // entries without a node
	visit    int            // number of the call, to tell which nodes are gone
}

// nodeEntry is the name of a node, its hash, and the last call in which it was given.
type nodeEntry struct {
	name  string
	hash  uint64
	visit int
}

// maxRanked bounds what a Scheduler remembers: tables times nodes.
const maxRanked = 1 << 25

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
	u := newIndex(s.c, sets.New[string]())
	u.addNodeKeys([]string{v1.LabelTopologyZone})
	if s.u != nil {
		u.addNodeKeys(s.u.nodeKeys.UnsortedList())
		u.podKeys = s.u.podKeys
	}
	s.fleet, s.entries, s.position, s.empty = u.fleet(), nil, map[string]int{}, nil
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
	queue, err := s.begin(open, closed, pods)
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
			s.c.report(Step{Doing: "binding pods to nodes", Done: i, Total: total, Of: "pods"})
			if err := s.c.interrupted(); err != nil {
				s.forget()
				return nil, err
			}
			at := s.place(&q)
			if at >= 0 {
				bound[q.pod] = openAt[at]
			} else {
				left = append(left, q)
			}
		}
		before := len(queue)
		queue = left
		if len(left) == before || !slices.ContainsFunc(left, func(q queued) bool { return q.kind.needsOthers() }) {
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
	kind     *kind
	hash     uint64
	// exact is a pod whose scores are beyond the tables: every plugin is asked. placed stands for it
	// once it is on a node.
	exact  *v1.Pod
	placed *boundPod
}

// begin takes over the nodes and the pods on them, and returns the queue.
func (s *Scheduler) begin(open, closed []Node, pods []*v1.Pod) ([]queued, error) {
	for {
		queue, err := s.enqueue(open, closed, pods)
		if err != nil || !s.u.grown {
			return queue, err
		}
		s.forget() // once more, under the keys that came
	}
}

func (s *Scheduler) enqueue(open, closed []Node, pods []*v1.Pod) ([]queued, error) {
	s.u.grow(s.c.rules.ownerKeys)
	if len(s.u.boundPods) == 0 {
		for _, p := range pods { // before any is looked up under keys that are not all yet
			if p != nil {
				s.u.learn(p)
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
		k, err := s.u.kind(p)
		if err != nil {
			return nil, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
		}
		q := queued{pod: i, kind: k, priority: ptr.Deref(p.Spec.Priority, 0), hash: hashOf(p.Namespace, p.Name), placed: k.placed}
		if !s.c.standard || mounts(p) {
			q.exact = p
			if q.placed, err = s.u.boundPod(p); err != nil {
				return nil, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
			}
		}
		queue = append(queue, q)
	}
	slices.SortStableFunc(queue, func(a, b queued) int { return cmp.Compare(b.priority, a.priority) })
	return queue, s.takeOver(open, closed)
}

// needsOthers reports whether pods that are bound can make a node do for the pod
// that did not do before.
func (k *kind) needsOthers() bool {
	return len(k.info.RequiredAffinityTerms) > 0 || len(k.info.Pod.Spec.TopologySpreadConstraints) > 0
}

// mounts reports whether a plugin looks at a volume of the pod.
func mounts(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.Volumes, func(v v1.Volume) bool { return volumeChecked(p, &v) })
}

// takeOver brings the fleet up to date with the nodes.
func (s *Scheduler) takeOver(open, closed []Node) error {
	s.visit++
	for i, nodes := range [][]Node{open, closed} {
		for _, n := range nodes {
			if n.Node == nil {
				return fmt.Errorf("node: %w", ErrNilObject)
			}
			if err := s.update(n, i == 1); err != nil {
				return fmt.Errorf("pods of node %q: %w", n.Node.Name, err)
			}
		}
	}
	for name, at := range s.position {
		if s.entries[at].visit != s.visit {
			s.remove(name)
		}
	}
	s.refresh()
	return nil
}

// update brings one node up to date.
func (s *Scheduler) update(n Node, closed bool) error {
	st, err := s.u.stateOf(n, false)
	if err != nil {
		return err
	}
	at, known := s.position[n.Node.Name]
	if !known {
		if at = len(s.entries); len(s.empty) > 0 {
			at, s.empty = s.empty[len(s.empty)-1], s.empty[:len(s.empty)-1]
		} else {
			s.entries, s.nodes = append(s.entries, nodeEntry{}), append(s.nodes, nil)
		}
		s.entries[at] = nodeEntry{name: n.Node.Name, hash: hashOf(n.Node.Name)}
		s.position[n.Node.Name] = at
	}
	s.entries[at].visit = s.visit
	s.shut(at, closed)
	s.set(at, st)
	return nil
}

func (s *Scheduler) remove(name string) {
	at := s.position[name]
	delete(s.position, name)
	s.empty = append(s.empty, at)
	s.set(at, nil)
}

// place binds one pod and returns the position of its node, or -1.
func (s *Scheduler) place(q *queued) int {
	at := -1
	if q.exact != nil {
		at = s.askPlugins(q)
	} else if t := s.weighed(q.kind); t != nil {
		at = s.best(t, q.hash)
	}
	if at < 0 {
		return -1
	}
	s.put(at, q.placed, 1)
	if q.exact != nil {
		_ = s.c.put(s.c.storage.bindings(q.exact, s.nodes[at].node)) // the stores are in memory and know objects of these types
	}
	return at
}

// weighed returns the table of a kind of pods with all nodes weighed; nil if none takes such a pod.
func (s *Scheduler) weighed(k *kind) *table {
	if t := s.tables[k]; t != nil && t.hopeless() {
		return nil
	}
	t := s.table(k, 0, len(s.nodes))
	if !t.weigh() {
		t.failed, t.failedAt = true, len(s.journal)
		return nil
	}
	return t
}

// best returns the node of the highest score among those that take a pod, once all are weighed.
func (s *Scheduler) best(t *table, hash uint64) int {
	best, most := -1, int32(rejected)
	var rank uint64
	for at, score := range t.score {
		if score == rejected {
			continue
		}
		total := t.totals[t.bucket[at]]
		if total == rejected {
			continue
		}
		if total += int32(score); total < most {
			continue
		}
		mixed := mix(s.entries[at].hash, hash)
		if total > most || mixed < rank || mixed == rank && s.entries[at].name < s.entries[best].name {
			best, most, rank = at, total, mixed
		}
	}
	return best
}

// askPlugins returns the node that the plugins of the profile score highest for
// the pod, or -1.
func (s *Scheduler) askPlugins(q *queued) int {
	p := q.exact
	cy := s.c.begin(p, s.infos())
	var passed []fwk.NodeInfo
	for at, st := range s.nodes {
		if st == nil || s.isClosed(at) || s.c.rules.resources && st.room(&q.kind.asks, s.c.rules.ignores) == 0 {
			continue
		}
		if info := st.nodeInfo(); cy.filter(info) == nil && s.c.attaches(st, p) {
			passed = append(passed, info)
		}
	}
	if len(passed) == 0 {
		return -1
	}
	best := -1
	var most int64
	var rank uint64
	for _, n := range s.c.scores(cy.state, p, passed) {
		at := s.position[n.Name]
		mixed := mix(s.entries[at].hash, q.hash)
		if best < 0 || n.TotalScore > most || n.TotalScore == most && (mixed < rank || mixed == rank && n.Name < s.entries[best].name) {
			best, most, rank = at, n.TotalScore, mixed
		}
	}
	return best
}

// scores runs the plugins that score; where one fails, there are none.
func (c *Checker) scores(state fwk.CycleState, p *v1.Pod, nodes []fwk.NodeInfo) []fwk.NodePluginScores {
	if status := c.fw.RunPreScorePlugins(c.quiet, state, p, nodes); !status.IsSuccess() {
		return nil
	}
	scored, status := c.fw.RunScorePlugins(c.quiet, state, p, nodes)
	if !status.IsSuccess() {
		return nil
	}
	return scored
}

// hopeless reports whether the pods would find no node now either.
func (t *table) hopeless() bool {
	journal := t.f.journal
	if !t.failed || t.failedAt < len(journal) && t.k.needsOthers() {
		return false
	}
	for _, c := range journal[t.failedAt:] {
		if c.pod == nil || c.n < 0 {
			return false
		}
	}
	t.failedAt = len(journal) // pods that came do not help it
	return true
}

// trim keeps what is remembered within bounds.
func (s *Scheduler) trim() {
	s.fleet.trim(maxRanked)
	if s.mostGone() {
		s.forget()
	}
	s.u.trim(len(s.nodes))
}

// mostGone reports whether most of the pods and kinds of pods that are remembered have long gone.
func (s *Scheduler) mostGone() bool {
	remembered := max(len(s.u.known), len(s.u.kindOf), len(s.u.boundPods)+len(s.u.kinds))
	if remembered <= maxGonePods {
		return false
	}
	pods := 0
	for _, st := range s.nodes {
		if st != nil {
			pods += st.pods
		}
	}
	return remembered > 4*pods+maxGonePods
}

// hashOf is a hash of names (FNV-1a), the same in every run.
func hashOf(names ...string) uint64 {
	h := fnv.New64a()
	for _, name := range names {
		_, _ = h.Write([]byte(name)) // a hash does not fail
		_, _ = h.Write([]byte{0xff})
	}
	return h.Sum64()
}

// mix makes every bit of the result depend on every bit of both hashes, by the
// finalizer of MurmurHash3.
func mix(a, b uint64) uint64 {
	h := a ^ (b + 0x9e3779b97f4a7c15 + a<<6 + a>>2)
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
