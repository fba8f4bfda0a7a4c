package steering

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// InferredReadyAfter is how long after its registration a node counts as ready where readiness is
// inferred.
const InferredReadyAfter = time.Minute

// inferred learns which nodes are registered from the questions of Cluster Autoscaler, which asks
// for the group of every registered node once per loop. It does not ask about readiness, so a node
// counts as ready a while after it was first seen.
type inferred struct {
	first map[string]time.Time // by provider id
	last  map[string]time.Time
}

// Saw records that Cluster Autoscaler has asked for the group of a node.
func (s *Machine) Saw(node *v1.Node) { s.inferred.saw(node, s.now) }

// saw notes a node Cluster Autoscaler asked about.
func (i *inferred) saw(node *v1.Node, now time.Time) {
	id := node.Spec.ProviderID
	if id == "" || cloudprovider.IsFakeNode(node) {
		return
	}
	if i.first == nil {
		i.first, i.last = map[string]time.Time{}, map[string]time.Time{}
	}
	if _, known := i.first[id]; !known {
		i.first[id] = now
	}
	i.last[id] = now
}

// forget drops nodes that have not been asked about for a while.
func (i *inferred) forget(before time.Time) {
	for id, last := range i.last {
		if last.Before(before) {
			delete(i.first, id)
			delete(i.last, id)
		}
	}
}

func (i *inferred) nodes(now time.Time) map[string]NodeState {
	out := make(map[string]NodeState, len(i.first))
	for id, first := range i.first {
		out[id] = NodeState{ProviderID: id, Created: first, Ready: now.Sub(first) >= InferredReadyAfter}
	}
	return out
}
