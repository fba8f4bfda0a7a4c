package simulate

import (
	"slices"
	"testing"

	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// TestNoPodWaitsThatCouldPreempt: once everything of an instant has happened, no pod waits for which others
// of lower priority would make room, and pods only lose their place to such as are more important.
func TestNoPodWaitsThatCouldPreempt(t *testing.T) {
	preempted := 0
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSetup(t)
		setup.Cloud.Outages, setup.ScaleDown, setup.Cloud.Quotas = nil, nil, nil // they take pods their place, too
		before := map[*pod]bool{}
		report := play(t, setup, func(s *simulation) {
			for _, p := range s.cluster.pods {
				if before[p] && !p.runs() && corev1.PodPriority(p.object) >= most(s.cluster.pods) {
					t.Fatalf("+%s: %s was preempted, and none is more important", s.elapsed(), p.object.Name)
				}
				before[p] = p.runs()
			}
			open := func(i int) bool { return s.cluster.nodes[i].ready }
			for _, p := range s.cluster.schedulable() {
				found, err := s.checker.Preemptor().Find(s.cluster.seen(), open, p.object, s.cluster.statuses())
				if err != nil || found != nil {
					t.Fatalf("+%s: %s of priority %d waits, though %v would make room: %v", s.elapsed(), p.object.Name, corev1.PodPriority(p.object),
						found, err)
				}
			}
		})
		if slices.ContainsFunc(report.Status.Timeline, func(row v1alpha1.TimelineRow) bool { return row.Reason == v1alpha1.PodsPreempted }) {
			preempted++
		}
	})
	if preempted == 0 && !testing.Short() { // a few worlds may be without
		t.Error("no pod was preempted")
	}
}

func most(pods []*pod) int32 {
	return corev1.PodPriority(slices.MaxFunc(pods,
		func(a, b *pod) int { return int(corev1.PodPriority(a.object) - corev1.PodPriority(b.object)) }).object)
}
