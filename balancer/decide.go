package balancer

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// Input is all that a decision rests on. Decide changes nothing of it.
type Input struct {
	// Key is namespace/name of the Balancer.
	Key        string
	Generation int64
	Spec       v1alpha1.BalancerSpec
	// Status is the one of the last decision, or what the API server has of it.
	Status v1alpha1.BalancerStatus
	// Targets has one observation for every target of the spec, in any order.
	Targets []TargetObservation
	// Pods is how many pods the selector of the Balancer matches, but for those that have ended or are being deleted.
	Pods int32
	// Strays are those of them that belong to no target, by name; none are known where a target could not be read.
	Strays []string
	// Conflicts are targets that must not be written, by name, with the reason and what to do about it: another Balancer
	// claims the same object, or two targets select the same pods.
	Conflicts map[string]string
	Now       time.Time
}

// TargetObservation is what was found on a target.
type TargetObservation struct {
	Name string
	// Err says why the target could not be read; then nothing else counts but Missing.
	Err error
	// Missing tells that Err is that the object does not exist, for certain.
	Missing bool
	// Replicas is spec.replicas of its Scale.
	Replicas int32
	// Written is the size that was written last where the status may not have it; nil for none.
	Written *int32
	// Pods are those that the selector of its Scale matches, each under one target only.
	Pods []podhealth.Pod
}

// Write is a size to be written to the Scale of a target.
type Write struct {
	Target   string
	From, To int32
	// Moves is how many of the replicas that leave run, and are moves to another target.
	Moves int32
	Why   string
}

// Decision is what to do. A driver makes the writes in their order, then stores the status, and asks again when something
// changed or at Next. Moves that the status did not have before it stores ahead of the writes: a limit would not hold if
// they were made and not known of.
type Decision struct {
	// Writes are those that make a target larger, then those that make one smaller, in each case the greatest change first.
	Writes []Write
	// Status is what to store, as if all writes succeeded.
	Status v1alpha1.BalancerStatus
	Events []Event
	// Adopt is set where the spec has no replicas: the number that it last had, or else the sum found on the targets, to be
	// stored in spec.replicas. Nothing is written to the targets until then, for what is found later is what was written.
	Adopt *int32
	// Next is when time alone may change the decision; zero for never.
	Next time.Time
}

// The reasons in the status of a target that is left alone; for all others it is one of package apportion, capitalized.
const (
	// ReasonUnreadable is a target that cannot be read and is taken to have its last known size.
	ReasonUnreadable = "Unreadable"
	// ReasonUnknown is a target that never could be read. Its minimum is set aside for it.
	ReasonUnknown = "Unknown"
	// ReasonMissing is a target that does not exist. Nothing is set aside for it.
	ReasonMissing = "Missing"
	// ReasonConflict is a target that must not be written.
	ReasonConflict = "Conflict"
	// ReasonSecondWriter is a target whose size something else writes, too, again and again.
	ReasonSecondWriter = "SecondWriter"
)

// Decide says what to write on the targets of a Balancer now, and what to remember.
//
// An invalid spec is no error: it becomes a condition and an event, and nothing is written. The error is about an input
// that is none: an observation is missing, or is of no target.
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

// A target is one target on its way through a pass.
type target struct {
	spec v1alpha1.BalancerTarget
	// before is what the last decision stored; empty for a new target.
	before *v1alpha1.BalancerTargetStatus
	// status grows from what is remembered to what will be stored. Its Current is what is found, then what is written.
	status v1alpha1.BalancerTargetStatus
	// found is the size that it has now.
	found int32
	// health is pinned where the target is not written: it could not be read, or there is a conflict.
	health podhealth.Target
}

// pass is one decision in the making.
type pass struct {
	in      Input
	targets []target
	timer   podhealth.Timer
	// asked is how many replicas are shared.
	asked int32
	// unplaced and excess are the engine's.
	unplaced, excess int64
	// held is how many replicas will leave later, when others run in their place.
	held int64
	// moves is the count of moves to store.
	moves *v1alpha1.BalancerMoves
}

// newPass reads the observations.
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
		t := target{spec: spec, before: cmp.Or(before[spec.Name], &unknown)}
		p.look(&t, *o)
		p.targets = append(p.targets, t)
	}
	p.learn()
	if in.Spec.Policy.MaxMovesPerMinute != nil {
		p.moves = movesUntil(in.Status.Moves, in.Now)
	}
	return p, nil
}

// learn updates what is known about the capacities of the targets.
func (p *pass) learn() {
	targets := make([]*podhealth.Target, len(p.targets))
	for i := range p.targets {
		targets[i] = &p.targets[i].health
	}
	podhealth.Learn(targets, stabilization(p.in.Spec.Policy.Fallback), &p.timer)
	for i := range p.targets {
		t := &p.targets[i]
		t.record()
		t.found = t.status.Current
	}
}

