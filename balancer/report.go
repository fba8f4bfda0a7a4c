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

// keepsSize is why targets keep their sizes, with the reasons of the event and of the condition. The first are those
// under which the least is known.
var keepsSize = []struct{ target, event, condition string }{
	{ReasonUnknown, ReasonTargetUnreadable, ReasonUnreadable},
	{ReasonUnreadable, ReasonTargetUnreadable, ReasonUnreadable},
	{ReasonMissing, ReasonTargetMissing, ReasonTargetMissing},
	{ReasonSecondWriter, ReasonSecondWriter, ReasonSecondWriter},
	{ReasonConflict, ReasonTargetConflict, ReasonTargetsLeftAlone},
}

// keepsSizeFor is the index in keepsSize of the reason of a target; -1 if it does not keep its size.
func keepsSizeFor(s v1alpha1.BalancerTargetStatus) int {
	return slices.IndexFunc(keepsSize, func(k struct{ target, event, condition string }) bool { return k.target == s.Reason })
}

func (p *pass) events(writes []Write) (events podhealth.Events) {
	for _, t := range p.targets {
		name, s := t.spec.Name, t.status
		again := s.Reason == ReasonSecondWriter && !replica.NewlyLeftAlone(t.before.Overwrites, s.Overwrites)
		if i := keepsSizeFor(s); i >= 0 && t.before.Reason != s.Reason && !again {
			events.Add(v1.EventTypeWarning, keepsSize[i].event, name, "target %s: %s", name, s.Message)
		}
		t.health.Now.Fallback(&events, "target", name, t.before.Capacity, t.found)
	}
	for _, w := range writes {
		events.Add(v1.EventTypeNormal, ReasonRescaled, w.Target, "target %s from %d to %s: %s", w.Target, w.From, replicas(w.To), w.Why)
	}
	return events
}

// conditions are the conditions to store. The time of a condition changes only when its status
// does.
func (p *pass) conditions(before []metav1.Condition, s v1alpha1.BalancerStatus) []metav1.Condition {
	var alone, blocked []string
	var pending int64
	gravest := len(keepsSize)
	for i, t := range s.Targets {
		if k := keepsSizeFor(t); k >= 0 {
			alone, gravest = append(alone, t.Name+": "+t.Message), min(gravest, k)
		}
		if t.Capacity != nil {
			blocked = append(blocked, t.Name)
			pending += int64(p.targets[i].health.Waiting())
		}
	}
	left := podhealth.Because{}
	if len(alone) > 0 {
		left = podhealth.Because{Reason: keepsSize[gravest].condition, Message: strings.Join(alone, "; ")}
	}
	balanced := p.balanced(left, pending)
	return podhealth.Conditions(before, []metav1.Condition{
		balanced,
		podhealth.Either(v1alpha1.ConditionTargetsReadable, len(alone) == 0,
			podhealth.Because{Reason: ReasonAllTargetsRead, Message: "every target can be read and written" + strays(p.in.Strays)}, left),
		podhealth.Either(v1alpha1.ConditionFallbackActive, len(blocked) > 0,
			podhealth.Because{Reason: ReasonNotStartedInTime, Message: "replicas of " + strings.Join(blocked, ", ") + " are started elsewhere"},
			podhealth.Because{Reason: ReasonNoTargetBlocked, Message: "no target is known to be unable to run its share"}),
		podhealth.Either(v1alpha1.ConditionOverflow, p.waiting > 0, p.noRoom(),
			podhealth.Because{Reason: ReasonRoom, Message: "every replica has a target"}),
		podhealth.Either(v1alpha1.ConditionMinimumsExceedReplicas, p.excess > 0,
			podhealth.Because{Reason: ReasonMinimumsTooLarge,
				Message: fmt.Sprintf("the minimums and the sizes of targets that are left alone exceed the replicas asked for by %d", p.excess)},
			podhealth.Because{Reason: ReasonReplicasCoverMinimums, Message: "the replicas cover the minimums of the targets"}),
		p.available(s), p.progressing(balanced),
	}, p.in.Generation, p.in.Now)
}

func (p *pass) noRoom() podhealth.Because {
	return podhealth.Because{Reason: ReasonNoRoom, Message: replicas(p.waiting) + " cannot run on any target"}
}

func (p *pass) available(s v1alpha1.BalancerStatus) metav1.Condition {
	text := fmt.Sprintf("%s run, %d are asked for", replicas(s.Running), p.asked)
	return podhealth.Either(v1alpha1.ConditionAvailable, s.Running >= p.asked,
		podhealth.Because{Reason: ReasonReplicasRun, Message: text}, podhealth.Because{Reason: ReasonReplicasMissing, Message: text})
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
	return fmt.Sprintf(", but spec.selector matches pods of no target, %d in all, such as %s: narrow it, or an autoscaler counts them too",
		len(pods), pods[0])
}

// balanced is the condition whether every target has its share. Its reason is the first one why
// not.
func (p *pass) balanced(left podhealth.Because, pending int64) metav1.Condition {
	why := podhealth.Because{}
	switch {
	case p.in.Spec.Replicas == nil:
		why = podhealth.Because{Reason: ReasonReplicasNotSet,
			Message: "spec.replicas is not set; it becomes the number that it last had, or else the sum of the sizes of the " +
				"targets as soon as all are known and none of their replicas is starting"}
	case left.Reason != "":
		why = left
	case pending > 0:
		why = podhealth.Because{Reason: ReasonNotStartedInTime, Message: replicas(pending) + " cannot run on their targets now"}
	case p.waiting > 0:
		why = p.noRoom()
	case p.held > 0:
		why = podhealth.Because{Reason: ReasonMoving, Message: replicas(p.held) + " will leave when others run instead"}
	}
	return podhealth.Either(v1alpha1.ConditionBalanced, why.Reason == "",
		podhealth.Because{Reason: ReasonBalanced, Message: "every target has its share"}, why)
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

func replicas[N int32 | int64](n N) string { return spelling.Count(n, "replica") }
