package linked

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Reasons of the events on the autoscaler's status object.
const (
	eventBalancedScaleUp   = "BalancedScaleUp"   // nodes were shared among similar node groups
	eventUnevenScaleUp     = "UnevenScaleUp"     // so they were, but a group was left out or nodes found no room
	eventScaleDownDeferred = "ScaleDownDeferred" // nodes begin to wait because their set would become uneven
	eventPoliciesRefused   = "PoliciesRefused"   // a changed file of policies is not used
	// nodes of a group were not ready by the start-up deadline of its set
	eventStartupDeadlineMissed = "StartupDeadlineMissed"
	eventZoneShifted           = "ZoneShifted"     // a zone is shifted away
	eventZoneReturned          = "ZoneReturned"    // it has come back
	eventUnevenScaleDown       = "UnevenScaleDown" // nodes that have waited as long as they may go although it does
)

// listed is how many groups or nodes an event names: its text must stay below a kilobyte.
const listed = 8

// event is what is reported; without a reason there is nothing to report.
type event struct{ kind, reason, text string }

// announce tells an event. The journal's lock is held, so that events keep the order of the
// decisions.
func (j *Journal) announce(e event) {
	if e.reason != "" && j.recorder != nil {
		j.recorder.Eventf(e.kind, e.reason, "%s", e.text)
	}
}

// splitEvent reports a split among several groups; a group that grows on its own is reported by the
// autoscaler.
func splitEvent(d splitDecision) event {
	if len(d.Groups)+len(d.LeftOut) < 2 {
		return event{}
	}
	e := event{v1.EventTypeNormal, eventBalancedScaleUp,
		fmt.Sprintf("%d nodes for similar node groups: %s", d.Given, shorten(d.Groups, grown))}
	if d.Pods > 0 {
		e.text += fmt.Sprintf("; planned for %d pods with their topology spread", d.Pods)
	}
	if d.PodsLeft > 0 {
		e.text += fmt.Sprintf(", %d more wait", d.PodsLeft)
	}
	if len(d.LeftOut) > 0 || d.Unplaced > 0 {
		e.kind, e.reason = v1.EventTypeWarning, eventUnevenScaleUp
	}
	if d.Unplaced > 0 {
		e.text += fmt.Sprintf("; no room for %d more", d.Unplaced)
	}
	if len(d.LeftOut) > 0 {
		e.text += "; left out: " + shorten(d.LeftOut, func(p problem) string { return fmt.Sprintf("%s (%.100s)", p.Group, p.Error) })
	}
	return e
}

func grown(g splitMember) string {
	text := fmt.Sprintf("%s %d", g.Name, g.Size)
	if g.NewSize != g.Size {
		text += fmt.Sprintf("->%d", g.NewSize)
	}
	if g.Why != "" {
		text += " (" + g.Why + ")"
	}
	return text
}

// held says what held a group where it is; empty for nothing.
func held(g nodegroupset.GroupSplit) string {
	switch g.Reason {
	case nodegroupset.ReasonAtMax:
		return "at its maximum"
	case nodegroupset.ReasonOverMax:
		return "above its maximum"
	case nodegroupset.ReasonRaisedToMin:
		return "raised to its minimum"
	case nodegroupset.ReasonReserve:
		return "one node first, since its last ones came late"
	case nodegroupset.ReasonQuota:
		return "quota " + g.Detail
	default:
		return ""
	}
}

// shrinkEvent reports nodes that begin to wait for balance, or go because they waited too long; not
// of every round they wait.
func shrinkEvent(d shrinkDecision) event {
	var overdue []nodeDecision
	for _, node := range d.Removed {
		if node.Reason == reasonOverdue {
			overdue = append(overdue, node)
		}
	}
	began := slices.DeleteFunc(forBalance(d.Waiting), func(node nodeDecision) bool { return !node.Began })

	var texts []string
	if len(overdue) > 0 {
		texts = append(texts, "waited for balance as long as they may and go: "+shorten(overdue,
			func(d nodeDecision) string { return d.Node + " of " + d.Group }))
	}
	if len(began) > 0 {
		texts = append(texts, "may be removed but wait for balance: "+shorten(began, func(d nodeDecision) string {
			return fmt.Sprintf("%s of %s behind %s", d.Node, d.Group, d.Behind)
		}))
	}
	switch {
	case len(overdue) > 0:
		return event{v1.EventTypeWarning, eventUnevenScaleDown, strings.Join(texts, "; ")}
	case len(began) > 0:
		return event{v1.EventTypeNormal, eventScaleDownDeferred, strings.Join(texts, "; ")}
	}
	return event{}
}

// shorten names the first of many.
func shorten[T any](all []T, name func(T) string) string {
	var names []string
	for _, one := range all[:min(len(all), listed)] {
		names = append(names, name(one))
	}
	if more := len(all) - listed; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}