// look adds what was observed of a target.
func (p *pass) look(t *target, o TargetObservation) {
	if o.Missing {
		t.health.Pinned = true
		t.status = v1alpha1.BalancerTargetStatus{Name: t.spec.Name, Reason: ReasonMissing}
		t.status.Message = fmt.Sprintf("it does not exist, and its replicas are due elsewhere: %v", o.Err)
		return
	}
	t.health.Before = healthOf(t.before)
	others := past(t.before.Overwrites, p.in.Now)
	if o.Err != nil {
		t.health.Now, t.health.Pinned, t.status = t.health.Before, true, *t.before
		t.status.Name, t.status.Reason, t.status.Overwrites = t.spec.Name, ReasonUnreadable, others
		t.status.Message = fmt.Sprintf("left as it is: %v", o.Err)
		if t.before.Name == "" || t.before.Reason == ReasonUnknown {
			t.status.Reason, t.health.Now.Size = ReasonUnknown, value(t.spec.MinReplicas, 0)
		}
		return
	}
	t.health.Now = podhealth.Observe(t.health.Before, o.Replicas, o.Pods, startupTimeout(p.in.Spec.Policy.Fallback), &p.timer)
	t.status = v1alpha1.BalancerTargetStatus{Name: o.Name, Overwrites: others}
	if p.in.Spec.Replicas != nil {
		t.status.Overwrites = overwrites(others, overwritten(o, t.before), p.in.Generation, &p.timer)
	}
	if conflict, ok := p.in.Conflicts[t.spec.Name]; ok {
		t.health.Pinned, t.status.Reason, t.status.Message = true, ReasonConflict, conflict
	} else if leftAlone(t.status) {
		t.health.Pinned, t.status.Reason, t.status.Message = true, ReasonSecondWriter, contested(t.status)
	}
}

// pace takes the targets towards what they are to have, as far as that may happen now, and returns what to write.
func (p *pass) pace() []Write {
	steps := make([]step, len(p.targets))
	for i := range p.targets {
		steps[i] = stepOf(p.targets[i].status)
	}
	walked := p.walk(steps)
	p.held = walked.held
	missing := p.missing()
	var writes []Write
	for i := range p.targets {
		t := &p.targets[i]
		if t.health.Pinned {
			continue
		}
		to := clip(walked.sizes[i])
		if to != t.status.Current {
			w := Write{Target: t.spec.Name, From: t.status.Current, To: to, Moves: clip(walked.moves[i]), Why: why(t.status)}
			if w.To > w.From && t.status.Capacity == nil {
				w.Why += missing
			}
			writes = append(writes, w)
		}
		t.health.Now.Resize(to, startupTimeout(p.in.Spec.Policy.Fallback), &p.timer)
		t.record()
	}
	order(writes)
	return writes
}

// walk takes the steps as far as the limit of moves allows, if there is one, and counts the moves.
func (p *pass) walk(steps []step) pacing {
	pace := unhurried(p.shrink())
	pace.stuck = p.stuck()
	limit := p.in.Spec.Policy.MaxMovesPerMinute
	if limit == nil {
		return pace.walk(steps)
	}
	count := counted(p.moves, p.in.Now)
	pace.limit, pace.budget = int64(*limit), max(0, int64(*limit)-int64(count))
	walked := pace.walk(steps)
	if walked.moved > 0 {
		count += clip(walked.moved)
		p.moves = MovesUntil(p.in.Now, count)
	}
	if walked.held > 0 && count > 0 {
		p.timer.At(p.moves.LastTime.Add(minute))
	}
	return walked
}

// stepOf is the step of a target; that of a pinned one leads nowhere, but others wait for what does not run there. They do
// not wait for a target of which nothing ever was known.
func stepOf(s v1alpha1.BalancerTargetStatus) step {
	out := step{
		current:  int64(s.Current),
		desired:  int64(s.Desired),
		runnable: int64(s.Desired - s.Pending),
		running:  int64(min(s.Running, s.Current)), // the others are about to go, or should be
	}
	if s.Reason == ReasonUnknown {
		out.running = out.runnable
	}
	return out
}

// shrink is by how much the replicas that are to run became fewer since the last decision that was stored, less what has
// left since: a controller that stopped between its writes and the status has done a part. Those that became stuck are still
// to run.
func (p *pass) shrink() int64 {
	sum := -p.stuck()
	for _, t := range p.targets {
		sum += int64(t.before.Desired-t.before.Pending) - int64(t.status.Desired-t.status.Pending)
		sum -= max(0, int64(t.before.Current)-int64(t.status.Current))
	}
	return max(0, sum)
}

// stuck is how many of the replicas that have no place stay pending on a target that is not able to run them. The others
// have none because of maximums, and are not waited for.
func (p *pass) stuck() int64 {
	var pending int64
	for _, t := range p.targets {
		if t.status.Capacity != nil {
			pending += int64(t.status.Pending)
		}
	}
	return min(p.unplaced, pending)
}

// status is what to store, without the conditions.
func (p *pass) status() v1alpha1.BalancerStatus {
	s := v1alpha1.BalancerStatus{
		ObservedGeneration: p.in.Generation,
		Replicas:           p.in.Pods,
		RequestedReplicas:  p.requested(),
		Selector:           selectorOf(&p.in.Spec),
		Targets:            make([]v1alpha1.BalancerTargetStatus, 0, len(p.targets)),
	}
	s.Moves = p.moves.DeepCopy()
	for _, t := range p.targets {
		s.Targets = append(s.Targets, t.status)
	}
	s.Running = clip(runningOf(s.Targets))
	return s
}

// selectorOf is the selector as a query parameter; a spec that is not valid may have none.
func selectorOf(spec *v1alpha1.BalancerSpec) string {
	selector, err := spec.Selector.AsSelector()
	if err != nil {
		return ""
	}
	return selector.String()
}

// clip brings a count into the range of a Scale.
func clip(n int64) int32 { return int32(max(0, min(n, math.MaxInt32))) }

func value(p *int32, otherwise int32) int32 {
	if p == nil {
		return otherwise
	}
	return *p
}
