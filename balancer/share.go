package balancer

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/replica"
)

// share distributes the replicas, and sets what every target is to have.
func (p *pass) share(total int32) error {
	request, targets := p.request(total)
	result, err := apportion.Distribute(request)
	if err != nil {
		return err
	}
	rebalanced := result
	if !ptr.Deref(request.Rebalance, true) {
		request.Rebalance = nil
		if rebalanced, err = apportion.Distribute(request); err != nil {
			return err
		}
	}
	p.unplaced, p.excess = result.Unplaced, result.Excess
	for i, r := range result.Targets {
		t := targets[i]
		s := &t.status
		s.Desired, s.Pending = replica.Clip(r.Replicas), replica.Clip(r.Pending)
		if t.health.Pinned {
			continue
		}
		t.health.Assign(request.Targets[i], r, rebalanced.Targets[i], result.Unplaced, 1)
		if s.Desired, s.Pending = t.health.Desired, t.health.Pending; !t.health.Contested {
			s.Reason = replica.Reason(r.Reason)
			s.Message = message(*s)
		}
	}
	p.waiting = p.set().Waiting()
	return nil
}

// request is the Balancer as a request to package apportion. The second value are the targets in the
// order of the request's.
func (p *pass) request(total int32) (apportion.Request, []*target) {
	policy := &p.in.Spec.Policy
	r := apportion.Request{
		Replicas:  int64(total),
		Policy:    apportion.Proportional,
		Rounding:  apportion.Rounding(policy.Rounding),
		MinMode:   apportion.MinMode(policy.MinMode),
		Rebalance: policy.Rebalance,
		Relief:    apportion.Relief(policy.Relief),
		Key:       p.in.Key,
		TieBreak:  apportion.TieBreak(policy.TieBreak),
		Targets:   make([]apportion.Target, 0, len(p.targets)),
	}
	targets := make([]*target, len(p.targets))
	for i := range p.targets {
		targets[i] = &p.targets[i]
	}
	weight := func(name string) int64 { return int64(policy.Proportions.TargetProportions[name]) }
	if policy.PolicyName == v1alpha1.PriorityPolicyName {
		r.Policy = apportion.Priority
		weight = byPriority(targets, policy.Priorities.TargetOrder)
	}
	var of []*replica.Target
	for _, t := range targets {
		r.Targets, of = append(r.Targets, t.request(weight(t.spec.Name))), append(of, &t.health)
	}
	if !ptr.Deref(r.Rebalance, true) {
		replica.LeaveFirst(of, &r)
	}
	return r, targets
}

// byPriority sorts the targets that are named to the front, in the order of their names, and returns
// the weights: 1 for them, 0 for the others.
func byPriority(targets []*target, named []string) func(name string) int64 {
	rank := make(map[string]int, len(named))
	for i, name := range named {
		rank[name] = i - len(named)
	}
	slices.SortStableFunc(targets, func(a, b *target) int { return cmp.Compare(rank[a.spec.Name], rank[b.spec.Name]) })
	return func(name string) int64 { return int64(min(1, -rank[name])) }
}

// request is the target in a request to package apportion. A pinned target keeps its size; others
// run the part of it that it is not able to run.
func (t *target) request(weight int64) apportion.Target {
	out := apportion.Target{
		Name:   t.spec.Name,
		Weight: new(weight),
		Min:    int64(ptr.Deref(t.spec.MinReplicas, 0)),
		Max:    new(apportion.MaxReplicas),
	}
	switch size := int64(t.health.Now.Size); {
	case t.health.Pinned:
		out.Min, *out.Max = size, size
	case t.spec.MaxReplicas != nil:
		*out.Max = int64(*t.spec.MaxReplicas)
	}
	t.health.Limit(&out)
	return out
}

// reasons are the reasons of package apportion in words.
var reasons = map[string]string{
	replica.Reason(apportion.ReasonCapacity): "it runs all that it is able to",
	replica.Reason(apportion.ReasonMax):      "it has its maximum",
	replica.Reason(apportion.ReasonMin):      "it has its minimum",
	replica.Reason(apportion.ReasonSticky):   "replicas stay where they are",
	replica.Reason(apportion.ReasonOrder):    "its place in the order",
	replica.Reason(apportion.ReasonWeight):   "its share of the proportions",
}

func why(s v1alpha1.BalancerTargetStatus) string { return reasons[s.Reason] }

// missing names the targets whose replicas have not started, as a part of why another target grows.
// It names three at most.
func (p *pass) missing() string {
	var blocked []string
	for _, t := range p.targets {
		if t.status.Pending > 0 && t.status.Capacity != nil {
			blocked = append(blocked, t.spec.Name)
		}
	}
	if len(blocked) == 0 {
		return ""
	}
	return ", and replicas of " + spelling.List(blocked, 3) + " have not started"
}

// message explains what a target is to have.
func message(s v1alpha1.BalancerTargetStatus) string {
	text := why(s)
	if s.Capacity != nil {
		text += "; it is known to be able to run " + replicas(int64(*s.Capacity))
	}
	if s.NotStarted > 0 {
		text += fmt.Sprintf("; %d have not started in time", s.NotStarted)
	}
	return text
}
