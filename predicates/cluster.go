package predicates

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Cluster is a what-if copy of a cluster. Nodes have ids 0..Len()-1 in order of
// addition. Inputs are never changed, and must not be changed while the Cluster
// or a fork of it is in use. It shares its Checker's lock: calls on a Cluster
// and its forks may come from several goroutines and run one after the other.
type Cluster struct {
	fleet
	trial []runtime.Object // claims and volumes as pods placed so far have them
	err   error            // what was wrong with the nodes; every placement returns it
}

// maxTabled bounds what a Cluster remembers: tables times nodes.
const maxTabled = 1 << 23

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
	s := &Cluster{fleet: c.index(nodes).fleet()}
	s.add(nodes)
	return s
}

// Fork returns a copy. Changes to either do not show in the other.
func (s *Cluster) Fork() *Cluster {
	s.lock()
	defer s.unlock()
	s.refresh()
	s.trial = slices.Clip(s.trial)
	return &Cluster{fleet: s.fork(), trial: s.trial, err: s.err}
}

// Len returns the number of nodes.
func (s *Cluster) Len() int {
	s.lock()
	defer s.unlock()
	return len(s.nodes)
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
	first := len(s.nodes)
	st, err := s.template(template)
	if err != nil {
		s.fail(err)
		return first
	}
	for range n {
		s.push(st)
	}
	return first
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
	first := len(s.nodes)
	for i, n := range nodes {
		if n.Node == nil {
			s.fail(fmt.Errorf("node %d: %w", i, ErrNilObject))
			return first
		}
		st, err := s.u.stateOf(n, false)
		if err != nil {
			s.fail(fmt.Errorf("pods of node %q: %w", n.Node.Name, err))
			return first
		}
		s.push(st)
	}
	s.refresh()
	return first
}

// template returns the state of a fresh copy of a template, of whose pods other pods then know.
func (s *Cluster) template(t Node) (*state, error) {
	if t.Node == nil {
		return nil, fmt.Errorf("template: %w", ErrNilObject)
	}
	st, err := s.u.stateOf(t, true)
	if err != nil {
		return nil, fmt.Errorf("pods of template %q: %w", t.Node.Name, err)
	}
	for _, it := range st.items {
		s.addTerms(it.terms)
	}
	s.refresh()
	return st, nil
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
