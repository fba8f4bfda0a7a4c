package reconcile

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/federation/members"
)

// lag is by how much the watches of the pods and ReplicaSets of a cluster may be behind that of its local
// objects.
const lag = 2 * time.Second

// shrunk is a smaller number that was written to a cluster, whose controllers delete pods a moment later.
// Until then those pods seem to run. If a larger number is written meanwhile, they would count as if they
// were to stay, and others would leave elsewhere in their place.
type shrunk struct {
	// least is the smallest number that was written, and at when the last one was.
	least int32
	at    time.Time
	// acted is since when the controllers are known to have acted on all that was written; zero if they
	// are not.
	acted time.Time
}

// shrinks notes what a smaller number may take away.
func (s *sent) shrinks(w federation.Write, now time.Time) {
	if w.To >= w.From {
		return
	}
	to := shrunk{least: w.To, at: now}
	if before, ok := s.shrunk[w.Cluster]; ok {
		to.least = min(to.least, before.least)
	}
	s.shrunk[w.Cluster] = to
}

// staying is how many pods in a cluster no smaller number takes away that was written; nil for all of
// them. Controllers that do not say that they have acted are waited for as long as a write that does not
// show.
func (o *outbox) staying(key types.NamespacedName, cluster string, acted bool, now time.Time) *int32 {
	s := o.lock(key)
	defer o.mu.Unlock()
	to, ok := s.shrunk[cluster]
	if !ok {
		return nil
	}
	switch _, unseen := s.letters[cluster]; {
	case !acted || unseen:
		to.acted = time.Time{}
	case to.acted.IsZero():
		to.acted = now
	}
	if now.Sub(to.at) > patience || !to.acted.IsZero() && now.Sub(to.acted) > lag {
		delete(s.shrunk, cluster)
		return nil
	}
	s.shrunk[cluster] = to
	return &to.least
}

// acted reports whether the controllers of a cluster have said that they know the local object that was
// last seen: they delete no pods any more for an earlier one.
func acted(c *members.Cluster, f *v1alpha1.FederatedReplicaSet) bool {
	if kindOf(f) == members.Deployment {
		d := c.Deployment(f.Namespace, f.Name)
		return d != nil && actedOn(d, c.ReplicaSetsOf(d))
	}
	r := c.ReplicaSet(f.Namespace, f.Name)
	return r != nil && r.Status.ObservedGeneration >= r.Generation
}

// actedOn is acted for a Deployment: its number is passed on to its ReplicaSets, and that is known.
func actedOn(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) bool {
	if d.Status.ObservedGeneration < d.Generation {
		return false
	}
	left := ptr.Deref(d.Spec.Replicas, 1)
	for _, r := range sets {
		if r.Status.ObservedGeneration < r.Generation {
			return false
		}
		left -= ptr.Deref(r.Spec.Replicas, 1)
	}
	return left == 0
}
