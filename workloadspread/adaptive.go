package workloadspread

import (
	"cmp"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// late is a pod that cannot be scheduled in its subset.
type late struct {
	*member
	since time.Time // when that was certain
}

// MovesOn returns when a pod of a subset, by index, moves on if the scheduler has found no node for it
// until then: after the critical time, and after what the autoscaler does about it, if that is known,
// has ended or taken too long. It is false if the pod does not wait for a node, or stays in any case.
func MovesOn(spec *v1alpha1.WorkloadSpreadSpec, pod *v1.Pod, subset int, scaleUp ScaleUp,
	known bool) (critical, until time.Time, moves bool) {
	a := spec.ScheduleStrategy.Adaptive
	if spec.ScheduleStrategy.Type != v1alpha1.ScheduleAdaptive || a == nil || ptr.Deref(a.RescheduleCriticalSeconds, 0) == 0 {
		return time.Time{}, time.Time{}, false
	}
	since, waiting := UnschedulableSince(pod)
	if !waiting || subset < 0 || subset == len(spec.Subsets)-1 {
		return time.Time{}, time.Time{}, false
	}
	critical = since.Add(time.Duration(*a.RescheduleCriticalSeconds) * time.Second)
	until = critical
	if known && waits(spec) {
		begun := scaleUp.Since
		if scaleUp.Acting {
			begun = begun.Add(time.Duration(ptr.Deref(a.AutoscalerTimeoutSeconds, v1alpha1.DefaultAutoscalerTimeoutSeconds)) * time.Second)
		}
		if begun.After(until) {
			until = begun
		}
	}
	return critical, until, true
}

// timedOut are the pods that move on: the scheduler has found no node for the critical time, and no
// node is on its way, or has been so for too long. They are in the order in which they move. The
// last subset has none.
func (p *pass) timedOut() []late {
	var out []late
	for _, m := range p.pods {
		scaleUp, known := p.Autoscaler[m.UID]
		critical, until, moves := MovesOn(p.Spec, m.Pod, m.subset, scaleUp, known)
		if !moves {
			continue
		}
		if p.Now.Before(until) {
			if !p.Now.Before(critical) {
				p.decision.Deferred++
			}
			p.timer.At(until)
			continue
		}
		out = append(out, late{m, until})
	}
	slices.SortStableFunc(out, func(a, b late) int { return cmp.Or(cmp.Compare(a.subset, b.subset), a.since.Compare(b.since)) })
	return out
}

// mark lets new pods pass over the subsets with pods that cannot be scheduled, from the last time that
// one was so. Marks that have expired are removed.
func (p *pass) mark(timedOut []late) {
	window := v1alpha1.DefaultUnschedulableSeconds
	if a := p.Spec.ScheduleStrategy.Adaptive; a != nil {
		window = ptr.Deref(a.UnschedulableSeconds, window)
	}
	until := map[int]time.Time{}
	for _, l := range timedOut {
		end := l.since.Add(time.Duration(window) * time.Second)
		if !end.After(p.Now) {
			end = p.Now.Add(time.Duration(window) * time.Second) // nobody looked for long
		}
		if end.After(until[l.subset]) {
			until[l.subset] = end
		}
	}
	for i := range p.Spec.Subsets {
		s := p.subsetStatus(i)
		s.UnschedulableUntil = podhealth.NotAfter(s.UnschedulableUntil, p.Now.Add(time.Duration(window)*time.Second))
		was := p.marked(i)
		if end := stamp(until[i]); !until[i].IsZero() && (!was || end.After(s.UnschedulableUntil.Time)) {
			s.UnschedulableUntil = &end
		}
		if !p.marked(i) {
			s.UnschedulableUntil = nil
			meta.SetStatusCondition(&s.Conditions, p.newCondition(v1alpha1.ConditionSchedulable, true, ReasonSchedulable,
				"new pods may go to the subset"))
			continue
		}
		meta.SetStatusCondition(&s.Conditions, p.newCondition(v1alpha1.ConditionSchedulable, false, ReasonUnschedulable,
			"pods could not be scheduled: new pods pass over the subset for a while"))
		if !was {
			p.decision.Events.Add(v1.EventTypeWarning, ReasonUnschedulable, "", "pods of subset %s cannot be scheduled: new pods pass over it",
				s.Name)
		}
		p.timer.At(s.UnschedulableUntil.Time)
	}
}

// subsetStatus is the status of a subset, which is added if there is none.
func (p *pass) subsetStatus(i int) *v1alpha1.WorkloadSubsetStatus {
	name := p.Spec.Subsets[i].Name
	if p.subset(name) == nil {
		p.status.SubsetStatuses = append(p.status.SubsetStatuses, v1alpha1.WorkloadSubsetStatus{Name: name})
	}
	return p.subset(name)
}

// moveOn deletes the pods that cannot be scheduled, not too many within a minute.
func (p *pass) moveOn(timedOut []late) {
	if len(timedOut) == 0 {
		return
	}
	recent := int32(0)
	if r := p.status.Reschedules; r != nil {
		r.LastTime = *podhealth.NotAfter(&r.LastTime, p.Now)
		if p.Now.Before(r.LastTime.Add(time.Minute)) {
			recent = r.Count
		}
	}
	left := max(0, ptr.Deref(p.Spec.ScheduleStrategy.Adaptive.MaxReschedulesPerMinute, v1alpha1.DefaultMaxReschedulesPerMinute)-recent)
	moved := min(left, int32(len(timedOut)))
	for _, l := range timedOut[:moved] {
		p.decision.Delete = append(p.decision.Delete, Deletion{l.Pod, "could not be scheduled in subset " + p.Spec.Subsets[l.subset].Name})
	}
	if moved > 0 {
		p.status.Reschedules = &v1alpha1.ReplicaMoves{Count: recent + moved, LastTime: stamp(p.Now)}
	}
	if int(moved) < len(timedOut) && p.status.Reschedules != nil {
		p.timer.At(p.status.Reschedules.LastTime.Add(time.Minute))
	}
}
