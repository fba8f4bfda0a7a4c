package predicates

import v1 "k8s.io/api/core/v1"

// Reason tells why a pod does not fit a template.
type Reason struct {
	// Plugin is the scheduler plugin that rejects, such as NodeResourcesFit or
	// PodTopologySpread.
	Plugin string
	// Message is the plugin's own text.
	Message string
}

// StateDependent tells whether the rejection comes from the pods and nodes of
// the cluster (spread constraints, pod affinity) rather than from the template:
// it may pass once the cluster has changed.
func (r Reason) StateDependent() bool {
	return r.Plugin == "PodTopologySpread" || r.Plugin == "InterPodAffinity"
}

// Kind is a set of pods that are equal to the scheduler's filters.
type Kind struct {
	// Pod stands for all of them: the first in input order.
	Pod *v1.Pod
	// Pods are their positions in the input, ascending.
	Pods []int
}

// Fit tells which kinds of pods pass which templates.
type Fit struct{}

// Fits answers which pods pass which template, were one node of the template
// added to the cluster.
func (c *Checker) Fits(cluster, templates []Node, pods []*v1.Pod) (*Fit, error) {
	return &Fit{}, nil
}

// Kinds returns the kinds in order of their first pod.
func (f *Fit) Kinds() []Kind { return nil }

// KindOf returns the index in Kinds of the pod at the given position.
func (f *Fit) KindOf(pod int) int { return 0 }

// Passes tells whether pods of the kind fit a fresh node of the template.
func (f *Fit) Passes(template, kind int) bool { return false }

// Reasons tells why pods of the kind do not fit the template, one per failing
// message; nil where they fit.
func (f *Fit) Reasons(template, kind int) []Reason { return nil }
