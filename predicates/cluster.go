package predicates

import (
	"fmt"
	"maps"
	"slices"
	"sort"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Cluster is a what-if copy of a cluster. Nodes have ids 0..Len()-1 in order of
// addition. Inputs are never changed, and must not be changed while the Cluster
// or a fork of it is in use. It shares its Checker's lock: calls on a Cluster
// and its forks may come from several goroutines and run one after the other.
//
// Nodes in the same state are kept as one class with a multiplicity: the cost
// of most operations follows the number of classes, not of nodes or pods.
type Cluster struct {
	u        *universe
	keysRead int // the Checker's keys when the shapes were taken
	len      int
	segments []segment // by first id, without gaps
	origins  []origin  // by first id, without gaps
	// hosts are the hostnames of real nodes; sharedHosts says that one occurs
	// twice, so that a hostname is no longer the same as a node.
	hosts       map[string]bool
	sharedHosts bool
	repellers   []*repulsion     // of the pods on nodes
	looksAt     sets.Set[string] // labels of pods that rules of pods met so far look at; shared by forks
	trial       []runtime.Object // claims and volumes as pods placed so far have them
	spreading   *spreader        // of the kind placed last; nil if something else changed since
	counted     *counted         // what forks know of their first nodes; nil if these have changed
	asked       asked            // the template asked for last
	err         error            // what was wrong with the nodes; every placement returns it
}

// segment is a run of nodes in the same state.
type segment struct {
	first, n int
	st       *state
}

// origin says where a run of nodes comes from: one real node, or fresh copies
// of a template.
type origin struct {
	first, n int
	node     *v1.Node
	fresh    bool
}

// asked is a template and the state of its fresh copies.
type asked struct {
	template Node
	keysRead int // the Checker's keys when the shape was taken
	st       *state
}

// Placement is a run of nodes with the same number of pods placed on each.
type Placement struct {
	// First is the id of the first node, Nodes the number of consecutive nodes.
	First, Nodes int
	// PerNode is how many pods were put on each.
	PerNode int
}

// Cluster makes a what-if copy of the nodes and the pods on them. Where an
// object is nil, every placement on the Cluster returns that error.
func (c *Checker) Cluster(nodes []Node) *Cluster {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cluster(nodes)
}

func (c *Checker) cluster(nodes []Node) *Cluster {
	s := &Cluster{u: c.universe(nodes), hosts: map[string]bool{}, looksAt: sets.New[string]()}
	s.add(nodes)
	return s
}

// Fork returns a copy. Changes to either do not show in the other.
func (s *Cluster) Fork() *Cluster {
	s.lock()
	defer s.unlock()
	s.refresh()
	if s.counted == nil {
		s.counted = &counted{nodes: s.len, of: map[*kind]*spreader{}}
	}
	f := *s
	f.segments = slices.Clone(s.segments)
	f.origins = slices.Clip(s.origins)
	f.repellers = slices.Clip(s.repellers)
	s.origins, s.repellers = f.origins, f.repellers
	f.trial = slices.Clip(s.trial)
	s.trial = f.trial
	return &f
}

// replace puts another node, with the pods on it, in the place of a real one. It
// returns ErrRange if there is no real node of that id, and ErrNilObject for a
// nil node or pod.
func (s *Cluster) replace(id int, n Node) error {
	s.lock()
	defer s.unlock()
	if s.err != nil {
		return s.err
	}
	if id < 0 || id >= s.len || s.origins[s.originAt(id)].fresh {
		return fmt.Errorf("node %d of %d: %w", id, s.len, ErrRange)
	}
	if n.Node == nil {
		return fmt.Errorf("node %d: %w", id, ErrNilObject)
	}
	if err := s.meet(n.Pods); err != nil {
		return fmt.Errorf("pods of node %q: %w", n.Node.Name, err)
	}
	s.spreading = nil
	s.refresh()
	st, err := s.u.state(n.Node, n.Pods)
	if err != nil {
		return fmt.Errorf("pods of node %q: %w", n.Node.Name, err)
	}
	at := s.originAt(id)
	if before, host := s.origins[at].node.Labels[v1.LabelHostname], n.Node.Labels[v1.LabelHostname]; host != before {
		s.sharedHosts = s.sharedHosts || s.hosts[host]
		s.hosts = maps.Clone(s.hosts) // forks may share it
		s.hosts[host] = true
	}
	s.origins = slices.Clone(s.origins) // so may these
	s.origins[at].node = n.Node
	s.segments = slices.Clone(s.segments)
	s.set(id, st)
	s.repel(st)
	return nil
}

// Len returns the number of nodes.
func (s *Cluster) Len() int {
	s.lock()
	defer s.unlock()
	return s.len
}

// Add adds real nodes under their own names and returns the id of the first.
func (s *Cluster) Add(nodes ...Node) int {
	s.lock()
	defer s.unlock()
	return s.add(nodes)
}

// AddCopies adds n fresh copies of a template, each with a name and a hostname
// label of its own, and returns the id of the first.
func (s *Cluster) AddCopies(template Node, n int) int {
	s.lock()
	defer s.unlock()
	first := s.len
	st, err := s.template(template)
	if err != nil {
		s.fail(err)
		return first
	}
	s.spreading = nil
	s.open(template, st, n)
	return first
}

// nodeName returns the name of a node; copies of templates have made-up names.
// It is empty for ids that do not exist.
func (s *Cluster) nodeName(id int) string {
	s.lock()
	defer s.unlock()
	if id < 0 || id >= s.len {
		return ""
	}
	return s.origins[s.originAt(id)].name(id)
}

// PodCount returns how many pods are on a node, those it came with included;
// 0 for ids that do not exist.
func (s *Cluster) PodCount(id int) int {
	s.lock()
	defer s.unlock()
	if id < 0 || id >= s.len {
		return 0
	}
	return s.segments[s.segmentAt(id)].st.pods
}

func (s *Cluster) lock() {
	s.u.c.mu.Lock()
	for _, o := range s.trial {
		s.u.c.try(o)
	}
}

func (s *Cluster) unlock() {
	s.u.c.endTrial()
	s.u.c.mu.Unlock()
}

func (s *Cluster) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *Cluster) add(nodes []Node) int {
	first := s.len
	s.spreading = nil
	// The pods first: they tell which node labels matter.
	for i, n := range nodes {
		if n.Node == nil {
			s.fail(fmt.Errorf("node %d: %w", i, ErrNilObject))
			return first
		}
		if s.u.knows(n) {
			continue
		}
		if err := s.meet(n.Pods); err != nil {
			s.fail(fmt.Errorf("pods of node %q: %w", n.Node.Name, err))
			return first
		}
	}
	s.refresh()
	s.hosts = maps.Clone(s.hosts) // forks may share it
	for _, n := range nodes {
		st, err := s.u.hosted(n)
		if err != nil {
			s.fail(fmt.Errorf("pods of node %q: %w", n.Node.Name, err))
			return first
		}
		s.looksAt.Insert(st.looksAt...)
		if host, ok := n.Node.Labels[v1.LabelHostname]; ok {
			s.sharedHosts = s.sharedHosts || s.hosts[host]
			s.hosts[host] = true
		}
		s.origins = append(s.origins, origin{first: s.len, n: 1, node: n.Node})
		s.segments = appendSegment(s.segments, 1, st)
		s.len++
		s.repel(st)
	}
	return first
}

