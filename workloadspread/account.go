package workloadspread

import (
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Expiry is when the first of the pods that were admitted, or whose deletion was, does not count as
// such any more; zero if there is none.
func Expiry(spec *v1alpha1.WorkloadSpreadSpec, status *v1alpha1.WorkloadSpreadStatus) (first time.Time) {
	for _, row := range status.VersionedSubsetStatuses {
		for i := range row {
			for _, c := range []struct {
				entries map[string]metav1.Time
				timeout int32
			}{{row[i].CreatingPods, creatingTimeout(spec)}, {row[i].DeletingPods, deletingTimeout(spec)}} {
				for _, entry := range c.entries {
					if _, at := expired(entry, c.timeout, time.Time{}); first.IsZero() || at.Before(first) {
						first = at
					}
				}
			}
		}
	}
	return first
}

func creatingTimeout(spec *v1alpha1.WorkloadSpreadSpec) int32 {
	return ptr.Deref(spec.CreatingTimeoutSeconds, v1alpha1.DefaultCreatingTimeoutSeconds)
}

func deletingTimeout(spec *v1alpha1.WorkloadSpreadSpec) int32 {
	return ptr.Deref(spec.DeletingTimeoutSeconds, v1alpha1.DefaultDeletingTimeoutSeconds)
}

// account counts the pods. Of what was admitted, it keeps what the pods do not show yet, until that
// times out.
func (p *pass) account() {
	before := p.counts
	p.counts = &counts{State: p.State, rows: map[string][]v1alpha1.WorkloadSubsetCount{}}
	p.status.Unassigned = 0
	ids, names := map[string]bool{}, map[string]*member{}
	for i := range p.pods {
		m := &p.pods[i]
		ids[m.id], names[m.Name] = true, m
		if m.subset < 0 {
			p.status.Unassigned++
			continue
		}
		p.counts.row(m.revision)[m.subset].Replicas++
	}
	if p.Workload.Revision != "" {
		p.counts.row(p.Workload.Revision)
	}
	for _, revision := range slices.Sorted(maps.Keys(before.rows)) {
		for i := range p.Spec.Subsets {
			was, subset := before.of(revision, i), p.Spec.Subsets[i].Name
			creating := p.keep(was.CreatingPods, creatingTimeout(p.Spec), func(id string) bool { return ids[id] }, func(string) {
				p.decision.Events.Add(v1.EventTypeWarning, ReasonCreationTimedOut, "", "a pod of subset %s was admitted %d seconds ago and is not there: it does not count any more", subset, creatingTimeout(p.Spec))
			})
			deleting := p.keep(was.DeletingPods, deletingTimeout(p.Spec), func(name string) bool {
				m := names[name]
				return m == nil || m.subset != i || m.revision != revision || m.CreationTimestamp.After(was.DeletingPods[name].Time) // a pod of that name is another one
			}, func(name string) {
				p.decision.Events.Add(v1.EventTypeWarning, ReasonDeletionTimedOut, name, "the deletion or eviction of pod %s was admitted %d seconds ago and it is still there: it counts again", name, deletingTimeout(p.Spec))
			})
			if creating != nil || deleting != nil {
				count := &p.counts.row(revision)[i]
				count.CreatingPods, count.DeletingPods = creating, deleting
			}
		}
	}
}

// keep keeps what was admitted and has not happened yet, until it is late.
func (p *pass) keep(entries map[string]metav1.Time, timeout int32, happened func(key string) bool, late func(key string)) (kept map[string]metav1.Time) {
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if happened(key) {
			continue
		}
		over, at := expired(entries[key], timeout, p.Now)
		if over {
			late(key)
			continue
		}
		if kept == nil {
			kept = map[string]metav1.Time{}
		}
		kept[key] = entries[key]
		p.timer.At(at)
	}
	return kept
}
