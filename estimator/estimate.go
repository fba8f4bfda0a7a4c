package estimator

import (
	"fmt"
	"math"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/predicates"
)

// NoLimit stands for a number of nodes without a bound.
const NoLimit = math.MaxInt

// Demand is a number of equal pods that want a place.
type Demand struct {
	Pod   *v1.Pod
	Count int
}

// Request is pods for new nodes of one template.
type Request struct {
	// Template is the node to open and the daemon set and static pods on it.
	Template predicates.Node

	// Class is equal for templates that take equally many of the same pods (for
	// example predicates.Fit.ClassOf, written as text), so that an Estimator works
	// out only one of them. Empty: nothing is shared.
	Class string

	// Demands are the pods to place. Larger pods are placed first; among
	// equally large ones the order here decides.
	Demands []Demand
}

// Estimation is how many nodes are needed and what runs on them.
type Estimation struct {
	NodeCount int   // new nodes, each with at least one pod
	Placed    []int // how many pods of each demand find a place
}

func (r *Request) validate() error {
	if r.Template.Node == nil {
		return fmt.Errorf("%w: the template has no node", ErrInvalidRequest)
	}
	for i, d := range r.Demands {
		if d.Pod == nil || d.Count < 0 {
			return fmt.Errorf("%w: demand %d: needs a pod and a count of 0 or more", ErrInvalidRequest, i)
		}
	}
	return nil
}

// pack packs the pods of a valid request on at most bound new nodes: first fit,
// the largest pods first, each placed only where the scheduler's own plugins let
// it run. The cluster is the world the new nodes come into; it is not changed.
//
// Equal pods are placed in bulk, so the work does not grow with their number,
// and it is bounded by nodes alone: the same input has the same answer on a
// fast machine and on a slow one.
func pack(cluster *predicates.Cluster, r Request, bound int) (layout, error) {
	cluster = cluster.Fork()
	first := cluster.Len()
	l := layout{bound: bound, runs: make([][]predicates.Placement, len(r.Demands))}
	l.Placed = make([]int, len(r.Demands))
	for _, i := range largestFirst(r.Template.Node, r.Demands) {
		d := &r.Demands[i]
		runs, err := cluster.Pack(r.Template, d.Pod, d.Count, first, bound-(cluster.Len()-first))
		if err != nil {
			return layout{}, fmt.Errorf("placing pods like %s/%s: %w", d.Pod.Namespace, d.Pod.Name, err)
		}
		for _, run := range runs {
			run.First -= first
			l.runs[i] = append(l.runs[i], run)
			l.Placed[i] += run.Nodes * run.PerNode
		}
		l.limited = l.limited || l.Placed[i] < d.Count
	}
	l.NodeCount = cluster.Len() - first
	l.limited = l.limited && l.NodeCount == bound
	return l, nil
}
