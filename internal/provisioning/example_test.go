package provisioning_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/internal/provisioning"
)

// A pod has triggered a scale-up. Half a minute later the autoscaler says that no node is on its way.
func ExampleOf() {
	noon := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", UID: "7d1e"},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(noon),
		}}},
	}
	events := []v1.Event{{
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Name: "web-0", UID: "7d1e"},
		Reason:         "TriggeredScaleUp", Message: "pod triggered scale-up: [{spot-a 3->4 (max: 10)}]",
		FirstTimestamp: metav1.NewTime(noon.Add(8 * time.Second)),
	}}
	show := func(status *provisioning.Status, now time.Time) {
		scaleUp, known := provisioning.Of(pod, events, status, now)
		fmt.Println(known, scaleUp.Acting, scaleUp.Since.Format(time.TimeOnly))
	}
	show(nil, noon.Add(10*time.Second))

	status, err := provisioning.ParseStatus(`
time: 2026-06-01 12:00:40.1 +0000 UTC
nodeGroups:
- name: spot-a
  scaleUp: {status: Backoff, lastTransitionTime: "2026-06-01T12:00:40Z"}
`)
	if err != nil {
		fmt.Println(err)
	}
	show(&status, noon.Add(45*time.Second))
	// Output:
	// true true 12:00:08
	// true false 12:01:10
}
