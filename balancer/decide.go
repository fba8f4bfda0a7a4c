package balancer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

// Input is all that a decision depends on. Decide does not change it.
type Input struct {
	Key        string // the namespace/name of the Balancer
	Generation int64
	Spec       v1alpha1.BalancerSpec
	Status     v1alpha1.BalancerStatus // the one that the last decision returned, as stored
	// Targets has one observation for each target of the spec, in any order.
	Targets []TargetObservation
	// Pods is how many pods the selector of the Balancer matches, without those that have ended or
	// are being deleted.
	Pods   int32
	Strays []string // the names of those that belong to no target; empty if a target could not be read
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
	Err      error
	Missing  bool   // Err means with certainty that the object does not exist
	Replicas int32  // spec.replicas of its Scale
	Written  *int32 // the size that was written last, if the status may not have it; else nil
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
	Moves    int32  // how many running replicas leave the target for another one
	Why      string // explains the size in words
}

// Decision is what to do. A driver makes the writes in their order, stores the status, and asks
// again when something has changed, or at Next. It stores new moves before it makes the writes: if
// they were made and not stored, the limit would not hold.
type Decision struct {
	// Writes are first those that make a target larger, then those that make one smaller, each from
	// the largest change down.
	Writes []Write
	Status v1alpha1.BalancerStatus // what to store if all writes succeed
	// Events are what is new. Their reasons are constants of this package, and they are about targets.
	Events podhealth.Events
	// Adopt is what to store in spec.replicas if that is not set: the number that it last had, or
	// else the sum that was found on the targets. Nothing is written to the targets before it is
	// stored: the sum found later would be the one written.
	Adopt *int32
	Next  time.Time // when time alone may change the decision; zero for never
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
	if err := p.share(); err != nil {
		return Decision{}, fmt.Errorf("share the replicas of %s: %w", in.Key, err)
	}
	var d Decision
	switch {
	case in.Spec.Replicas != nil:
		d.Writes = p.pace()
	case p.known:
		d.Adopt = &p.asked
	}
	d.Status = p.status()
	d.Status.Conditions = p.conditions(in.Status.Conditions, d.Status)
	d.Events = p.events(d.Writes)
	d.Next = p.timer.Next
	return d, nil
}

type target struct {
	spec   v1alpha1.BalancerTarget
	before v1alpha1.BalancerTargetStatus // what the last decision stored; empty for a new target
	// status becomes what is stored. Its Current is first the size that was found, then the one
	// that is written.
	status v1alpha1.BalancerTargetStatus
	found  int32          // the size that it has now
	health replica.Target // pinned if the target is not written
}

// pass is the state of one decision.
type pass struct {
	in      Input
	targets []target
	timer   podhealth.Timer
	// startup is how long replicas may take to start, and stabilization how long a target has to run
	// well until it counts as recovered; both are 0 without a fallback.
	startup, stabilization time.Duration
	// requested is the last number of replicas that was asked for. Asked is how many are distributed, which is
	// the number found if there was none: it may not be known yet.
	requested *int32
	asked     int32
	known     bool
	// unplaced and excess are those of package apportion. Of the unplaced replicas waiting do not run.
	unplaced, excess, waiting int64
	held                      int64                  // how many replicas will leave later, when others run in their place
	moves                     *v1alpha1.ReplicaMoves // the count of moves to store
}

func newPass(in Input) (*pass, error) {
	p := &pass{in: in, timer: podhealth.Timer{Now: in.Now}}
	if f := in.Spec.Policy.Fallback; f != nil {
		p.startup, p.stabilization = f.StartupTimeout.Duration, cmp.Or(f.StabilizationTime.Duration, v1alpha1.DefaultStabilizationTime)
	}
	if in.Spec.Policy.MaxMovesPerMinute != nil {
		p.moves = in.Status.Moves
	}
	if len(in.Targets) != len(in.Spec.Targets) {
		return nil, fmt.Errorf("%s: %d observations for %d targets", in.Key, len(in.Targets), len(in.Spec.Targets))
	}
	learning := make([]*replica.Target, len(in.Targets))
	p.targets = make([]target, len(in.Targets))
	for i, spec := range in.Spec.Targets {
		at := slices.IndexFunc(in.Targets, func(o TargetObservation) bool { return o.Name == spec.Name })
		if at < 0 {
			return nil, fmt.Errorf("%s: no observation of target %s", in.Key, spec.Name)
		}
		t := &p.targets[i]
		t.spec, t.health.Staying = spec, in.Targets[at].Staying
		if was := slices.IndexFunc(in.Status.Targets, func(s v1alpha1.BalancerTargetStatus) bool { return s.Name == spec.Name }); was >= 0 {
			t.before = in.Status.Targets[was]
		}
		p.observe(t, in.Targets[at])
		learning[i] = &t.health
	}
	replica.Learn(learning, p.stabilization, &p.timer)
	for i := range p.targets {
		t := &p.targets[i]
		t.record()
		t.found = t.status.Current
	}
	if p.requested = cmp.Or(in.Spec.Replicas, in.Status.RequestedReplicas); p.requested != nil {
		p.asked, p.known = max(0, *p.requested), true
	} else {
		p.asked, p.known = p.found()
	}
	return p, nil
}

