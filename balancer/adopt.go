package balancer

import (
	"cmp"

	"github.com/evenkeel/evenkeel/replica"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// requested is the last number of replicas that was asked for, to be stored in the status.
func (p *pass) requested() *int32 {
	if asked := cmp.Or(p.in.Spec.Replicas, p.in.Status.RequestedReplicas); asked != nil {
		return new(*asked)
	}
	return nil
}

// total is how many replicas must be distributed: those asked for now or last, or else those
// found. The number found is not known while the size of a target is not known, or while replicas
// may be copies of others, of which one is going to leave.
func (p *pass) total() (n int32, known bool) {
	if asked := p.requested(); asked != nil {
		return max(0, *asked), true
	}
	if p.decided() {
		return p.expected(), !meta.IsStatusConditionTrue(p.in.Status.Conditions, v1alpha1.ConditionOverflow)
	}
	return p.found()
}

// decided reports whether the status comes from a decision about a number of replicas that the
// status does not have.
func (p *pass) decided() bool {
	balanced := meta.FindStatusCondition(p.in.Status.Conditions, v1alpha1.ConditionBalanced)
	return balanced != nil && balanced.Reason != ReasonReplicasNotSet && balanced.Reason != ReasonInvalidSpec && len(p.in.Status.Targets) > 0
}

// expected is how many replicas the targets were expected to run: without copies of pending
// replicas, and with one of the two replicas of each move.
func (p *pass) expected() int32 {
	var sum int64
	for _, t := range p.in.Status.Targets {
		sum += int64(t.Desired - t.Pending)
	}
	return replica.Clip(sum)
}

// found is how many replicas the targets ask for, without those that have not started in time:
// others may run in their place. It is not known while replicas are starting, or while a target
// does not exist, because it may be created next.
func (p *pass) found() (n int32, known bool) {
	known = true
	var sum int64
	for _, t := range p.targets {
		s := t.status
		sum += int64(s.Current - s.NotStarted)
		starting := p.in.Spec.Policy.Fallback != nil && s.Running < s.Current-s.NotStarted
		known = known && !starting && s.Reason != ReasonUnknown && s.Reason != ReasonMissing
	}
	return replica.Clip(sum), known
}
