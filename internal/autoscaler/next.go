package autoscaler

import (
	"time"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// Next says when a loop may decide otherwise although nothing has happened in the world and in the
// cloud: something is on its way, the last loop failed to scale up, or a wait ends. waits is false if nothing of that kind is ahead.
func (a *Autoscaler) Next() (at time.Time, waits bool) {
	now := a.clock.Now()
	pending := a.world.Pending()
	if a.underWay() || len(pending) > 0 && (a.scaleUpErr != nil ||
		a.choices.left(now, max(a.options.ProvisionTime, a.registry.backoffs.Max))) {
		return now, true
	}
	consider := func(t time.Time) {
		if t.After(now) && (!waits || t.Before(at)) {
			at, waits = t, true
		}
	}
	for _, pod := range pending {
		consider(pod.CreationTimestamp.Add(podsAreNew))
	}
	for _, r := range a.openRequests() {
		due := r.dueAt().Add(time.Nanosecond)
		if !due.After(now) {
			return now, true
		}
		consider(due)
	}
	if len(pending) > 0 {
		for _, failure := range a.registry.backoffs.Failures() {
			consider(failure.Until.Add(time.Nanosecond))
		}
		for _, n := range a.world.Nodes() {
			if template.IsHealthy(n.Node) { // it becomes the template of its group
				consider(lastChange(n.Node).Add(stabilization + time.Nanosecond))
			}
		}
	}
	if a.options.Removal != nil {
		consider(a.downNext)
	}
	return at, waits
}

// underWay reports whether something was ordered that has not come, or that must be taken back.
func (a *Autoscaler) underWay() bool {
	s := a.registry
	if len(s.requests) > 0 || len(s.unregistered) > 0 {
		return true
	}
	for _, r := range s.perGroup {
		if r.notStarted > 0 {
			return true
		}
	}
	for _, w := range s.wrong {
		if w.registered < w.target {
			return true
		}
	}
	for _, g := range a.remote.NodeGroups() {
		if len(notCreated(s.current[g.ID])) > 0 {
			return true
		}
	}
	return false
}
