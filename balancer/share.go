package balancer

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/replica"
)

// share distributes the replicas, and sets what every target is to have.
func (p *pass) share() error {
	request, targets := p.request()
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
		h, s := &t.health, &t.status
		if h.Pinned {
			h.Desired, h.Pending = replica.Clip(r.Replicas), replica.Clip(r.Pending)
		} else {
			h.Assign(request.Targets[i], r, rebalanced.Targets[i], result.Unplaced, 1)
		}
		s.Desired, s.Pending = h.Desired, h.Pending
		if !h.Pinned && !h.Contested {
			s.Reason = replica.Reason(r.Reason)
			s.Message = message(*s)
		}
	}
	p.waiting = p.set().Waiting()
	return nil
}

// request is the Balancer as a request to package apportion. The second value are the targets in the
// order of the request's.
func (p *pass) request() (apportion.Request, []*target) {
	policy := &p.in.Spec.Policy
	r := apportion.Request{
		Replicas:  int64(p.asked),
		Policy:    apportion.Proportional,
		Rounding:  apportion.Rounding(policy.Rounding),
		MinMode:   apportion.MinMode(policy.MinMode),
		Rebalance: policy.Rebalance,
		Relief:    apportion.Relief(policy.Relief),
		Key:       p.in.Key,
		TieBreak:  apportion.TieBreak(policy.TieBreak),
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
		Name: t.spec.Name, Weight: &weight, Min: int64(ptr.Deref(t.spec.MinReplicas, 0)), Max: new(apportion.MaxReplicas),
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

// set are the targets as package replica knows them.
func (p *pass) set() *replica.Set {
	s := &replica.Set{
		Asked: int64(p.asked), AskedBefore: p.in.Status.RequestedReplicas, Unplaced: p.unplaced,
		Limit: p.in.Spec.Policy.MaxMovesPerMinute, Moves: p.moves,
	}
	for i := range p.targets {
		t := &p.targets[i]
		t.health.Size, t.health.Unknown = t.status.Current, t.status.Reason == ReasonUnknown
		s.Targets = append(s.Targets, &t.health)
	}
	return s
}

// pace takes the targets towards their desired sizes, as far as replicas may leave now, and returns
// what to write.
func (p *pass) pace() []Write {
	set := p.set()
	walked := set.Advance(&p.timer)
	p.held, p.moves = walked.Held, set.Moves
	var blocked []string
	for _, t := range p.targets {
		if t.status.Pending > 0 && t.status.Capacity != nil {
			blocked = append(blocked, t.spec.Name)
		}
	}
	var writes []Write
	for i := range p.targets {
		t := &p.targets[i]
		if t.health.Pinned || t.health.Contested {
			continue
		}
		to := replica.Clip(walked.Sizes[i])
		if to != t.status.Current {
			w := Write{Target: t.spec.Name, From: t.status.Current, To: to, Moves: replica.Clip(walked.Moves[i]), Why: why(t.status)}
			if w.To > w.From && t.status.Capacity == nil {
				w.Why += replica.Elsewhere(blocked)
			}
			writes = append(writes, w)
		}
		t.health.Now.Resize(to, p.startup, &p.timer)
		t.record()
	}
	replica.GrowFirst(writes, func(w Write) int64 { return int64(w.To) - int64(w.From) })
	return writes
}

func why(s v1alpha1.BalancerTargetStatus) string {
	return replica.Why(s.Reason, "its share of the proportions")
}

func message(s v1alpha1.BalancerTargetStatus) string {
	text := why(s)
	if s.Capacity != nil {
		text += "; it is known to be able to run " + replicas(*s.Capacity)
	}
	if s.NotStarted > 0 {
		text += fmt.Sprintf("; %d have not started in time", s.NotStarted)
	}
	return text
}
