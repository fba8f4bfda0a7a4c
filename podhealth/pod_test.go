package podhealth

import (
	"cmp"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func at(d time.Duration) metav1.Time { return metav1.NewTime(noon.Add(d)) }

func runs(from time.Duration) v1.ContainerState {
	return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: at(from)}}
}

func crashed(from, to time.Duration) v1.ContainerState {
	return v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: 1, StartedAt: at(from), FinishedAt: at(to)}}
}

var backOff = v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}

// A pod of an hour's age.
func podOf(phase v1.PodPhase, change func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(-time.Hour)}, Status: v1.PodStatus{Phase: phase}}
	if change != nil {
		change(p)
	}
	return p
}

func readiness(p *v1.Pod, status v1.ConditionStatus, since time.Duration) {
	p.Status.Conditions = append(p.Status.Conditions,
		v1.PodCondition{Type: v1.PodScheduled, Status: v1.ConditionTrue},
		v1.PodCondition{Type: v1.PodReady, Status: status, LastTransitionTime: at(since)})
}

func container(p *v1.Pod, restarts int32, now, before v1.ContainerState) {
	p.Status.ContainerStatuses = append(p.Status.ContainerStatuses,
		v1.ContainerStatus{RestartCount: restarts, State: now, LastTerminationState: before})
}

func TestPodStates(t *testing.T) {
	tests := map[string]struct {
		pod     *v1.Pod
		timeout time.Duration // 5m if 0
		want    podState
	}{
		"runs, nothing said of readiness": {pod: podOf(v1.PodRunning, nil), want: running},
		"ready": {pod: podOf(v1.PodRunning, func(p *v1.Pod) { readiness(p, v1.ConditionTrue, -time.Minute) }),
			want: running},
		"was ready, for an hour no more": {pod: podOf(v1.PodRunning, func(p *v1.Pod) {
			readiness(p, v1.ConditionFalse, -50*time.Minute)
			container(p, 0, runs(-55*time.Minute), v1.ContainerState{})
		}), want: running},
		"never ready": {pod: podOf(v1.PodRunning, func(p *v1.Pod) {
			readiness(p, v1.ConditionFalse, -time.Hour)
			container(p, 0, runs(-55*time.Minute), v1.ContainerState{})
		}), want: notStarted},
		"never ready, in time": {pod: podOf(v1.PodRunning, func(p *v1.Pod) {
			readiness(p, v1.ConditionFalse, -time.Hour)
			container(p, 0, runs(-55*time.Minute), v1.ContainerState{})
		}), timeout: 2 * time.Hour, want: starting},
		"pending for an hour":        {pod: podOf(v1.PodPending, nil), want: notStarted},
		"pending, no limit":          {pod: podOf(v1.PodPending, nil), timeout: -1, want: starting},
		"pending, to the deadline":   {pod: podOf(v1.PodPending, nil), timeout: time.Hour, want: starting},
		"pending, past the deadline": {pod: podOf(v1.PodPending, nil), timeout: time.Hour - 1, want: notStarted},
		"no phase yet":               {pod: podOf("", nil), timeout: 2 * time.Hour, want: starting},
		"succeeded":                  {pod: podOf(v1.PodSucceeded, nil), want: gone},
		"failed":                     {pod: podOf(v1.PodFailed, nil), want: gone},
		"unknown":                    {pod: podOf(v1.PodUnknown, nil), want: gone},
		"terminating": {
			pod: podOf(v1.PodRunning, func(p *v1.Pod) { p.DeletionTimestamp = new(at(0)) }), want: gone,
		},
		"pending and terminating": {
			pod: podOf(v1.PodPending, func(p *v1.Pod) { p.DeletionTimestamp = new(at(0)) }), want: gone,
		},
		"crash loop from the start": {pod: podOf(v1.PodRunning, func(p *v1.Pod) {
			readiness(p, v1.ConditionFalse, -time.Hour)
			container(p, 9, backOff, crashed(-2*time.Minute, -time.Minute))
		}), want: notStarted},
		"crash loop of a pod that ran, of late": {pod: podOf(v1.PodRunning, func(p *v1.Pod) {
			readiness(p, v1.ConditionFalse, -time.Minute)
			container(p, 9, backOff, crashed(-2*time.Minute, -time.Minute))
		}), want: starting},
		"crash loop, one container of two": {pod: podOf(v1.PodRunning, func(p *v1.Pod) {
			readiness(p, v1.ConditionFalse, -6*time.Minute)
			container(p, 0, runs(-time.Hour), v1.ContainerState{})
			container(p, 2, backOff, crashed(-7*time.Minute, -6*time.Minute))
		}), want: notStarted},
		"between two runs": {pod: podOf(v1.PodRunning, func(p *v1.Pod) {
			readiness(p, v1.ConditionTrue, -time.Minute)
			container(p, 3, crashed(-2*time.Minute, 0), crashed(-7*time.Minute, -6*time.Minute))
		}), want: notStarted},
		"restarts again and again": {pod: podOf(v1.PodRunning, func(p *v1.Pod) {
			readiness(p, v1.ConditionTrue, -time.Minute)
			container(p, 3, runs(-time.Minute), crashed(-10*time.Minute, -6*time.Minute))
		}), want: notStarted},
		"restarted a few times": {pod: podOf(v1.PodRunning, func(p *v1.Pod) {
			readiness(p, v1.ConditionTrue, -time.Minute)
			container(p, 2, runs(-time.Minute), crashed(-10*time.Minute, -6*time.Minute))
		}), want: running},
		"restarted often, steady since": {pod: podOf(v1.PodRunning, func(p *v1.Pod) {
			readiness(p, v1.ConditionTrue, -10*time.Minute)
			container(p, 9, runs(-10*time.Minute), crashed(-15*time.Minute, -11*time.Minute))
		}), want: running},
		"restarts once a day": {pod: podOf(v1.PodRunning, func(p *v1.Pod) {
			readiness(p, v1.ConditionTrue, -time.Minute)
			container(p, 9, runs(-time.Minute), crashed(-25*time.Hour, -2*time.Minute))
		}), want: running},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			limit := cmp.Or(tt.timeout, timeout)
			p := Assess(tt.pod)
			got := p.state(noon, limit)
			if got != tt.want {
				t.Errorf("state %d, want %d: %+v", got, tt.want, p)
			}
		})
	}
}

