package workloadspread

import (
	"fmt"
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
		p.counts.edit(m.revision, m.subset).Replicas++
	}
	if p.Workload.Revision != "" {
		p.counts.row(p.Workload.Revision)
	}
	for _, revision := range slices.Sorted(maps.Keys(before.rows)) {
		for i := range p.Spec.Subsets {
			p.creating(revision, i, before.of(revision, i).CreatingPods, ids)
			p.deleting(revision, i, before.of(revision, i).DeletingPods, names)
		}
	}
}

// creating keeps the pods that have not been seen yet.
func (p *pass) creating(revision string, i int, entries map[string]metav1.Time, seen map[string]bool) {
	timeout := creatingTimeout(p.Spec)
	for _, id := range slices.Sorted(maps.Keys(entries)) {
		if seen[id] {
			continue
		}
		late, at := expired(entries[id], timeout, p.Now)
		if late {
			p.event(v1.EventTypeWarning, ReasonCreationTimedOut, "", fmt.Sprintf("a pod of subset %s was admitted %d seconds ago and is not there: it does not count any more", p.Spec.Subsets[i].Name, timeout))
			continue
		}
		count := p.counts.edit(revision, i)
		if count.CreatingPods == nil {
			count.CreatingPods = map[string]metav1.Time{}
		}
		count.CreatingPods[id] = entries[id]
		p.next(at)
	}
}

// deleting keeps the pods that are still there.
func (p *pass) deleting(revision string, i int, entries map[string]metav1.Time, names map[string]*member) {
	timeout := deletingTimeout(p.Spec)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		m := names[name]
		if m == nil || m.subset != i || m.revision != revision || m.CreationTimestamp.After(entries[name].Time) {
			continue // it is gone, and a pod of that name is another one
		}
		late, at := expired(entries[name], timeout, p.Now)
		if late {
			p.event(v1.EventTypeWarning, ReasonDeletionTimedOut, name, fmt.Sprintf("the deletion or eviction of pod %s was admitted %d seconds ago and it is still there: it counts again", name, timeout))
			continue
		}
		count := p.counts.edit(revision, i)
		if count.DeletingPods == nil {
			count.DeletingPods = map[string]metav1.Time{}
		}
		count.DeletingPods[name] = entries[name]
		p.next(at)
	}
}
