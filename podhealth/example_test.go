package podhealth_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/podhealth"
)

// Two pods run, and one has waited for a node for longer than a pod may take to start.
func ExampleCount() {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	runs := podhealth.Pod{Created: now.Add(-time.Hour), Phase: v1.PodRunning, Ready: true, WasReady: true}
	waits := podhealth.Pod{Created: now.Add(-6 * time.Minute), Phase: v1.PodPending}
	counts := podhealth.Count([]podhealth.Pod{runs, runs, waits}, 5*time.Minute, now)
	fmt.Printf("%d of %d run, %d late\n", counts.Running, counts.Existing, counts.Late)
	// Output: 2 of 3 run, 1 late
}