func (p *pass) observe(t *target, o TargetObservation) {
	if o.Missing {
		t.health.Pinned = true
		t.status = v1alpha1.BalancerTargetStatus{Name: t.spec.Name, Reason: ReasonMissing}
		t.status.Message = fmt.Sprintf("it does not exist, so others are to run its replicas: %v", o.Err)
		return
	}
	t.health.Before = healthOf(&t.before)
	others := replica.StoredOverwrites(t.before.Overwrites, p.in.Now)
	if o.Err != nil {
		t.health.Now, t.health.Pinned, t.status = t.health.Before, true, t.before
		t.status.Name, t.status.Reason, t.status.Overwrites = t.spec.Name, ReasonUnreadable, others
		t.status.Message = fmt.Sprintf("left as it is: %v", o.Err)
		if t.before.Name == "" || t.before.Reason == ReasonUnknown {
			t.status.Reason, t.health.Now.Size = ReasonUnknown, ptr.Deref(t.spec.MinReplicas, 0)
		}
		return
	}
	t.health.Now = replica.Observe(t.health.Before, o.Replicas, podhealth.Count(o.Pods, p.startup, p.in.Now), &p.timer)
	t.status = v1alpha1.BalancerTargetStatus{Name: o.Name, Overwrites: others}
	if p.in.Spec.Replicas != nil {
		t.status.Overwrites = replica.UpdateOverwrites(others, overwritten(o, &t.before), p.in.Generation, &p.timer)
	}
	if conflict, ok := p.in.Conflicts[t.spec.Name]; ok {
		t.health.Pinned, t.status.Reason, t.status.Message = true, ReasonConflict, conflict
	} else if w := t.status.Overwrites; replica.LeftAlone(w) {
		t.health.Contested, t.health.Share, t.status.Reason = true, t.before.Desired, ReasonSecondWriter
		t.status.Message = replica.Contested("size", "spec.replicas from its manifest, or the target from the Balancer", w, v1alpha1.KindBalancer)
	}
}

// overwritten reports whether something else than the Balancer has changed the size since the last
// decision.
func overwritten(o TargetObservation, before *v1alpha1.BalancerTargetStatus) bool {
	switch before.Reason {
	case "", ReasonUnreadable, ReasonUnknown, ReasonMissing, ReasonConflict:
		return false
	}
	// A size in between is one that the Balancer wrote and did not get to store.
	between := min(before.Current, before.Desired) <= o.Replicas && o.Replicas <= max(before.Current, before.Desired)
	return !between && (o.Written == nil || o.Replicas != *o.Written)
}

func healthOf(s *v1alpha1.BalancerTargetStatus) replica.Health {
	return replica.Health{
		Size: s.Current, Running: s.Running, NotStarted: s.NotStarted, BelowSizeSince: s.BelowSizeSince,
		Capacity: s.Capacity, BlockedSince: s.BlockedSince, FineSince: s.FineSince,
	}
}

func (t *target) record() {
	s, h := &t.status, t.health.Now
	s.Current, s.Running, s.NotStarted, s.BelowSizeSince = h.Size, h.Running, h.NotStarted, h.BelowSizeSince
	s.Capacity, s.BlockedSince, s.FineSince = h.Capacity, h.BlockedSince, h.FineSince
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

// status is what to store, without the conditions.
func (p *pass) status() v1alpha1.BalancerStatus {
	s := v1alpha1.BalancerStatus{
		ObservedGeneration: p.in.Generation, Replicas: p.in.Pods, Selector: p.in.Spec.Selector.Query(), Moves: p.moves.DeepCopy(),
		Targets: make([]v1alpha1.BalancerTargetStatus, 0, len(p.targets)),
	}
	if p.requested != nil {
		s.RequestedReplicas = new(*p.requested)
	}
	running := int64(0)
	for _, t := range p.targets {
		running += int64(t.status.Running) // of a target that cannot be read, how many last ran
		s.Targets = append(s.Targets, t.status)
	}
	s.Running = replica.Clip(running)
	return s
}
