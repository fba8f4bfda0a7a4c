package balancer

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

// Input is all that a decision depends on. Decide does not change it.
type Input struct {
	// Key is the namespace/name of the Balancer.
	Key        string
	Generation int64
	Spec       v1alpha1.BalancerSpec
	// Status is the one that the last decision returned, as stored.
	Status v1alpha1.BalancerStatus
	// Targets has one observation for each target of the spec, in any order.
	Targets []TargetObservation
	// Pods is how many pods the selector of the Balancer matches, without those that have ended or
	// are being deleted.
	Pods int32
	// Strays are the names of those that belong to no target; empty if a target could not be read.
	Strays []string
	// Conflicts has, by the name of a target that must not be written, why not and what to do about
	// it: another Balancer claims the same object, or two targets select the same pods.
	Conflicts map[string]string
	Now       time.Time
}

// TargetObservation is what was found on a target.
type TargetObservation struct {
	Name string
	// Err is why the target could not be read. If it is set, only Missing and Staying are read of the
	// other fields.
	Err error
	// Missing reports that Err means with certainty that the object does not exist.
	Missing bool
	// Replicas is spec.replicas of its Scale.
	Replicas int32
	// Written is the size that was written last, if the status may not have it; else nil.
	Written *int32
	// Pods are the pods that the selector of its Scale matches. Each pod belongs to one target
	// only.
	Pods []podhealth.Pod
	// Staying is how many of the pods stay for sure: of the others it is not known yet whether a
	// smaller size that was written a moment ago takes them away. Nil means all up to Replicas.
	Staying *int32
}

// Write is a size to be written to the Scale of a target.
type Write struct {
	Target   string
	From, To int32
	// Moves is how many running replicas leave the target for another one.
	Moves int32
	// Why explains the size in words.
	Why string
}

// Decision is what to do. A driver makes the writes in their order, stores the status, and asks
// again when something has changed, or at Next. It stores new moves before it makes the writes: if
// they were made and not stored, the limit would not hold.
type Decision struct {
	// Writes are first those that make a target larger, then those that make one smaller, each from
	// the largest change down.
	Writes []Write
	// Status is what to store if all writes succeed.
	Status v1alpha1.BalancerStatus
	// Events are what is new. Their reasons are constants of this package, and they are about targets.
	Events podhealth.Events
	// Adopt is what to store in spec.replicas if that is not set: the number that it last had, or
	// else the sum that was found on the targets. Nothing is written to the targets before it is
	// stored: the sum found later would be the one written.
	Adopt *int32
	// Next is when time alone may change the decision; zero for never.
	Next time.Time
}

// Decide returns what to write to the targets of a Balancer now, and what to store.
//
// An invalid spec is not an error: it becomes a condition and an event, and nothing is written.
// Decide returns an error if an observation is missing, or if it belongs to no target.
func Decide(in Input) (Decision, error) {
	if errs := Validate(in.Key, &in.Spec); len(errs) > 0 {
		return refuse(in, errs.ToAggregate().Error()), nil
	}
	p, err := newPass(in)
	if err != nil {
		return Decision{}, err
	}
	total, known := p.total()
	p.asked = total
	if err := p.share(total); err != nil {
		return Decision{}, fmt.Errorf("share the replicas of %s: %w", in.Key, err)
	}
	var d Decision
	switch {
	case in.Spec.Replicas != nil:
		d.Writes = p.pace()
	case known:
		d.Adopt = new(total)
	}
	d.Status = p.status()
	d.Status.Conditions = p.conditions(in.Status.Conditions, d.Status)
	d.Events = p.events(d.Writes)
	d.Next = p.timer.Next
	return d, nil
}

// A target is one target during a decision.
type target struct {
	spec v1alpha1.BalancerTarget
	// before is what the last decision stored; empty for a new target.
	before *v1alpha1.BalancerTargetStatus
	// status becomes what is stored. Its Current is first the size that was found, then the one
	// that is written.
	status v1alpha1.BalancerTargetStatus
	// found is the size that it has now.
	found int32
	// health is pinned if the target is not written.
	health replica.Target
}

// pass is the state of one decision.
type pass struct {
	in      Input
	targets []target
	timer   podhealth.Timer
	// asked is how many replicas are distributed.
	asked int32
	// unplaced and excess are those of package apportion. Of the unplaced replicas waiting do not run.
	unplaced, excess, waiting int64
	// held is how many replicas will leave later, when others run in their place.
	held int64
	// moves is the count of moves to store.
	moves *v1alpha1.ReplicaMoves
}

