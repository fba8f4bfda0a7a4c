package balancer

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

const (
	// crashLoopBackOff is what the kubelet calls a container that it does not start again yet, because it crashed.
	crashLoopBackOff = "CrashLoopBackOff"
	// manyRestarts make a container that starts one that restarts again and again.
	manyRestarts = 3
	// steadyAfter is how long a container has to run to be no longer suspected; the kubelet forgets crashes likewise.
	steadyAfter = 10 * time.Minute
)

// Pod is what a decision needs to know of a pod.
type Pod struct {
	Created time.Time
	Phase   v1.PodPhase
	// Ready is the pod's condition; a running pod without such a condition counts as ready.
	Ready bool
	// ReadySince is since when it is ready; zero if it is not, or its condition does not say.
	ReadySince time.Time
	// WasReady tells that the pod is or once was ready: it has started, whatever became of it.
	WasReady bool
	// Terminating tells that the pod is being deleted.
	Terminating bool
	// CrashLooping tells that a container waits after a crash, or restarts again and again.
	CrashLooping bool
	// CrashLoopingSince is when that began, as far as can be known.
	CrashLoopingSince time.Time
	// SteadyAt is when a crash loop will count as over if nothing happens; zero while a container waits.
	SteadyAt time.Time
}

// Assess takes from a pod what a decision needs.
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
		p.crash(s)
	}
	if p.CrashLooping && (!p.WasReady || p.CrashLoopingSince.IsZero()) {
		p.CrashLoopingSince = p.Created
	}
	return p
}

// firstStart is the earliest start of a container that its status still tells of. A pod is not ready before: so one that
// became unready later than that was ready in between.
func firstStart(statuses []v1.ContainerStatus) time.Time {
	var first time.Time
	see := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	for _, s := range statuses {
		for _, state := range []v1.ContainerState{s.State, s.LastTerminationState} {
			if state.Running != nil {
				see(state.Running.StartedAt.Time)
			}
			if state.Terminated != nil {
				see(state.Terminated.StartedAt.Time)
			}
		}
	}
	return first
}

// crash takes in a container that is in a crash loop. The loop of the pod lasts from the earliest crash known to the end
// of the last loop.
func (p *Pod) crash(s v1.ContainerStatus) {
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
	// fine pods run, and have been ready once.
	fine podState = iota
	// starting pods have time left to become fine.
	starting
	// notStarted pods have had their time.
	notStarted
	// terminating pods are on their way out, and count for nothing.
	terminating
	// done pods have ended or are lost, and count for nothing.
	done
)

// patience says how long a replica may take to start.
type patience struct {
	// timeout is 0 where there is no limit.
	timeout time.Duration
	// belowSince is since when the target has not had what it asks for; zero while it has. It keeps the clock running for
	// pods that are deleted and created again.
	belowSince time.Time
}

// over tells whether what began then has had its time. The deadline itself still is in time.
func (p patience) over(since, now time.Time) bool {
	return p.timeout > 0 && (since.Add(p.timeout).Before(now) || p.exhausted(now))
}

// exhausted tells whether everything that is missing has had its time.
func (p patience) exhausted(now time.Time) bool {
	return p.timeout > 0 && !p.belowSince.IsZero() && p.belowSince.Add(p.timeout).Before(now)
}

// state is what the pod counts as now.
func (p Pod) state(now time.Time, limit patience) podState {
	looping := p.looping(now)
	switch {
	case p.Terminating:
		return terminating
	case p.Phase != v1.PodRunning && p.Phase != v1.PodPending && p.Phase != "":
		return done
	case p.Phase == v1.PodRunning && p.WasReady && !looping:
		return fine
	case limit.over(p.waitingSince(now), now):
		return notStarted
	}
	return starting
}

func (p Pod) looping(now time.Time) bool {
	return p.CrashLooping && (p.SteadyAt.IsZero() || now.Before(p.SteadyAt))
}

// waitingSince is since when a pod that is not fine has been on its way to become so.
func (p Pod) waitingSince(now time.Time) time.Time {
	if p.Phase == v1.PodRunning && p.looping(now) {
		return p.CrashLoopingSince
	}
	return p.Created
}
