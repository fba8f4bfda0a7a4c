package live_test

import (
	"context"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/internal/provisioning/live"
)

// The condition of a pod says what the autoscaler does about it, so the API server is not asked.
func ExampleReader_ScaleUps() {
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", UID: "7d1e"},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{
			{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(noon)},
			{Type: provisioning.ConditionType, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(8 * time.Second))},
		}},
	}
	scaleUps, err := live.New(nil, clock.RealClock{}).ScaleUps(context.Background(), []*v1.Pod{pod})
	if err != nil {
		fmt.Println(err)
	}
	fmt.Println(scaleUps["7d1e"].Acting, scaleUps["7d1e"].Since.Format(time.TimeOnly))
	// Output: true 12:00:08
}