// meet makes the pods known, and with them the node labels they look at.
func (s *Cluster) meet(pods []*v1.Pod) error {
	for _, p := range pods {
		if p == nil {
			return ErrNilObject
		}
		if finished(p) {
			continue
		}
		r, err := s.u.resident(p)
		if err != nil {
			return err
		}
		s.looksAt.Insert(r.looksAt...)
	}
	return nil
}

// template returns the state of a fresh copy of a template.
func (s *Cluster) template(t Node) (*state, error) {
	if t.Node == nil {
		return nil, fmt.Errorf("template: %w", ErrNilObject)
	}
	if a := &s.asked; a.template.Node == t.Node && a.keysRead == s.u.c.keysRead && s.keysRead == a.keysRead && !s.u.volumes && slices.Equal(a.template.Pods, t.Pods) {
		return a.st, nil
	}
	if err := s.meet(t.Pods); err != nil {
		return nil, fmt.Errorf("pods of template %q: %w", t.Node.Name, err)
	}
	s.refresh()
	st, err := s.u.state(freshNode(t.Node, freshName(t.Node, s.len)), t.Pods)
	if err != nil {
		return nil, fmt.Errorf("pods of template %q: %w", t.Node.Name, err)
	}
	s.asked = asked{Node{Node: t.Node, Pods: slices.Clone(t.Pods)}, s.keysRead, st}
	return st, nil
}

