package balancer

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// Event is something worth telling about a Balancer.
type Event struct {
	// Type is v1.EventTypeNormal or v1.EventTypeWarning.
	Type string
	// Reason is one of the constants of this package.
	Reason  string
	Message string
	// Target is the one it is about; empty for the Balancer itself.
	Target string
}

// The reasons of events.
const (
	// EventRescaled: the size of a target is written.
	EventRescaled = "Rescaled"
	// EventFallbackStarted: replicas of a target have not started in time, and are started elsewhere.
	EventFallbackStarted = "FallbackStarted"
	// EventFallbackEnded: a target is trusted again to run what is its due.
	EventFallbackEnded = "FallbackEnded"
	// EventTargetUnreadable: a target cannot be read, and is left as it is.
	EventTargetUnreadable = "TargetUnreadable"
	// EventTargetMissing: a target does not exist, and its replicas are started elsewhere.
	EventTargetMissing = "TargetMissing"
	// EventSecondWriter: something else writes the size of a target, too, and it is left as it is.
	EventSecondWriter = "SecondWriter"
	// EventTargetConflict: a target must not be written, and is left as it is.
	EventTargetConflict = "TargetConflict"
	// EventInvalidSpec: the spec makes no sense, and nothing is done.
	EventInvalidSpec = "InvalidSpec"
)

// The reasons of conditions.
const (
	// BecauseBalanced: every target has what is its due.
	BecauseBalanced = "Balanced"
	// BecauseInvalidSpec: the spec makes no sense.
	BecauseInvalidSpec = "InvalidSpec"
	// BecauseNotAdopted: the spec has no replicas yet.
	BecauseNotAdopted = "ReplicasNotSet"
	// BecauseTargetsLeftAlone: some targets are not written.
	BecauseTargetsLeftAlone = "TargetsLeftAlone"
	// BecauseBlocked: replicas have not started in time.
	BecauseBlocked = "NotStartedInTime"
	// BecauseMoving: replicas leave when others run in their place.
	BecauseMoving = "Moving"
	// BecauseUnreadable: some targets cannot be read.
	BecauseUnreadable = "Unreadable"
	// BecauseMissing: some targets do not exist.
	BecauseMissing = "TargetMissing"
	// BecauseSecondWriter: something else writes the sizes of some targets, too.
	BecauseSecondWriter = "SecondWriter"
	// BecauseRead: every target can be read and written.
	BecauseRead = "AllTargetsRead"
	// BecauseNoFallback: every target runs its own share.
	BecauseNoFallback = "NoTargetBlocked"
	// BecauseNoRoom: some replicas have no place.
	BecauseNoRoom = "NoRoom"
	// BecauseRoom: every replica has a place.
	BecauseRoom = "Room"
	// BecauseMinimums: the minimums sum to more than the replicas.
	BecauseMinimums = "MinimumsTooLarge"
	// BecauseReplicas: the replicas cover the minimums.
	BecauseReplicas = "ReplicasCoverMinimums"
	// BecauseRunning: as many replicas run as are asked for.
	BecauseRunning = "ReplicasRun"
	// BecauseNotRunning: fewer replicas run than are asked for.
	BecauseNotRunning = "ReplicasMissing"
	// BecauseComplete: every replica runs where it is due.
	BecauseComplete = "Complete"
	// BecauseStarting: replicas are starting.
	BecauseStarting = "Starting"
)

// order puts writes that make larger before those that make smaller, and the greatest first.
func order(writes []Write) {
	slices.SortStableFunc(writes, func(a, b Write) int {
		x, y := int64(a.To)-int64(a.From), int64(b.To)-int64(b.From)
		if up := x > 0; up != (y > 0) {
			return cmp.Compare(y, x)
		}
		return cmp.Compare(max(y, -y), max(x, -x))
	})
}

// troubles are the events about targets that are left alone, by the reason.
var troubles = map[string]string{
	ReasonUnreadable:   EventTargetUnreadable,
	ReasonUnknown:      EventTargetUnreadable,
	ReasonMissing:      EventTargetMissing,
	ReasonConflict:     EventTargetConflict,
	ReasonSecondWriter: EventSecondWriter,
}