// newPass takes in the observations.
func newPass(in Input) (*pass, error) {
	p := &pass{in: in, timer: podhealth.Timer{Now: in.Now}, targets: make([]target, 0, len(in.Spec.Targets))}
	observed := make(map[string]*TargetObservation, len(in.Targets))
	for i := range in.Targets {
		observed[in.Targets[i].Name] = &in.Targets[i]
	}
	if len(observed) != len(in.Targets) || len(in.Targets) != len(in.Spec.Targets) {
		return nil, fmt.Errorf("%s: %d observations for %d targets", in.Key, len(in.Targets), len(in.Spec.Targets))
	}
	before := make(map[string]*v1alpha1.BalancerTargetStatus, len(in.Status.Targets))
	for i := range in.Status.Targets {
		before[in.Status.Targets[i].Name] = &in.Status.Targets[i]
	}
	var unknown v1alpha1.BalancerTargetStatus
	for _, spec := range in.Spec.Targets {
		o, ok := observed[spec.Name]
		if !ok {
			return nil, fmt.Errorf("%s: no observation of target %s", in.Key, spec.Name)
		}
		t := target{spec: spec, before: cmp.Or(before[spec.Name], &unknown), health: replica.Target{Staying: o.Staying}}
		p.look(&t, *o)
		p.targets = append(p.targets, t)
	}
	p.learn()
	if in.Spec.Policy.MaxMovesPerMinute != nil {
		p.moves = replica.StoredMoves(in.Status.Moves, in.Now)
	}
	return p, nil
}

// learn updates what is known about the capacities of the targets.
func (p *pass) learn() {
	targets := make([]*replica.Target, len(p.targets))
	for i := range p.targets {
		targets[i] = &p.targets[i].health
	}
	replica.Learn(targets, stabilization(p.in.Spec.Policy.Fallback), &p.timer)
	for i := range p.targets {
		t := &p.targets[i]
		t.record()
		t.found = t.status.Current
	}
}

// look takes in what was observed of a target.
func (p *pass) look(t *target, o TargetObservation) {
	if o.Missing {
		t.health.Pinned = true
		t.status = v1alpha1.BalancerTargetStatus{Name: t.spec.Name, Reason: ReasonMissing}
		t.status.Message = fmt.Sprintf("it does not exist, so others are to run its replicas: %v", o.Err)
		return
	}
	t.health.Before = healthOf(t.before)
	others := replica.StoredOverwrites(t.before.Overwrites, p.in.Now)
	if o.Err != nil {
		t.health.Now, t.health.Pinned, t.status = t.health.Before, true, *t.before
		t.status.Name, t.status.Reason, t.status.Overwrites = t.spec.Name, ReasonUnreadable, others
		t.status.Message = fmt.Sprintf("left as it is: %v", o.Err)
		if t.before.Name == "" || t.before.Reason == ReasonUnknown {
			t.status.Reason, t.health.Now.Size = ReasonUnknown, ptr.Deref(t.spec.MinReplicas, 0)
		}
		return
	}
	t.health.Now = replica.Observe(t.health.Before, o.Replicas, o.Pods, startupTimeout(p.in.Spec.Policy.Fallback), &p.timer)
	t.status = v1alpha1.BalancerTargetStatus{Name: o.Name, Overwrites: others}
	if p.in.Spec.Replicas != nil {
		t.status.Overwrites = replica.UpdateOverwrites(others, overwritten(o, t.before), p.in.Generation, &p.timer)
	}
	if conflict, ok := p.in.Conflicts[t.spec.Name]; ok {
		t.health.Pinned, t.status.Reason, t.status.Message = true, ReasonConflict, conflict
	} else if replica.LeftAlone(t.status.Overwrites) {
		t.health.Contested, t.health.Share, t.status.Reason, t.status.Message = true, t.before.Desired, ReasonSecondWriter, contested(t.status)
	}
}

// status is what to store, without the conditions.
func (p *pass) status() v1alpha1.BalancerStatus {
	s := v1alpha1.BalancerStatus{
		ObservedGeneration: p.in.Generation,
		Replicas:           p.in.Pods,
		RequestedReplicas:  p.requested(),
		Selector:           p.in.Spec.Selector.Query(),
		Targets:            make([]v1alpha1.BalancerTargetStatus, 0, len(p.targets)),
	}
	s.Moves = p.moves.DeepCopy()
	for _, t := range p.targets {
		s.Targets = append(s.Targets, t.status)
	}
	s.Running = replica.Clip(runningOf(s.Targets))
	return s
}
