package replica

import (
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// LeftAlone reports whether a target is not written now because something else keeps changing it: the two
// would go on overwriting each other.
func LeftAlone(w *v1alpha1.ReplicaOverwrites) bool { return w != nil && w.LeftAloneUntil != nil }

// NewlyLeftAlone reports whether a target is left alone for the first time since it was last written by
// nobody else.
func NewlyLeftAlone(before, now *v1alpha1.ReplicaOverwrites) bool {
	return LeftAlone(now) && (before == nil || before.Count < maxOverwrites)
}

const (
	// maxOverwrites is how often something else may change a target before that is corrected less often.
	maxOverwrites = 3
	// forgetAfter is the time without a change after which earlier changes no longer count.
	forgetAfter = 10 * time.Minute
	// firstPause and lastPause bound how long a target is left alone after a change. The pause
	// doubles each time the target is changed again afterwards.
	firstPause, lastPause = time.Minute, 10 * time.Minute
)

// UpdateOverwrites returns what is known about another writer of a target, such as an autoscaler of its
// own or somebody who keeps applying a manifest: w updated, or nil if there is none. The target is
// written again after the pause, or when the generation of the spec has changed. If the other one
// changes it then, the target is left alone at once, and for longer.
func UpdateOverwrites(w *v1alpha1.ReplicaOverwrites, changed bool, generation int64, t *podhealth.Timer) *v1alpha1.ReplicaOverwrites {
	if w == nil || !LeftAlone(w) && !t.Now.Before(w.LastTime.Add(forgetAfter)) {
		w = &v1alpha1.ReplicaOverwrites{}
	}
	switch alone := w.LeftAloneUntil; {
	case changed:
		if w.LastTime, w.LeftAloneUntil = *podhealth.Stamp(t.Now), nil; alone == nil {
			w.Count++
		}
		if w.Count >= maxOverwrites {
			w.LeftAloneUntil = podhealth.Stamp(t.Now.Add(min(lastPause, firstPause<<min(w.Count-maxOverwrites, 10))))
		}
	case w.Count == 0:
		return nil
	case alone != nil && (w.ObservedGeneration != generation || !t.Now.Before(alone.Time)):
		w.LastTime, w.LeftAloneUntil = *podhealth.Stamp(t.Now), nil
	}
	w.ObservedGeneration = generation
	end := w.LastTime.Add(forgetAfter)
	if w.LeftAloneUntil != nil {
		end = w.LeftAloneUntil.Time
	}
	t.At(end)
	return w
}

// StoredOverwrites returns a copy of what was stored about another writer, without times in the future.
func StoredOverwrites(w *v1alpha1.ReplicaOverwrites, now time.Time) *v1alpha1.ReplicaOverwrites {
	if w == nil {
		return nil
	}
	w = new(*w)
	w.LastTime, w.LeftAloneUntil = *podhealth.NotAfter(&w.LastTime, now), podhealth.NotAfter(w.LeftAloneUntil, now.Add(lastPause))
	return w
}
