package linked

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestRetry: pods that follow others are tried until none finds a place any more; others are not tried again.
func TestRetry(t *testing.T) {
	spread := v1.PodSpec{TopologySpreadConstraints: []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.DoNotSchedule}}}
	soft := v1.PodSpec{TopologySpreadConstraints: []v1.TopologySpreadConstraint{{WhenUnsatisfiable: v1.ScheduleAnyway}}}
	attracted := v1.PodSpec{Affinity: &v1.Affinity{PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{}}}}}
	pods := []*v1.Pod{}
	for i, spec := range []v1.PodSpec{spread, {}, attracted, soft, spread, spread} {
		pods = append(pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i)}, Spec: spec})
	}
	var tries []string
	left, err := Retry(pods, func(pods []*v1.Pod) ([]*v1.Pod, error) {
		tries = append(tries, names(pods))
		if len(tries) == 3 {
			return pods, nil
		}
		return pods[:len(pods)-1], nil // the last one finds a node
	})
	if got := names(left); err != nil || got != "0 1 2 3" {
		t.Errorf("left %s, %v; want 0 1 2 3", got, err)
	}
	if want := []string{"0 2 4 5", "0 2 4", "0 2"}; !slices.Equal(tries, want) {
		t.Errorf("tried %q, want %q", tries, want)
	}
	if _, err := Retry(pods, func([]*v1.Pod) ([]*v1.Pod, error) { return nil, errors.New("boom") }); err == nil {
		t.Error("the error is lost")
	}
	if left, err := Retry(pods[1:2], nil); len(left) != 1 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

func names(pods []*v1.Pod) string {
	out := ""
	for i, pod := range pods {
		if i > 0 {
			out += " "
		}
		out += pod.Name
	}
	return out
}