// events tells what is new in this decision.
func (p *pass) events(writes []Write) []Event {
	var events []Event
	add := func(kind, reason, target, format string, args ...any) {
		events = append(events, Event{Type: kind, Reason: reason, Target: target, Message: fmt.Sprintf(format, args...)})
	}
	for _, t := range p.targets {
		name, s := t.spec.Name, t.status
		if reason, ok := troubles[s.Reason]; ok && t.before.Reason != s.Reason {
			add(v1.EventTypeWarning, reason, name, "target %s: %s", name, s.Message)
		}
		switch was, is := t.before.Capacity != nil, s.Capacity != nil; {
		case is && !was:
			add(v1.EventTypeWarning, EventFallbackStarted, name, "target %s runs %d of %s, some have not started in time", name, s.Running, replicas(int64(t.found)))
		case was && !is && s.Running > 0:
			add(v1.EventTypeNormal, EventFallbackEnded, name, "target %s runs %s again", name, replicas(int64(s.Running)))
		case was && !is:
			add(v1.EventTypeNormal, EventFallbackEnded, name, "target %s has no replicas to run any more", name)
		}
	}
	for _, w := range writes {
		add(v1.EventTypeNormal, EventRescaled, w.Target, "target %s from %d to %s: %s", w.Target, w.From, replicas(int64(w.To)), w.Why)
	}
	return events
}

// verdict is a condition before it is dated.
type verdict struct {
	kind            string
	holds           bool
	reason, message string
}

// conditions brings the conditions up to date. The time of one moves only when its status changes.
func (p *pass) conditions(before []metav1.Condition, s v1alpha1.BalancerStatus) []metav1.Condition {
	var alone, blocked []string
	var pending int64
	for _, t := range s.Targets {
		if _, ok := troubles[t.Reason]; ok {
			alone = append(alone, t.Name+": "+t.Message)
		}
		if t.Capacity != nil {
			blocked = append(blocked, t.Name)
			pending += int64(t.Pending)
		}
	}
	verdicts := []verdict{
		p.balanced(s.Targets, alone, pending),
		{v1alpha1.ConditionTargetsReadable, true, BecauseRead, "every target can be read and written" + strays(p.in.Strays)},
		{v1alpha1.ConditionFallbackActive, false, BecauseNoFallback, "every target is trusted to run its own share"},
		{v1alpha1.ConditionOverflow, false, BecauseRoom, "every replica has a place"},
		{v1alpha1.ConditionMinimumsExceedReplicas, false, BecauseReplicas, "the replicas cover the minimums of the targets"},
	}
	if len(alone) > 0 {
		verdicts[1] = verdict{v1alpha1.ConditionTargetsReadable, false, gravest(s.Targets), strings.Join(alone, "; ")}
	}
	if len(blocked) > 0 {
		verdicts[2] = verdict{v1alpha1.ConditionFallbackActive, true, BecauseBlocked, "replicas of " + strings.Join(blocked, ", ") + " are started elsewhere"}
	}
	if p.unplaced > 0 {
		verdicts[3] = verdict{v1alpha1.ConditionOverflow, true, BecauseNoRoom, replicas(p.unplaced) + " can run on no target"}
	}
	if p.excess > 0 {
		verdicts[4] = verdict{v1alpha1.ConditionMinimumsExceedReplicas, true, BecauseMinimums, fmt.Sprintf("the minimums, and the sizes of targets that are left alone, are %d more than the replicas asked for", p.excess)}
	}
	return p.in.date(before, append(verdicts, p.available(s), p.progressing(verdicts[0])))
}

// gravest is why targets are left alone: of several reasons, the one of which least is known.
func gravest(targets []v1alpha1.BalancerTargetStatus) string {
	for _, r := range []struct{ of, because string }{
		{ReasonUnknown, BecauseUnreadable}, {ReasonUnreadable, BecauseUnreadable}, {ReasonMissing, BecauseMissing}, {ReasonSecondWriter, BecauseSecondWriter},
	} {
		if slices.ContainsFunc(targets, func(t v1alpha1.BalancerTargetStatus) bool { return t.Reason == r.of }) {
			return r.because
		}
	}
	return BecauseTargetsLeftAlone
}

// runningOf is how many replicas run, on targets that are left alone as far as known.
func runningOf(targets []v1alpha1.BalancerTargetStatus) (n int64) {
	for _, t := range targets {
		n += int64(t.Running)
	}
	return n
}

// available says whether as many replicas run as are asked for.
func (p *pass) available(s v1alpha1.BalancerStatus) verdict {
	v := verdict{v1alpha1.ConditionAvailable, s.Running >= p.asked, BecauseRunning, fmt.Sprintf("%s run, %d are asked for", replicas(int64(s.Running)), p.asked)}
	if !v.holds {
		v.reason = BecauseNotRunning
	}
	return v
}

