package balancer

import (
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// contested says why a target is not written, and what to do about it.
func contested(s v1alpha1.BalancerTargetStatus) string {
	w := s.Overwrites
	return fmt.Sprintf("something else also writes its size, %d times so far: remove its HorizontalPodAutoscaler, or spec.replicas from its manifest, or the target from the Balancer; "+
		"what it has beyond its share does not count, and it is written again at %s, or when the Balancer is changed", w.Count, w.LeftAloneUntil.UTC().Format(time.RFC3339))
}

// overwritten reports whether something else than the Balancer has changed the size since the last
// decision.
func overwritten(o TargetObservation, before *v1alpha1.BalancerTargetStatus) bool {
	switch before.Reason {
	case "", ReasonUnreadable, ReasonUnknown, ReasonMissing, ReasonConflict:
		return false
	}
	if o.Written != nil && o.Replicas == *o.Written {
		return false
	}
	// A size in between is one that the Balancer wrote and did not get to store.
	return o.Replicas < min(before.Current, before.Desired) || o.Replicas > max(before.Current, before.Desired)
}
