package autoscaler

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/predicates"
)

// World is the cluster that Cluster Autoscaler reads, and changes, through the API server. What is
// returned is never changed by either side.
type World interface {
	// Nodes are the registered nodes, each with the pods bound to it, in a stable order.
	Nodes() []predicates.Node
	// Pending are the pods without a node that nodes are ordered for, in the order in which they
	// became pending. Their creation times are those of the clock.
	Pending() []*v1.Pod
	// Budgets are the PodDisruptionBudgets, always in the same order.
	Budgets() []removal.Budget
	// Evict evicts the pods of a node that is being deleted as far as their budgets allow, and says why
	// one is left; empty if none is. It is asked only with Options.Removal.
	Evict(node string) (held string)
	// SetDeleting puts the taint of a node that is being deleted on a node, or takes it off.
	SetDeleting(node string, deleting bool)
}