// progressing says whether waiting is enough for every replica to run where it is due.
func (p *pass) progressing(balanced verdict) verdict {
	var starting, late int64
	for _, t := range p.targets {
		starting += max(0, int64(t.status.Current-t.status.Running))
		late += int64(t.status.NotStarted)
	}
	v := verdict{v1alpha1.ConditionProgressing, true, BecauseComplete, "every replica runs where it is due"}
	switch {
	case !balanced.holds && balanced.reason != BecauseMoving:
		v.holds, v.reason, v.message = false, balanced.reason, balanced.message
	case late > 0:
		v.holds, v.reason, v.message = false, BecauseBlocked, replicas(late)+" have not started in time"
	case !balanced.holds:
		v.reason, v.message = balanced.reason, balanced.message
	case starting > 0:
		v.reason, v.message = BecauseStarting, replicas(starting)+" are starting"
	}
	return v
}

// strays says that the selector of the Balancer matches more than it should.
func strays(pods []string) string {
	if len(pods) == 0 {
		return ""
	}
	return fmt.Sprintf(", but spec.selector matches pods of no target, %d in all, such as %s: narrow it, or an autoscaler counts them too", len(pods), pods[0])
}

// balanced says whether every target has what is its due, or the first thing that keeps it from that.
func (p *pass) balanced(targets []v1alpha1.BalancerTargetStatus, alone []string, pending int64) verdict {
	v := verdict{kind: v1alpha1.ConditionBalanced}
	switch {
	case p.in.Spec.Replicas == nil:
		v.reason, v.message = BecauseNotAdopted, "spec.replicas is not set; it becomes the number that it last had, or else the sum of the sizes of the targets as soon as all are known and none of their replicas is starting"
	case len(alone) > 0:
		v.reason, v.message = gravest(targets), strings.Join(alone, "; ")
	case pending > 0:
		v.reason, v.message = BecauseBlocked, replicas(pending)+" cannot run now where they are due"
	case p.unplaced > 0:
		v.reason, v.message = BecauseNoRoom, replicas(p.unplaced)+" can run on no target"
	case p.held > 0:
		v.reason, v.message = BecauseMoving, replicas(p.held)+" will leave when others run instead"
	default:
		v.holds, v.reason, v.message = true, BecauseBalanced, "every target has what is its due"
	}
	return v
}

// date turns verdicts into conditions.
func (in *Input) date(before []metav1.Condition, verdicts []verdict) []metav1.Condition {
	conditions := append(make([]metav1.Condition, 0, len(before)+len(verdicts)), before...)
	for i := range conditions {
		conditions[i].LastTransitionTime = *podhealth.NotAfter(&conditions[i].LastTransitionTime, in.Now)
	}
	for _, v := range verdicts {
		status := metav1.ConditionFalse
		if v.holds {
			status = metav1.ConditionTrue
		}
		meta.SetStatusCondition(&conditions, metav1.Condition{
			Type: v.kind, Status: status, Reason: v.reason, Message: v.message,
			ObservedGeneration: in.Generation, LastTransitionTime: *podhealth.Stamp(in.Now),
		})
	}
	return conditions
}

// refuse answers a spec that makes no sense: everything stays, and what is remembered too.
func refuse(in Input, problem string) Decision {
	d := Decision{Status: *in.Status.DeepCopy()}
	d.Status.ObservedGeneration, d.Status.Replicas, d.Status.Selector = in.Generation, in.Pods, selectorOf(&in.Spec)
	d.Status.Conditions = in.date(in.Status.Conditions, []verdict{
		{v1alpha1.ConditionBalanced, false, BecauseInvalidSpec, problem},
		{v1alpha1.ConditionProgressing, false, BecauseInvalidSpec, problem},
	})
	was := meta.FindStatusCondition(in.Status.Conditions, v1alpha1.ConditionBalanced)
	if was == nil || was.Reason != BecauseInvalidSpec || was.Message != problem {
		d.Events = []Event{{Type: v1.EventTypeWarning, Reason: EventInvalidSpec, Message: problem}}
	}
	return d
}

// replicas says how many they are.
func replicas(n int64) string {
	if n == 1 {
		return "1 replica"
	}
	return strconv.FormatInt(n, 10) + " replicas"
}
