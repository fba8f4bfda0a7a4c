package document_test

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
)

func TestLatest(t *testing.T) {
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	at := func(minutes int) metav1.Time { return metav1.NewTime(noon.Add(time.Duration(minutes) * time.Minute)) }
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(1), DeletionTimestamp: new(at(9))}}
	spread := &v1alpha1.WorkloadSpread{Status: v1alpha1.WorkloadSpreadStatus{
		SubsetStatuses: []v1alpha1.WorkloadSubsetStatus{{UnschedulableUntil: new(at(9)),
			Conditions: []metav1.Condition{{LastTransitionTime: at(2)}}}},
		VersionedSubsetStatuses: map[string][]v1alpha1.WorkloadSubsetCount{"a": {{CreatingPods: map[string]metav1.Time{"web-1": at(3)}}}},
	}}
	event := v1.Event{EventTime: metav1.NewMicroTime(noon.Add(4 * time.Minute))}
	for name, test := range map[string]struct {
		objects []any
		want    time.Time
	}{
		"nothing":              {nil, time.Time{}},
		"no time":              {[]any{&v1.Pod{}, (*v1.Node)(nil)}, time.Time{}},
		"not what lies ahead":  {[]any{pod}, at(1).Time},
		"in maps and lists":    {[]any{pod, spread}, at(3).Time},
		"of microseconds":      {[]any{spread, []v1.Event{event}, pod}, at(4).Time},
		"a time on its own":    {[]any{at(5).Time, event}, at(5).Time},
		"the order is nothing": {[]any{event, at(5).Time}, at(5).Time},
	} {
		if got := document.Latest(test.objects...); !got.Equal(test.want) {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
