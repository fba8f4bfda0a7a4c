package balancer

import (
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// contested says why a target is left alone, and what to do about it.
func contested(s v1alpha1.BalancerTargetStatus) string {
	w := s.Overwrites
	return fmt.Sprintf("something else also writes its size, %d times so far: remove its HorizontalPodAutoscaler, or spec.replicas from its manifest, or the target from the Balancer; "+
		"it is left as it is until %s, or until the Balancer is changed", w.Count, w.LeftAloneUntil.UTC().Format(time.RFC3339))
}

// overwritten reports whether something else than the Balancer has changed the size since the last
// decision.
func overwritten(o TargetObservation, before *v1alpha1.BalancerTargetStatus) bool {
	switch before.Reason {
	case "", ReasonUnreadable, ReasonUnknown, ReasonMissing, ReasonConflict:
		return false
	}
	written := o.Written != nil && o.Replicas == *o.Written
	return !written && o.Replicas != before.Current && o.Replicas != before.Desired
}
