package schedule_test

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/schedule"
)

// A cluster without nodes has no room, and nobody to bring some unless that is said.
func ExampleSimulator_Room() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0"}}
	for _, autoscaler := range []schedule.Autoscaler{schedule.AutoscalerAuto, schedule.AutoscalerAlways} {
		s, err := schedule.New(context.Background(), schedule.Options{Autoscaler: autoscaler, Timeout: 1e10})
		if err != nil {
			fmt.Println(err)
			return
		}
		room := s.Room(context.Background(), []*v1.Pod{pod})
		fmt.Println(room[0] == workloadspread.RoomNone, room[0] == workloadspread.RoomByAutoscaler)
	}
	// Output:
	// true false
	// false true
}
