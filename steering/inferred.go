package steering

import (
	"cmp"
	"maps"
	"time"
)

// InferredReadyAfter is how long after its registration a node counts as ready where readiness is
// inferred.
const InferredReadyAfter = time.Minute

// inferred learns which nodes are registered from the questions of Cluster Autoscaler, which asks
// for the group of every registered node once per loop. It does not ask about readiness, so a node
// counts as ready a while after it was first seen.
type inferred map[string]askedAbout // by provider id

// askedAbout is when a node was asked about first and last.
type askedAbout struct{ first, last time.Time }

// Saw is Cluster Autoscaler asking for the group of a node, by its provider id.
type Saw struct{ ProviderID string }

func (e Saw) apply(s *State) Answer {
	if id := e.ProviderID; id != "" {
		s.nodes.inferred[id] = askedAbout{cmp.Or(s.nodes.inferred[id].first, s.now), s.now}
	}
	return Answer{}
}

// forget drops nodes that have not been asked about for a while.
func (i inferred) forget(before time.Time) {
	maps.DeleteFunc(i, func(_ string, node askedAbout) bool { return node.last.Before(before) })
}

func (i inferred) nodes(now time.Time) map[string]NodeState {
	out := make(map[string]NodeState, len(i))
	for id, node := range i {
		out[id] = NodeState{ProviderID: id, Created: node.first, Ready: now.Sub(node.first) >= InferredReadyAfter}
	}
	return out
}
