package balancer

import (
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// requested is the last number of replicas that was asked for, to be remembered.
func (p *pass) requested() *int32 {
	if p.in.Spec.Replicas != nil {
		return new(*p.in.Spec.Replicas)
	}
	if before := p.in.Status.RequestedReplicas; before != nil {
		return new(*before)
	}
	return nil
}

// total is how many replicas are to be shared: those asked for now, or last, or else those found. What is found is not known
// as long as a target has not told its size, or replicas may be copies of others, of which one is going to leave.
func (p *pass) total() (n int32, known bool) {
	if asked := p.requested(); asked != nil {
		return max(0, *asked), true
	}
	if p.decided() {
		return p.due(), !meta.IsStatusConditionTrue(p.in.Status.Conditions, v1alpha1.ConditionOverflow)
	}
	return p.found()
}

// decided tells whether the status is of a decision about replicas that were asked for, of which it does not have the number.
func (p *pass) decided() bool {
	balanced := meta.FindStatusCondition(p.in.Status.Conditions, v1alpha1.ConditionBalanced)
	return balanced != nil && balanced.Reason != BecauseNotAdopted && balanced.Reason != BecauseInvalidSpec && len(p.in.Status.Targets) > 0
}

// due is what the targets were to run: no copy of what is pending, and one half of each move.
func (p *pass) due() int32 {
	var sum int64
	for _, t := range p.in.Status.Targets {
		sum += int64(t.Desired - t.Pending)
	}
	return clip(sum)
}

// found is what the targets ask for, but for replicas that have not started in time: others may run in their place. It waits
// for those that still have time. A target that does not exist yet may be created next.
func (p *pass) found() (n int32, known bool) {
	known = true
	var sum int64
	for _, t := range p.targets {
		s := t.status
		sum += int64(s.Current - s.NotStarted)
		starting := p.in.Spec.Policy.Fallback != nil && s.Running < s.Current-s.NotStarted
		known = known && !starting && s.Reason != ReasonUnknown && s.Reason != ReasonMissing
	}
	return clip(sum), known
}
