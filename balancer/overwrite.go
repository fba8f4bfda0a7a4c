package balancer

import (
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
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
func overwrites(w *v1alpha1.BalancerOverwrites, changed bool, generation int64, t *podhealth.Timer) *v1alpha1.BalancerOverwrites {
	if w == nil {
		if !changed {
			return nil
		}
		t.At(t.Now.Add(forgiven))
		return &v1alpha1.BalancerOverwrites{Count: 1, LastTime: *podhealth.Stamp(t.Now), ObservedGeneration: generation}
	}
	if alone := w.LeftAloneUntil; alone != nil {
		switch {
		case changed:
			w.LastTime, w.LeftAloneUntil = *podhealth.Stamp(t.Now), podhealth.Stamp(t.Now.Add(peace(w.Count)))
		case w.ObservedGeneration != generation || !t.Now.Before(alone.Time):
			w.LastTime, w.LeftAloneUntil = *podhealth.Stamp(t.Now), nil
		}
	} else if changed {
		w.Count++
		w.LastTime = *podhealth.Stamp(t.Now)
		if w.Count >= patientRounds {
			w.LeftAloneUntil = podhealth.Stamp(t.Now.Add(peace(w.Count)))
		}
	}
	w.ObservedGeneration = generation
	end := w.LastTime.Add(forgiven)
	if w.LeftAloneUntil != nil {
		end = w.LeftAloneUntil.Time
	} else if !t.Now.Before(end) {
		return nil
	}
	t.At(end)
	return w
}

// past is what is remembered of another writer without times in the future.
func past(w *v1alpha1.BalancerOverwrites, now time.Time) *v1alpha1.BalancerOverwrites {
	if w == nil {
		return nil
	}
	w = w.DeepCopy()
	w.LastTime, w.LeftAloneUntil = *podhealth.NotAfter(&w.LastTime, now), podhealth.NotAfter(w.LeftAloneUntil, now.Add(lastPeace))
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
func overwritten(o TargetObservation, before *v1alpha1.BalancerTargetStatus) bool {
	switch before.Reason {
	case "", ReasonUnreadable, ReasonUnknown, ReasonMissing, ReasonConflict:
		return false
	}
	written := o.Written != nil && o.Replicas == *o.Written
	return !written && o.Replicas != before.Current && o.Replicas != before.Desired
}
