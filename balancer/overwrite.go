package balancer

import (
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

const (
	// patientRounds is how often something else may change the size of a target before it is left alone.
	patientRounds = 3
	// forgiven is after what time without a change the earlier ones count no more.
	forgiven = 10 * time.Minute
	// firstPeace and lastPeace bound for how long a target is left alone after a change; it doubles each time that it was of
	// no use.
	firstPeace, lastPeace = 10 * time.Minute, 160 * time.Minute
)

// overwrites brings up to date what is known of another writer of a target: an autoscaler of its own, somebody who applies a
// manifest again and again. A new spec or a time of peace have the target written again; whoever changes it then is let have
// it at once, and for longer.
func overwrites(o TargetObservation, before v1alpha1.BalancerTargetStatus, generation int64, t *timer) *v1alpha1.BalancerOverwrites {
	changed := overwritten(o, before)
	if before.Overwrites == nil {
		if !changed {
			return nil
		}
		t.at(t.now.Add(forgiven))
		return &v1alpha1.BalancerOverwrites{Count: 1, LastTime: *stamp(t.now), ObservedGeneration: generation}
	}
	w := before.Overwrites.DeepCopy()
	if alone := w.LeftAloneUntil; alone != nil {
		switch {
		case changed:
			w.LastTime, w.LeftAloneUntil = *stamp(t.now), stamp(t.now.Add(peace(w.Count)))
		case w.ObservedGeneration != generation || !t.now.Before(alone.Time):
			w.LastTime, w.LeftAloneUntil = *stamp(t.now), nil
		}
	} else if changed {
		w.Count++
		w.LastTime = *stamp(t.now)
		if w.Count >= patientRounds {
			w.LeftAloneUntil = stamp(t.now.Add(peace(w.Count)))
		}
	}
	w.ObservedGeneration = generation
	end := w.LastTime.Add(forgiven)
	if w.LeftAloneUntil != nil {
		end = w.LeftAloneUntil.Time
	} else if !t.now.Before(end) {
		return nil
	}
	t.at(end)
	return w
}

// peace is for how long a target is left alone that was changed so often.
func peace(count int32) time.Duration {
	return min(lastPeace, firstPeace<<min(count-patientRounds, 10))
}

func leftAlone(s v1alpha1.BalancerTargetStatus) bool {
	return s.Overwrites != nil && s.Overwrites.LeftAloneUntil != nil
}

// contested says why a target is left alone, and what to do about it.
func contested(s v1alpha1.BalancerTargetStatus) string {
	w := s.Overwrites
	return fmt.Sprintf("something else writes its size, too, %d times so far: remove its HorizontalPodAutoscaler, or spec.replicas from its manifest, or the target from the Balancer; "+
		"it is left as it is until %s, or until the Balancer is changed", w.Count, w.LeftAloneUntil.UTC().Format(time.RFC3339))
}

// overwritten tells whether the size is another one than the Balancer left, and none that it may have written.
func overwritten(o TargetObservation, before v1alpha1.BalancerTargetStatus) bool {
	switch before.Reason {
	case "", ReasonUnreadable, ReasonUnknown, ReasonMissing, ReasonConflict:
		return false
	}
	written := o.Written != nil && o.Replicas == *o.Written
	return !written && o.Replicas != before.Current && o.Replicas != before.Desired
}
