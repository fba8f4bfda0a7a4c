package predicates

import v1 "k8s.io/api/core/v1"

// Cluster is a what-if copy of a cluster. Nodes have ids 0..Len()-1 in order of
// addition. Inputs are never changed, and must not be changed while the Cluster
// or a fork of it is in use.
type Cluster struct{}

// Placement is a run of nodes with the same number of pods placed on each.
type Placement struct {
	// First is the id of the first node, Nodes the number of consecutive nodes.
	First, Nodes int
	// PerNode is how many pods were put on each.
	PerNode int
}

// Cluster makes a what-if copy of the nodes and the pods on them.
func (c *Checker) Cluster(nodes []Node) *Cluster { return &Cluster{} }

// Fork returns a copy. Changes to either do not show in the other.
func (s *Cluster) Fork() *Cluster { return &Cluster{} }

// Len returns the number of nodes.
func (s *Cluster) Len() int { return 0 }

// Add adds real nodes under their own names and returns the id of the first.
func (s *Cluster) Add(nodes ...Node) int { return 0 }

// AddCopies adds n fresh copies of a template, each with a name and a hostname
// label of its own, and returns the id of the first.
func (s *Cluster) AddCopies(template Node, n int) int { return 0 }

// Place puts up to count pods equal to pod on the nodes lo..hi (hi exclusive),
// first fit in id order.
func (s *Cluster) Place(pod *v1.Pod, count, lo, hi int) ([]Placement, error) { return nil, nil }

// PlaceOnNew opens up to maxNodes fresh copies of template as needed, each with
// a name and a hostname label of its own, and places up to count pods on them,
// first fit in the order of opening. A node on which not even one pod fits is
// not opened.
func (s *Cluster) PlaceOnNew(template Node, pod *v1.Pod, count, maxNodes int) ([]Placement, error) {
	return nil, nil
}

// NodeName returns the name of a node; copies of templates have made-up names.
func (s *Cluster) NodeName(id int) string { return "" }

// PodCount returns how many pods are on a node, those it came with included.
func (s *Cluster) PodCount(id int) int { return 0 }
