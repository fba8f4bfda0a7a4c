package expander

import (
	"iter"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/podfit"
)

// Option is one way to scale up: so many nodes of one node group for these pods.
type Option struct {
	// Group is the name of the node group.
	Group string

	// Set names the set of groups this option stands in. The options of one
	// set count as one choice. Empty: the option is a choice of its own.
	Set string

	// Members are the groups the nodes may be spread over, Group included, sorted.
	Members []string

	// NodeCount is the number of nodes the pods need, at least 1.
	NodeCount int

	// Pods are the pending pods that would run on the new nodes.
	Pods Pods

	// Template describes one new node.
	Template cloudprovider.Template

	// Requested is the sum of what the Pods request.
	Requested podfit.Resources

	// NodePrice is the price of one node for one hour, if HasPrice: a node may
	// well cost nothing.
	NodePrice cloudprovider.Price
	HasPrice  bool

	// Debug is free text for readers of the decision.
	Debug string
}

// Pods are the pending pods of an option, one Share per kind of pod.
//
// Thousands of options name the same tens of thousands of pods, so an option
// holds no list of its own: its shares point into the lists of the kinds.
type Pods []Share

// Share is the part of one kind of equal pods that an option places.
type Share struct {
	Kind int   // index of the kind
	Pods []int // indexes of pending pods: the first of the kind's own list. Shared, not to be changed.
}

// Len is the number of pods.
func (p Pods) Len() int {
	n := 0
	for _, share := range p {
		n += len(share.Pods)
	}
	return n
}

// All yields the index of every pod, kind after kind.
func (p Pods) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for _, share := range p {
			for _, pod := range share.Pods {
				if !yield(pod) {
					return
				}
			}
		}
	}
}
