package podhealth

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	crashLoopBackOff = "CrashLoopBackOff" // of the kubelet, for a container that waits after a crash
	manyRestarts     = 3                  // after so many a container that has just started counts as crash looping
	steadyAfter      = 10 * time.Minute   // a container has to run so long; the kubelet resets its back-off then
)

// Pod is what a decision needs to know about a pod. Pods can be compared: an update that leaves the
// Pod equal changes nothing.
type Pod struct {
	Created time.Time
	Phase   v1.PodPhase
	// Ready is the Ready condition of the pod. A running pod without that condition counts as
	// ready.
	Ready bool
	// ReadySince is when the pod became ready; zero if it is not ready, or if the condition does
	// not say.
	ReadySince time.Time
	// WasReady reports that the pod is ready or once was: it has started, whatever happened to it
	// since.
	WasReady          bool
	Terminating       bool      // the pod is being deleted
	CrashLooping      bool      // a container waits after a crash, or restarts again and again
	CrashLoopingSince time.Time // when the crash loop began, as far as the status of the pod shows
	// SteadyAt is when the crash loop counts as over if no container crashes before; zero while a
	// container waits.
	SteadyAt time.Time
}

// Assess extracts from a pod what a decision needs.
func Assess(pod *v1.Pod) Pod {
	p := Pod{
		Created:     pod.CreationTimestamp.Time,
		Phase:       pod.Status.Phase,
		Ready:       pod.Status.Phase == v1.PodRunning,
		Terminating: pod.DeletionTimestamp != nil,
	}
	leftReady := false
	for _, c := range pod.Status.Conditions {
		if c.Type == v1.PodReady {
			if p.Ready = c.Status == v1.ConditionTrue; p.Ready {
				p.ReadySince = c.LastTransitionTime.Time
			}
			started := firstStart(pod.Status.ContainerStatuses)
			leftReady = !p.Ready && !started.IsZero() && c.LastTransitionTime.After(started)
		}
	}
	p.WasReady = p.Ready || leftReady
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		p.addCrashLoop(s)
	}
	if p.CrashLooping && (!p.WasReady || p.CrashLoopingSince.IsZero()) {
		p.CrashLoopingSince = p.Created
	}
	return p
}

// firstStart is the earliest start of a container that the statuses show. No pod is ready before
// that: if it became not ready later, it was ready in between.
func firstStart(statuses []v1.ContainerStatus) time.Time {
	var first time.Time
	for _, s := range statuses {
		for _, state := range []v1.ContainerState{s.State, s.LastTerminationState} {
			if r := state.Running; r != nil && !r.StartedAt.IsZero() {
				first = earlier(first, r.StartedAt.Time)
			}
			if t := state.Terminated; t != nil && !t.StartedAt.IsZero() {
				first = earlier(first, t.StartedAt.Time)
			}
		}
	}
	return first
}

// addCrashLoop adds a container that may be crash looping. The crash loop of the pod lasts from the
// earliest known crash to the end of the last container's crash loop.
func (p *Pod) addCrashLoop(s v1.ContainerStatus) {
	var steady time.Time
	last := s.LastTerminationState.Terminated
	switch {
	case s.State.Waiting != nil && s.State.Waiting.Reason == crashLoopBackOff:
	case s.RestartCount < manyRestarts:
		return
	case s.State.Running != nil && last != nil && last.FinishedAt.Sub(last.StartedAt.Time) < steadyAfter:
		steady = s.State.Running.StartedAt.Add(steadyAfter)
	case s.State.Terminated != nil && s.State.Terminated.ExitCode != 0:
	default:
		return
	}
	switch {
	case !p.CrashLooping:
		p.SteadyAt = steady
	case steady.IsZero() || p.SteadyAt.IsZero():
		p.SteadyAt = time.Time{}
	case steady.After(p.SteadyAt):
		p.SteadyAt = steady
	}
	p.CrashLooping = true
	if last != nil && (p.CrashLoopingSince.IsZero() || last.FinishedAt.Time.Before(p.CrashLoopingSince)) {
		p.CrashLoopingSince = last.FinishedAt.Time
	}
}

// podState is what a pod counts as.
type podState int

const (
	running    podState = iota // it has been ready once
	starting                   // it has time left
	notStarted                 // it has not started in time
	gone                       // it is being deleted, has ended or is lost, and does not count
)

// Passed reports whether what has lasted since then is past a timeout; 0 is no limit. At the deadline
// itself it is in time.
func Passed(since time.Time, timeout time.Duration, now time.Time) bool {
	return timeout > 0 && since.Add(timeout).Before(now)
}

// state is what the pod counts as now, if it may take so long to start.
func (p Pod) state(now time.Time, timeout time.Duration) podState {
	switch {
	case p.Terminating, p.Phase != v1.PodRunning && p.Phase != v1.PodPending && p.Phase != "":
		return gone
	case p.runs(now):
		return running
	case Passed(p.startingSince(now), timeout, now):
		return notStarted
	}
	return starting
}

// runs reports whether the pod runs, unless it is terminating.
func (p Pod) runs(now time.Time) bool {
	return p.Phase == v1.PodRunning && p.WasReady && !p.looping(now)
}

func (p Pod) looping(now time.Time) bool {
	return p.CrashLooping && (p.SteadyAt.IsZero() || now.Before(p.SteadyAt))
}

// startingSince is since when a pod that does not run has been starting.
func (p Pod) startingSince(now time.Time) time.Time {
	if p.Phase == v1.PodRunning && p.looping(now) {
		return p.CrashLoopingSince
	}
	return p.Created
}