// A crash loop of two containers lasts until both are steady, and began with the first crash known.
func TestCrashLoopOfSeveralContainers(t *testing.T) {
	p := Assess(podOf(v1.PodRunning, func(p *v1.Pod) {
		readiness(p, v1.ConditionTrue, -time.Minute)
		container(p, 4, runs(-3*time.Minute), crashed(-10*time.Minute, -6*time.Minute))
		container(p, 4, runs(-time.Minute), crashed(-10*time.Minute, -4*time.Minute))
		container(p, 4, runs(-2*time.Minute), crashed(-10*time.Minute, -5*time.Minute))
	}))
	if want := noon.Add(-time.Minute + steadyAfter); !p.SteadyAt.Equal(want) {
		t.Errorf("steady at %v, want %v", p.SteadyAt, want)
	}
	if want := noon.Add(-6 * time.Minute); !p.CrashLoopingSince.Equal(want) {
		t.Errorf("since %v, want %v", p.CrashLoopingSince, want)
	}
	if p.state(p.SteadyAt, timeout) != running || p.state(p.SteadyAt.Add(-1), timeout) != notStarted {
		t.Error("the loop does not end when the last container is steady")
	}
}

func TestReadySince(t *testing.T) {
	for status, want := range map[v1.ConditionStatus]time.Time{v1.ConditionTrue: noon.Add(-time.Minute), v1.ConditionFalse: {}} {
		if p := Assess(podOf(v1.PodRunning, func(p *v1.Pod) { readiness(p, status, -time.Minute) })); !p.ReadySince.Equal(want) {
			t.Errorf("%s: ready since %v, want %v", status, p.ReadySince, want)
		}
	}
}
