package balancer

import (
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

const (
	// maxOverwrites is how often something else may change the size of a target before the target
	// is left alone.
	maxOverwrites = 3
	// forgetAfter is the time without a change after which earlier changes no longer count.
	forgetAfter = 10 * time.Minute
	// firstPause and lastPause bound how long a target is left alone after a change. The pause
	// doubles each time the size is changed again afterwards.
	firstPause, lastPause = 10 * time.Minute, 160 * time.Minute
)

// overwrites updates what is known about another writer of a target, such as an autoscaler of its
// own or somebody who keeps applying a manifest. The target is written again after the pause, or
// when the spec has changed. If the other one changes it then, the target is left alone at once,
// and for longer.
func overwrites(w *v1alpha1.BalancerOverwrites, changed bool, generation int64, t *podhealth.Timer) *v1alpha1.BalancerOverwrites {
	if w == nil {
		if !changed {
			return nil
		}
		t.At(t.Now.Add(forgetAfter))
		return &v1alpha1.BalancerOverwrites{Count: 1, LastTime: *podhealth.Stamp(t.Now), ObservedGeneration: generation}
	}
	if alone := w.LeftAloneUntil; alone != nil {
		switch {
		case changed:
			w.LastTime, w.LeftAloneUntil = *podhealth.Stamp(t.Now), podhealth.Stamp(t.Now.Add(pause(w.Count)))
		case w.ObservedGeneration != generation || !t.Now.Before(alone.Time):
			w.LastTime, w.LeftAloneUntil = *podhealth.Stamp(t.Now), nil
		}
	} else if changed {
		w.Count++
		w.LastTime = *podhealth.Stamp(t.Now)
		if w.Count >= maxOverwrites {
			w.LeftAloneUntil = podhealth.Stamp(t.Now.Add(pause(w.Count)))
		}
	}
	w.ObservedGeneration = generation
	end := w.LastTime.Add(forgetAfter)
	if w.LeftAloneUntil != nil {
		end = w.LeftAloneUntil.Time
	} else if !t.Now.Before(end) {
		return nil
	}
	t.At(end)
	return w
}

// storedOverwrites is what is stored about another writer, without times in the future.
func storedOverwrites(w *v1alpha1.BalancerOverwrites, now time.Time) *v1alpha1.BalancerOverwrites {
	if w == nil {
		return nil
	}
	w = w.DeepCopy()
	w.LastTime, w.LeftAloneUntil = *podhealth.NotAfter(&w.LastTime, now), podhealth.NotAfter(w.LeftAloneUntil, now.Add(lastPause))
	return w
}

// pause is how long a target is left alone that was changed so often.
func pause(count int32) time.Duration {
	return min(lastPause, firstPause<<min(count-maxOverwrites, 10))
}

func leftAlone(s v1alpha1.BalancerTargetStatus) bool {
	return s.Overwrites != nil && s.Overwrites.LeftAloneUntil != nil
}

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
