package autoscalerstatus_test

import (
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
)

func ExampleParse() {
	status, err := autoscalerstatus.Parse(`
autoscalerStatus: Running
time: 2026-06-01 12:00:40.519207846 +0000 UTC
nodeGroups:
- name: workers-a
  health:
    status: Healthy
    nodeCounts: {longUnregistered: 0, registered: {ready: 3, notStarted: 1}, unregistered: 1}
    cloudProviderTarget: 5
    minSize: 1
    maxSize: 10
  scaleUp: {status: InProgress, lastTransitionTime: "2026-06-01T12:00:10Z"}
- name: workers-b
  health: {status: Healthy, nodeCounts: {registered: {ready: 2}}, cloudProviderTarget: 2, maxSize: 10}
  scaleUp:
    status: Backoff
    backoffInfo: {errorCode: QUOTA_EXCEEDED, errorMessage: no more in this zone}
    lastTransitionTime: "2026-06-01T12:00:20Z"
`)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("loop of", status.Time.Format(time.TimeOnly))
	for _, g := range status.Groups {
		fmt.Printf("%s: target %d of %d to %d, %d ready", g.Name, g.Target, g.MinSize, g.MaxSize, g.Ready)
		if b := g.Backoff; b != nil {
			fmt.Printf(", left alone since %s: %s: %s", b.Since.Format(time.TimeOnly), b.Code, b.Message)
		}
		fmt.Println()
	}
	// Output:
	// loop of 12:00:40
	// workers-a: target 5 of 1 to 10, 3 ready
	// workers-b: target 2 of 0 to 10, 2 ready, left alone since 12:00:20: QUOTA_EXCEEDED: no more in this zone
}
