package simulate

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/spelling"
)

// leftAlone determines which pods the autoscaler orders no node for, and keeps those that are not reported yet.
type leftAlone struct {
	filter autoscaler.PodFilter
	fresh  []*pod // not reported yet
	any    bool   // there was one
	// outside are daemon set and static pods that do not run: they are not counted.
	outside []*pod
}

// sort determines whether a new pod is left alone.
func (a *leftAlone) sort(p *pod) {
	if p.why, p.reason = a.filter.LeftAlone(p.object); p.why != "" && p.node == nil {
		a.fresh, a.any = append(a.fresh, p), true
	}
}

// mayBeBound reports whether the simulated scheduler considers a pod.
func (p *pod) mayBeBound() bool {
	switch p.why {
	case autoscaler.Gated, autoscaler.BeingDeleted:
		return false
	case autoscaler.OtherScheduler:
		return p.object.Spec.SchedulerName == "" || p.object.Spec.SchedulerName == v1.DefaultSchedulerName
	default:
		return true
	}
}

// schedulable are the pending pods that the scheduler considers, in order of arrival.
func (c *cluster) schedulable() []*pod {
	return c.those((*pod).mayBeBound)
}

// helped are the pending pods that nodes are ordered for, in order of arrival, those of buffers, and
// those that still have to leave their node.
func (c *cluster) helped() []*pod {
	helped := c.those(func(p *pod) bool { return p.why == "" })
	moving := c.moving()
	if len(c.buffers)+len(moving) == 0 {
		return helped
	}
	return slices.Concat(append([][]*pod{helped, moving}, c.buffers...)...)
}

func (c *cluster) those(wanted func(*pod) bool) []*pod {
	waiting := c.waiting()
	if !c.leftAlone.any {
		return waiting
	}
	chosen, _ := partition(waiting, wanted)
	return chosen
}

// reportLeftAlone adds rows about new pods that the autoscaler leaves alone.
func (s *simulation) reportLeftAlone() {
	rows := leftAloneRows(s.cluster.leftAlone.fresh)
	s.cluster.leftAlone.fresh = nil
	for _, r := range rows {
		row := s.timeline.once(s.elapsed(), v1alpha1.RowLeftAlone, moreLikeIt(r.Example, r.Pods)+": "+r.Reason)
		row.Pods, row.Example, row.Reason = r.Pods, r.Example, r.Reason
		s.leftAlone = append(s.leftAlone, r)
	}
}

// leftAloneRows groups pods left alone by reason, in order of arrival.
func leftAloneRows(pods []*pod) []v1alpha1.PendingReport {
	var rows []v1alpha1.PendingReport
	at := map[string]int{}
	for _, p := range pods {
		i, known := at[p.reason]
		if !known {
			i = len(rows)
			at[p.reason] = i
			rows = append(rows, v1alpha1.PendingReport{Reason: p.reason, LeftAlone: string(p.why)})
		}
		countIn(&rows[i], p)
	}
	return rows
}

// defaultGracePeriod is the grace period in seconds of a deleted pod that does not set one.
const defaultGracePeriod = 30

// gracePeriod is how long a pod that is being deleted at the start still exists.
func gracePeriod(p *v1.Pod) time.Duration {
	return time.Duration(ptr.Deref(p.DeletionGracePeriodSeconds, defaultGracePeriod)) * time.Second
}

func (s *simulation) deleteTerminated() {
	gone, still := partition(s.controllers.terminating, func(p *pod) bool { return gracePeriod(p.object) <= s.elapsed() })
	if s.controllers.terminating = still; len(gone) == 0 {
		return
	}
	s.cluster.remove(gone)
	s.agenda.roundDue, s.agenda.bindDue = true, true
	row := s.timeline.add(s.elapsed(), v1alpha1.RowPods, "%s left (deleted before the start)", spelling.Count(len(gone), "pod"))
	row.Reason, row.Pods = v1alpha1.PodsLeft, len(gone)
}
