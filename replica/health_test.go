package replica

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/podhealth"
)

// timeout is how long replicas may take to start, stable how long a target must run well until it
// counts as recovered.
const timeout, stable = 5 * time.Minute, 5 * time.Minute

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// pods makes some that run and some that have been pending for an hour.
func pods(run, pending int) []podhealth.Pod {
	var all []podhealth.Pod
	for range run {
		all = append(all, podhealth.Pod{Created: noon.Add(-time.Hour), Phase: v1.PodRunning, Ready: true, WasReady: true})
	}
	for range pending {
		all = append(all, podhealth.Pod{Created: noon.Add(-time.Hour), Phase: v1.PodPending})
	}
	return all
}

// The pod counts of the proposal's implementation are among these: all, running, not started in
// time.
func TestObserve(t *testing.T) {
	failed := podhealth.Pod{Created: noon.Add(-time.Hour), Phase: v1.PodFailed}
	young := podhealth.Pod{Created: noon.Add(-time.Minute), Phase: v1.PodPending}
	short := func(since time.Duration) Health {
		return Health{Running: 2, BelowSizeSince: podhealth.Stamp(noon.Add(-since))}
	}
	for name, c := range map[string]struct {
		before              Health
		size                int32
		pods                []podhealth.Pod
		running, notStarted int32
		next                time.Duration // after noon; 0 for never
	}{
		"all run":                          {size: 2, pods: pods(2, 0), running: 2},
		"one has been pending for long":    {size: 1, pods: pods(0, 1), notStarted: 1, next: timeout + 1},
		"one of several, and one failed":   {size: 3, pods: append(pods(2, 1), failed), running: 2, notStarted: 1, next: timeout + 1},
		"one is young":                     {size: 3, pods: append(pods(2, 0), young), running: 2, next: timeout - time.Minute + 1},
		"one too many":                     {size: 2, pods: append(pods(2, 1), young), running: 2, next: timeout - time.Minute + 1},
		"one is not created":               {size: 3, pods: pods(2, 0), running: 2, next: timeout + 1},
		"one is not created for some time": {before: short(time.Minute), size: 3, pods: pods(2, 0), running: 2, next: timeout - time.Minute + 1},
		"one is not created in time":       {before: short(timeout + time.Second), size: 3, pods: pods(2, 0), running: 2, notStarted: 1},
		"one is new, the target short": {before: short(timeout + time.Second), size: 3, pods: append(pods(2, 0), young), running: 2,
			notStarted: 1},
		"a time in the future": {before: short(-time.Hour), size: 3, pods: pods(2, 0), running: 2, next: timeout + 1},
	} {
		t.Run(name, func(t *testing.T) {
			timer := podhealth.Timer{Now: noon}
			h := observe(c.before, c.size, c.pods, timeout, &timer)
			if h.Size != c.size || h.Running != c.running || h.NotStarted != c.notStarted {
				t.Errorf("%+v; want %d running, %d not started", h, c.running, c.notStarted)
			}
			if c.next == 0 && !timer.Next.IsZero() || c.next > 0 && timer.Next.Sub(noon) != c.next {
				t.Errorf("next %v, want %v", timer.Next.Sub(noon), c.next)
			}
		})
	}
}

// Without a timeout replicas may take any time.
func TestObserveWithoutTimeout(t *testing.T) {
	timer := podhealth.Timer{Now: noon}
	before := Health{Running: 1, BelowSizeSince: podhealth.Stamp(noon.Add(-24 * time.Hour))}
	h := observe(before, 4, pods(1, 2), 0, &timer)
	if want := (Health{Size: 4, Running: 1, BelowSizeSince: before.BelowSizeSince}); h != want || !timer.Next.IsZero() {
		t.Errorf("%+v, next %v; want %+v", h, timer.Next, want)
	}
}

// The time for replicas that are added begins when they are asked for.
func TestResize(t *testing.T) {
	timer := podhealth.Timer{Now: noon}
	h := Health{Size: 10, Running: 10}
	h.Resize(12, timeout, &timer)
	if h.Size != 12 || !h.BelowSizeSince.Equal(podhealth.Stamp(noon)) || timer.Next.Sub(noon) != timeout+1 {
		t.Errorf("%+v, next %v", h, timer.Next)
	}
	timer = podhealth.Timer{Now: noon.Add(time.Minute)}
	h.Resize(11, timeout, &timer)
	if !h.BelowSizeSince.Equal(podhealth.Stamp(noon)) || timer.Next.Sub(noon) != timeout+1 {
		t.Errorf("still short: %+v, next %v", h, timer.Next)
	}
	if h.Resize(10, timeout, &timer); h.BelowSizeSince != nil {
		t.Errorf("all run: %+v", h)
	}
}

// observe is Observe with pods that are not counted yet.
func observe(before Health, size int32, pods []podhealth.Pod, timeout time.Duration, t *podhealth.Timer) Health {
	return Observe(before, size, podhealth.Count(pods, timeout, t.Now), t)
}
