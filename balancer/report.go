package balancer

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

// keptSize has the reason of the event for each reason why a target keeps its size.
var keptSize = map[string]string{
	ReasonUnreadable:   ReasonTargetUnreadable,
	ReasonUnknown:      ReasonTargetUnreadable,
	ReasonMissing:      ReasonTargetMissing,
	ReasonConflict:     ReasonTargetConflict,
	ReasonSecondWriter: ReasonSecondWriter,
}

// events are about what is new in this decision.
func (p *pass) events(writes []Write) (events podhealth.Events) {
	for _, t := range p.targets {
		name, s := t.spec.Name, t.status
		reason, ok := keptSize[s.Reason]
		if s.Reason == ReasonSecondWriter {
			ok = replica.NewlyLeftAlone(t.before.Overwrites, s.Overwrites)
		}
		if ok && t.before.Reason != s.Reason {
			events.Add(v1.EventTypeWarning, reason, name, "target %s: %s", name, s.Message)
		}
		switch was, is := t.before.Capacity != nil, s.Capacity != nil; {
		case is && !was:
			events.Add(v1.EventTypeWarning, ReasonFallbackStarted, name, "target %s runs %d of %s, some have not started in time", name, s.Running, replicas(int64(t.found)))
		case was && !is && s.Running > 0:
			events.Add(v1.EventTypeNormal, ReasonFallbackEnded, name, "target %s runs %s again", name, replicas(int64(s.Running)))
		case was && !is:
			events.Add(v1.EventTypeNormal, ReasonFallbackEnded, name, "target %s has no replicas to run any more", name)
		}
	}
	for _, w := range writes {
		events.Add(v1.EventTypeNormal, ReasonRescaled, w.Target, "target %s from %d to %s: %s", w.Target, w.From, replicas(int64(w.To)), w.Why)
	}
	return events
}

// conditions are the conditions to store. The time of a condition changes only when its status
// does.
func (p *pass) conditions(before []metav1.Condition, s v1alpha1.BalancerStatus) []metav1.Condition {
	var alone, blocked []string
	var pending int64
	for i, t := range s.Targets {
		if _, ok := keptSize[t.Reason]; ok {
			alone = append(alone, t.Name+": "+t.Message)
		}
		if t.Capacity != nil {
			blocked = append(blocked, t.Name)
			pending += int64(p.targets[i].health.Waiting())
		}
	}
	found := []metav1.Condition{
		p.balanced(s.Targets, alone, pending),
		podhealth.Condition(v1alpha1.ConditionTargetsReadable, true, ReasonAllTargetsRead, "every target can be read and written"+strays(p.in.Strays)),
		podhealth.Condition(v1alpha1.ConditionFallbackActive, false, ReasonNoTargetBlocked, "no target is known to be unable to run its share"),
		podhealth.Condition(v1alpha1.ConditionOverflow, false, ReasonRoom, "every replica has a target"),
		podhealth.Condition(v1alpha1.ConditionMinimumsExceedReplicas, false, ReasonReplicasCoverMinimums, "the replicas cover the minimums of the targets"),
	}
	if len(alone) > 0 {
		found[1] = podhealth.Condition(v1alpha1.ConditionTargetsReadable, false, gravest(s.Targets), strings.Join(alone, "; "))
	}
	if len(blocked) > 0 {
		found[2] = podhealth.Condition(v1alpha1.ConditionFallbackActive, true, ReasonNotStartedInTime, "replicas of "+strings.Join(blocked, ", ")+" are started elsewhere")
	}
	if p.waiting > 0 {
		found[3] = podhealth.Condition(v1alpha1.ConditionOverflow, true, ReasonNoRoom, replicas(p.waiting)+" cannot run on any target")
	}
	if p.excess > 0 {
		found[4] = podhealth.Condition(v1alpha1.ConditionMinimumsExceedReplicas, true, ReasonMinimumsTooLarge, fmt.Sprintf("the minimums and the sizes of targets that are left alone exceed the replicas asked for by %d", p.excess))
	}
	return podhealth.Conditions(before, append(found, p.available(s), p.progressing(found[0])), p.in.Generation, p.in.Now)
}

// gravest is why targets keep their sizes: of several reasons, the one under which the least is
// known.
func gravest(targets []v1alpha1.BalancerTargetStatus) string {
	for _, r := range []struct{ target, condition string }{
		{ReasonUnknown, ReasonUnreadable}, {ReasonUnreadable, ReasonUnreadable}, {ReasonMissing, ReasonTargetMissing}, {ReasonSecondWriter, ReasonSecondWriter},
	} {
		if slices.ContainsFunc(targets, func(t v1alpha1.BalancerTargetStatus) bool { return t.Reason == r.target }) {
			return r.condition
		}
	}
	return ReasonTargetsLeftAlone
}

