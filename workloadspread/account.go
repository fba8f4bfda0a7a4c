package workloadspread

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// onItsWay is how long after its admission a pod that is not there is not on its way any more if the
// workload has no need of another one.
const onItsWay = 3 * time.Second

// mostOnTheirWay is how many pods that are not there a recount leaves counted at the most, the latest ones: a quota may
// refuse pods after they were admitted, and the status must not grow with each of them.
const mostOnTheirWay = 1000

// Expiry is when the first of the pods that were admitted does not count as such any more; zero if there
// is none.
func Expiry(spec *v1alpha1.WorkloadSpreadSpec, status *v1alpha1.WorkloadSpreadStatus) (first time.Time) {
	for _, row := range status.VersionedSubsetStatuses {
		for i := range row {
			for _, at := range row[i].CreatingPods {
				if end := at.Add(creatingTimeout(spec)); first.IsZero() || end.Before(first) {
					first = end
				}
			}
		}
	}
	return first
}

// Awaited reports whether a pod is among those that a WorkloadSpread has admitted and not counted yet.
func Awaited(s *v1alpha1.WorkloadSpread, pod *v1.Pod) bool {
	a, ok := AssignmentOf(pod)
	i := indexOf(&s.Spec, a.Subset)
	if !ok || a.Name != s.Name || i < 0 {
		return false
	}
	row := s.Status.VersionedSubsetStatuses[RevisionOf(pod)]
	if i >= len(row) {
		return false
	}
	_, is := row[i].CreatingPods[cmp.Or(a.ID, pod.Name)]
	return is
}

func creatingTimeout(spec *v1alpha1.WorkloadSpreadSpec) time.Duration {
	return time.Duration(ptr.Deref(spec.CreatingTimeoutSeconds, v1alpha1.DefaultCreatingTimeoutSeconds)) * time.Second
}

// Recount counts the pods of the workload, which were just read from the API server, before a pod of a
// revision is admitted: the place of a pod is free once it is being deleted or gone. The controller may have
// seen less than these pods, so those that it may not have counted stay among the pods that are being
// created. If the workload has all the pods that it asks for with those that are not there, some of them
// never came, or it would not create another one: they do not count any more after a moment, or at once
// if no subset has room otherwise. Of very many, the first do not count any more after a moment in any case. It returns
// how many that are not there are counted.
func Recount(s State, name, revision string, pods []*v1.Pod) (counted *v1alpha1.WorkloadSpreadStatus, absent int32) {
	status := *s.Status
	s.Status = &status
	c := s.counts()
	missing, _ := c.recount(members(s.Spec, name, pods), true)
	absent = int32(len(missing)) //nolint:gosec // of one workload
	complete := c.complete(revision)
	for i, e := range missing {
		past := s.Now.Sub(e.at.Time) >= onItsWay
		if complete && !past {
			at, _ := c.choose(NewPod{Revision: revision})
			past = at < 0
		}
		if past && (complete || i < len(missing)-mostOnTheirWay) {
			delete(c.rows[e.revision][e.subset].CreatingPods, e.id)
			absent--
		}
	}
	return c.stored(), absent
}

// entry is a pod that was admitted.
type entry struct {
	id, revision string
	subset       int
	at           metav1.Time
}

// recount counts pods. Those that were admitted lately stay among the ones that are being created if
// they are there, unless all have seen them. It returns those that are not there, the oldest first, and those that
// do not count any more because they have not come in time.
func (c *counts) recount(pods []*member, unseen bool) (missing, late []entry) {
	before := c.rows
	c.rows, c.Status.Unassigned = map[string][]v1alpha1.WorkloadSubsetCount{}, 0
	there := map[string]*member{}
	for _, m := range pods {
		there[m.id] = m
		switch {
		case m.active && m.subset >= 0:
			c.row(m.revision)[m.subset].Replicas++
		case m.active:
			c.Status.Unassigned++
		}
	}
	for _, revision := range slices.Sorted(maps.Keys(before)) {
		for i := range before[revision] {
			for _, id := range slices.Sorted(maps.Keys(before[revision][i].CreatingPods)) {
				at := *podhealth.NotAfter(new(before[revision][i].CreatingPods[id]), c.Now)
				e, m, inTime := entry{id, revision, i, at}, there[id], c.Now.Before(at.Add(creatingTimeout(c.Spec)))
				switch counted := m != nil && m.active; {
				case counted && (!unseen || !inTime || m.subset != i || m.revision != revision), m != nil && !counted && m.id != m.Name:
					continue // it happened
				case counted:
					c.row(revision)[i].Replicas--
				case !inTime:
					late = append(late, e)
					continue
				default:
					missing = append(missing, e)
				}
				count := &c.row(revision)[i]
				if count.CreatingPods == nil {
					count.CreatingPods = map[string]metav1.Time{}
				}
				count.CreatingPods[id] = at
			}
		}
	}
	slices.SortStableFunc(missing, func(a, b entry) int { return a.at.Compare(b.at.Time) })
	return missing, late
}

// account counts the pods. Of what was admitted, it keeps what the pods do not show yet, until that
// times out.
func (p *pass) account() {
	_, late := p.counts.recount(p.all, false)
	for _, e := range late {
		p.decision.Events.Add(v1.EventTypeWarning, ReasonCreationTimedOut, "",
			"a pod of subset %s was admitted %d seconds ago and is not there: it does not count any more",
			p.Spec.Subsets[e.subset].Name, int(creatingTimeout(p.Spec).Seconds()))
	}
	if p.Workload.Revision != "" {
		p.counts.row(p.Workload.Revision)
	}
	p.timer.At(Expiry(p.Spec, &v1alpha1.WorkloadSpreadStatus{VersionedSubsetStatuses: p.counts.rows}))
}