// open adds n fresh copies of a template in the given state.
func (s *Cluster) open(t Node, st *state, n int) {
	if n <= 0 {
		return
	}
	s.origins = append(s.origins, origin{first: s.len, n: n, node: t.Node, fresh: true})
	s.segments = appendSegment(s.segments, n, st)
	s.len += n
	s.repel(st)
}

// drop takes back the last node, which open added alone.
func (s *Cluster) drop() {
	s.len--
	s.changed(s.len)
	s.origins = s.origins[:len(s.origins)-1]
	if last := &s.segments[len(s.segments)-1]; last.n > 1 {
		last.n--
	} else {
		s.segments = s.segments[:len(s.segments)-1]
	}
}

// repel notes the pods of a state that keep other pods away.
func (s *Cluster) repel(st *state) {
	for _, r := range st.repels {
		s.noteRepeller(r)
	}
}

func (s *Cluster) noteRepeller(r *repulsion) {
	if r != nil && !slices.Contains(s.repellers, r) {
		s.repellers = append(s.repellers, r)
	}
}

// refresh takes the shapes anew where pods have come that look at more node
// labels than before.
func (s *Cluster) refresh() {
	if s.keysRead == s.u.c.keysRead {
		return
	}
	s.spreading, s.counted = nil, nil
	type moved struct {
		st *state
		to *shape
	}
	again := map[moved]*state{}
	old := s.segments
	s.segments = make([]segment, 0, len(old))
	seg := 0
	for _, o := range s.origins {
		to := s.u.shape(o.object(o.first))
		for at := o.first; at < o.first+o.n; {
			for old[seg].first+old[seg].n <= at {
				seg++
			}
			n := min(old[seg].first+old[seg].n, o.first+o.n) - at
			key := moved{old[seg].st, to}
			if again[key] == nil {
				again[key] = old[seg].st.on(to)
			}
			s.segments = appendSegment(s.segments, n, again[key])
			at += n
		}
	}
	s.keysRead = s.u.c.keysRead
}

// appendSegment adds n nodes in a state after the last segment.
func appendSegment(segments []segment, n int, st *state) []segment {
	if n == 0 {
		return segments
	}
	first := 0
	if len(segments) > 0 {
		last := &segments[len(segments)-1]
		if last.st == st {
			last.n += n
			return segments
		}
		first = last.first + last.n
	}
	return append(segments, segment{first: first, n: n, st: st})
}

// set puts one node into another state.
func (s *Cluster) set(id int, st *state) {
	s.changed(id)
	i := s.segmentAt(id)
	seg := s.segments[i]
	parts := make([]segment, 0, 3)
	if id > seg.first {
		parts = append(parts, segment{seg.first, id - seg.first, seg.st})
	}
	parts = append(parts, segment{id, 1, st})
	if end := seg.first + seg.n; id+1 < end {
		parts = append(parts, segment{id + 1, end - id - 1, seg.st})
	}
	lo, hi := i, i+1
	if lo > 0 && s.segments[lo-1].st == parts[0].st {
		lo--
		parts[0].first, parts[0].n = s.segments[lo].first, parts[0].n+s.segments[lo].n
	}
	s.segments = slices.Replace(s.segments, lo, hi, parts...)
}

// changed notes that the node of an id, if not of higher ones too, has changed.
func (s *Cluster) changed(id int) {
	if s.counted != nil && id < s.counted.nodes {
		s.counted = nil
	}
}

func (s *Cluster) segmentAt(id int) int {
	return sort.Search(len(s.segments), func(i int) bool { return s.segments[i].first+s.segments[i].n > id })
}

func (s *Cluster) originAt(id int) int {
	return sort.Search(len(s.origins), func(i int) bool { return s.origins[i].first+s.origins[i].n > id })
}

func (o *origin) name(id int) string {
	if o.fresh {
		return freshName(o.node, id)
	}
	return o.node.Name
}

// object returns the node object of a node of the run.
func (o *origin) object(id int) *v1.Node {
	if o.fresh {
		return freshNode(o.node, freshName(o.node, id))
	}
	return o.node
}

// freshName makes up a name that no real node can have.
func freshName(n *v1.Node, id int) string {
	return fmt.Sprintf("%s~%d", n.Name, id)
}

// freshNode returns a copy of a node object under a name and hostname label of
// its own.
func freshNode(n *v1.Node, name string) *v1.Node {
	c := *n
	c.Name = name
	c.Labels = make(map[string]string, len(n.Labels)+1)
	maps.Copy(c.Labels, n.Labels)
	c.Labels[v1.LabelHostname] = name
	return &c
}