// runningOf is how many replicas run; of a target that cannot be read, how many last ran.
func runningOf(targets []v1alpha1.BalancerTargetStatus) (n int64) {
	for _, t := range targets {
		n += int64(t.Running)
	}
	return n
}

// available is the condition whether as many replicas run as are asked for.
func (p *pass) available(s v1alpha1.BalancerStatus) metav1.Condition {
	holds, reason := s.Running >= p.asked, ReasonReplicasRun
	if !holds {
		reason = ReasonReplicasMissing
	}
	return podhealth.Condition(v1alpha1.ConditionAvailable, holds, reason, fmt.Sprintf("%s run, %d are asked for", replicas(int64(s.Running)), p.asked))
}

// progressing is the condition whether waiting is enough for every replica to run on the target
// that should run it.
func (p *pass) progressing(balanced metav1.Condition) metav1.Condition {
	var starting, late int64
	for _, t := range p.targets {
		starting += max(0, int64(t.status.Current-t.status.Running))
		late += int64(t.status.NotStarted)
	}
	is := func(holds bool, reason, message string) metav1.Condition {
		return podhealth.Condition(v1alpha1.ConditionProgressing, holds, reason, message)
	}
	moving := balanced.Status == metav1.ConditionFalse && balanced.Reason == ReasonMoving
	switch {
	case balanced.Status == metav1.ConditionFalse && !moving:
		return is(false, balanced.Reason, balanced.Message)
	case late > 0:
		return is(false, ReasonNotStartedInTime, replicas(late)+" have not started in time")
	case moving:
		return is(true, balanced.Reason, balanced.Message)
	case starting > 0:
		return is(true, ReasonStarting, replicas(starting)+" are starting")
	}
	return is(true, ReasonComplete, "every replica runs where it should")
}

// strays describes pods that the selector of the Balancer should not match.
func strays(pods []string) string {
	if len(pods) == 0 {
		return ""
	}
	return fmt.Sprintf(", but spec.selector matches pods of no target, %d in all, such as %s: narrow it, or an autoscaler counts them too", len(pods), pods[0])
}

// balanced is the condition whether every target has its share. Its reason is the first one why
// not.
func (p *pass) balanced(targets []v1alpha1.BalancerTargetStatus, alone []string, pending int64) metav1.Condition {
	not := func(reason, message string) metav1.Condition {
		return podhealth.Condition(v1alpha1.ConditionBalanced, false, reason, message)
	}
	switch {
	case p.in.Spec.Replicas == nil:
		return not(ReasonReplicasNotSet, "spec.replicas is not set; it becomes the number that it last had, or else the sum of the sizes of the targets as soon as all are known and none of their replicas is starting")
	case len(alone) > 0:
		return not(gravest(targets), strings.Join(alone, "; "))
	case pending > 0:
		return not(ReasonNotStartedInTime, replicas(pending)+" cannot run on their targets now")
	case p.waiting > 0:
		return not(ReasonNoRoom, replicas(p.waiting)+" cannot run on any target")
	case p.held > 0:
		return not(ReasonMoving, replicas(p.held)+" will leave when others run instead")
	}
	return podhealth.Condition(v1alpha1.ConditionBalanced, true, ReasonBalanced, "every target has its share")
}

// refuse is the decision about an invalid spec: the targets and all that is known about them stay
// as they are.
func refuse(in Input, problem string) Decision {
	d := Decision{Status: *in.Status.DeepCopy()}
	d.Status.ObservedGeneration, d.Status.Replicas, d.Status.Selector = in.Generation, in.Pods, in.Spec.Selector.Query()
	invalid := podhealth.Condition(v1alpha1.ConditionBalanced, false, ReasonInvalidSpec, problem)
	d.Status.Conditions = podhealth.Conditions(in.Status.Conditions, []metav1.Condition{
		invalid, podhealth.Condition(v1alpha1.ConditionProgressing, false, ReasonInvalidSpec, problem),
	}, in.Generation, in.Now)
	d.Events.Warn(in.Status.Conditions, invalid)
	return d
}

// replicas is the number of replicas in words.
func replicas(n int64) string { return spelling.Count(n, "replica") }
