package podhealth

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
)

const timeout = 5 * time.Minute

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func TestProgress(t *testing.T) {
	pod := func(created, ready time.Duration) Pod {
		return Pod{Created: noon.Add(created), Phase: v1.PodRunning, Ready: true, WasReady: true, ReadySince: noon.Add(ready)}
	}
	bare := Pod{Created: noon.Add(-3 * time.Minute), Phase: v1.PodRunning, Ready: true, WasReady: true}
	for name, c := range map[string]struct {
		pods []Pod
		want time.Duration
	}{
		"the last counts":            {[]Pod{pod(-time.Hour, -50*time.Minute), pod(-9*time.Minute, -7*time.Minute), bare}, -3 * time.Minute},
		"when it became ready":       {[]Pod{pod(-9*time.Minute, -8*time.Minute)}, -8 * time.Minute},
		"not as long as it likes":    {[]Pod{pod(-9*time.Minute, -time.Minute)}, timeout - 9*time.Minute},
		"not in the future":          {[]Pod{pod(-time.Minute, time.Second), bare}, -3 * time.Minute},
		"what is created is no more": {[]Pod{bare, {Created: noon, Phase: v1.PodPending}}, -3 * time.Minute},
		"what crashes again and again": {[]Pod{bare, {Created: noon, Phase: v1.PodRunning, WasReady: true, CrashLooping: true}},
			-3 * time.Minute},
	} {
		if got := Count(c.pods, timeout, noon).Progress.Sub(noon); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
