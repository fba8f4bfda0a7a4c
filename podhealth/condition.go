package podhealth

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Condition is a condition without its times.
func Condition(kind string, holds bool, reason, message string) metav1.Condition {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message}
}

// Because is why a condition holds, or does not.
type Because struct{ Reason, Message string }

// Either is a condition without its times that holds for one reason, or does not for another one.
func Either(kind string, holds bool, yes, no Because) metav1.Condition {
	if !holds {
		yes = no
	}
	return Condition(kind, holds, yes.Reason, yes.Message)
}

// Conditions are the conditions to store: those of before, with the ones found in their places. The
// time of a condition changes only when its status does; one in the future becomes now.
func Conditions(before, found []metav1.Condition, generation int64, now time.Time) []metav1.Condition {
	conditions := append(make([]metav1.Condition, 0, len(before)+len(found)), before...)
	for i := range conditions {
		conditions[i].LastTransitionTime = *NotAfter(&conditions[i].LastTransitionTime, now)
	}
	for _, c := range found {
		c.ObservedGeneration, c.LastTransitionTime = generation, *Stamp(now)
		meta.SetStatusCondition(&conditions, c)
	}
	return conditions
}
