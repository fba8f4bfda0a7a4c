package federation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/internal/spelling"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/replica"
)

// status is what to store, without the conditions.
func (p *pass) status() v1alpha1.FederatedReplicaSetStatus {
	s := v1alpha1.FederatedReplicaSetStatus{
		ObservedGeneration: p.in.Generation, AskedReplicas: replica.Clip(p.total), Unplaced: replica.Clip(p.waiting),
		Selector: p.in.Spec.Selector.Query(), Moves: p.moves.DeepCopy(),
	}
	var pods, ready int64
	for _, m := range p.members {
		if m.status.Name == "" || m.entry == "" && !m.Local.Exists && m.Reach == Reachable {
			continue
		}
		if m.Reach != Lost {
			pods, ready = pods+int64(m.status.Pods), ready+int64(m.status.Ready)
		}
		s.Clusters = append(s.Clusters, m.status)
	}
	s.Replicas, s.ReadyReplicas = replica.Clip(pods), replica.Clip(ready)
	return s
}

// conditions are the conditions to store.
func (p *pass) conditions(s v1alpha1.FederatedReplicaSetStatus, writes []Write) []metav1.Condition {
	var away []string
	for _, c := range s.Clusters {
		// One that could never be reached concerns those who want it by its name; its MemberCluster says what is wrong.
		if _, named := p.preferences.Clusters[c.Name]; !c.Reachable && (named || c.Reason != ReasonUnknown) {
			away = append(away, c.Name+": "+c.Message)
		}
	}
	return podhealth.Conditions(p.in.Status.Conditions, []metav1.Condition{
		podhealth.Either(v1alpha1.ConditionPlaced, p.waiting == 0,
			podhealth.Because{Reason: ReasonAllPlaced, Message: "every replica has a cluster that is able to run it"},
			podhealth.Because{Reason: ReasonNoRoom, Message: p.withoutCluster(fmt.Sprintf(" of %d", p.total)) + p.full()}),
		podhealth.Either(v1alpha1.ConditionClustersReachable, len(away) == 0,
			podhealth.Because{Reason: ReasonAllReachable, Message: "every cluster can be reached"},
			podhealth.Because{Reason: ReasonClustersUnreachable, Message: strings.Join(away, "; ")}),
		p.settled(writes), p.understood(),
	}, p.in.Generation, p.in.Now)
}

// withoutCluster says how many replicas have no cluster.
func (p *pass) withoutCluster(of string) string {
	return inWords(p.waiting) + of + verb(p.waiting, " has", " have") + " no cluster that is able to run them, or may"
}

// understood is the condition whether the preferences say what they mean.
func (p *pass) understood() metav1.Condition {
	text := p.preferences.unclear(p.members)
	return podhealth.Either(v1alpha1.ConditionPreferencesClear, text == "",
		podhealth.Because{Reason: ReasonClear, Message: "the preferences say what they mean"},
		podhealth.Because{Reason: ReasonUnclearPreferences, Message: text})
}

// full says which clusters have no place for more, and why, as a part of a message.
func (p *pass) full() string {
	why := map[string][]string{}
	for _, m := range p.members {
		if m.entry == "" || m.status.Name == "" {
			continue
		}
		var because string
		switch {
		case m.Reach == Lost:
			because = "lost"
		case m.health.Contested:
			because = "written by something else"
		case m.health.Pinned:
			because = "not answering"
		case m.Leaving:
			because = "leaving"
		case m.NoSchedule:
			because = "marked NoSchedule"
		case m.status.Reason == replica.Reason(apportion.ReasonCapacity) || m.status.Capacity != nil:
			because = "able to run no more"
		case m.status.Reason == replica.Reason(apportion.ReasonMax):
			because = "at maxReplicas"
		case ptr.Deref(p.preferences.within(m.entry, m.Name).Weight, 0) == 0:
			because = "without weight"
		default:
			continue
		}
		why[because] = append(why[because], m.Name)
	}
	if len(why) == 0 {
		return ": no cluster takes part"
	}
	var parts []string
	for _, because := range slices.Sorted(maps.Keys(why)) {
		parts = append(parts, because+": "+spelling.List(why[because], 3))
	}
	return " (" + strings.Join(parts, "; ") + ")"
}

// tally sums what the clusters have that keeps an object from being settled.
type tally struct {
	refused, contested, terminating     []string
	starting, leaving, running, pending int64
}

func (p *pass) tally() (t tally) {
	for _, m := range p.members {
		s := m.status
		if m.Reach != Lost {
			t.running, t.pending = t.running+int64(s.Running), t.pending+int64(s.Pending)
		}
		if s.Refused != nil {
			t.refused = append(t.refused, refusal(s))
		}
		if m.Local.Terminating && s.Written > 0 {
			t.terminating = append(t.terminating, m.Name)
		}
		if s.Reason == ReasonSecondWriter {
			t.contested = append(t.contested, m.Name+": "+s.Message)
		}
		if m.Reach == Reachable && m.Local.Exists && s.Name != "" {
			t.starting += max(0, int64(s.Written-s.Running-s.Unschedulable-s.Uncreated))
			t.leaving += max(0, int64(s.Pods-s.Written))
		}
	}
	return t
}

// settled is the condition whether anything moves or is about to.
func (p *pass) settled(writes []Write) metav1.Condition {
	t := p.tally()
	unsettled := func(reason, message string) metav1.Condition {
		return podhealth.Condition(v1alpha1.ConditionSettled, false, reason, message)
	}
	rollout, n := p.rollout(), len(writes)
	switch {
	case len(t.refused) > 0:
		return unsettled(ReasonRefused, strings.Join(t.refused, "; "))
	case len(t.contested) > 0:
		return unsettled(ReasonSecondWriter, strings.Join(t.contested, "; "))
	case len(t.terminating) > 0:
		return unsettled(ReasonDeleting, fmt.Sprintf("the %s is being deleted in %s, and created again when it is gone", p.kind(),
			strings.Join(t.terminating, ", ")))
	case n > 0:
		return unsettled(ReasonWriting, spelling.Count(n, "local object")+verb(n, " is", " are")+" being written")
	case rollout != "":
		return unsettled(ReasonRolling, rollout)
	case p.held > 0:
		return unsettled(ReasonMoving, inWords(p.held)+" will leave when others run instead")
	case t.starting > 0:
		return unsettled(ReasonStarting, inWords(t.starting)+verb(t.starting, " is", " are")+" starting")
	case t.leaving > 0:
		return unsettled(ReasonStopping, spelling.Count(t.leaving, "surplus pod")+verb(t.leaving, " has", " have")+" not ended yet")
	case p.waiting > 0 && t.pending > 0:
		return unsettled(ReasonNoRoom, p.withoutCluster(""))
	case t.running < p.total-p.waiting:
		return unsettled(ReasonStarting, fmt.Sprintf("%d of %s run", t.running, inWords(p.total)))
	}
	return podhealth.Condition(v1alpha1.ConditionSettled, true, ReasonSettled, "nothing moves or is about to")
}

// refusal describes a refused write.
func refusal(s v1alpha1.FederatedClusterStatus) string {
	return fmt.Sprintf("%s did not take %s, %s so far: %s", s.Name, inWords(s.Refused.Replicas), spelling.Count(s.Refused.Count, "time"),
		s.Refused.Message)
}

// events are about what is new in this decision.
func (p *pass) events(writes []Write) (events podhealth.Events) {
	for _, m := range p.members {
		if m.status.Name == "" {
			continue
		}
		was, s := m.before, m.status
		switch {
		case s.Reason == ReasonLost && was.Reason != ReasonLost:
			events.Add(v1.EventTypeWarning, ReasonClusterLost, m.Name, "cluster %s is lost with %s: as many start elsewhere", m.Name,
				inWords(s.Written))
		case was.Reason == ReasonLost && s.Reachable:
			events.Add(v1.EventTypeNormal, ReasonClusterBack, m.Name, "cluster %s is back with %s", m.Name, inWords(s.Running))
		}
		if replica.NewlyLeftAlone(was.Overwrites, s.Overwrites) {
			events.Add(v1.EventTypeWarning, ReasonSecondWriter, m.Name, "cluster %s: %s", m.Name, s.Message)
		}
		m.health.Now.Fallback(&events, "cluster", m.Name, was.Capacity, m.found)
	}
	for _, w := range writes {
		p.written(&events, w, writes)
	}
	if understood := p.understood(); understood.Status == metav1.ConditionFalse {
		events.Warn(p.in.Status.Conditions, understood)
	}
	return events
}

// written adds the events about a write.
func (p *pass) written(events *podhealth.Events, w Write, writes []Write) {
	add := func(kind, reason, format string, args ...any) { events.Add(kind, reason, w.Cluster, format, args...) }
	i := slices.IndexFunc(p.members, func(m member) bool { return m.Name == w.Cluster })
	switch l := &p.members[i].Local; {
	case w.Create:
		add(v1.EventTypeNormal, ReasonCreated, "created in cluster %s with %s: %s", w.Cluster, inWords(w.To), w.Why)
		return
	case w.Delete:
		add(v1.EventTypeNormal, ReasonDeleted, "deleted in cluster %s: %s", w.Cluster, w.Why)
		return
	case l.Foreign:
		*events = append(*events, OverwroteForeign(w.Cluster, l.Replicas))
	case w.Content && l.Revision == "":
		*events = append(*events, OverwroteChange(w.Cluster))
	case w.Content:
		add(v1.EventTypeNormal, ReasonRolledOut, "cluster %s gets the new template", w.Cluster)
	}
	if l := &p.members[i].Local; l.edited() {
		add(v1.EventTypeWarning, ReasonOverwritten, "overwrote the number of replicas in cluster %s, which somebody else changed from %d to %d",
			w.Cluster, *l.Written, l.Replicas)
	}
	switch to := p.recipients(writes); {
	case w.To == w.From:
	case w.To < w.From && to != "":
		add(v1.EventTypeNormal, ReasonMoved, "moved %s from cluster %s to %s: %s", inWords(w.From-w.To), w.Cluster, to, w.Why)
	case w.Moves > 0:
		add(v1.EventTypeNormal, ReasonMoved, "moved %s from cluster %s, as others run instead: %s", inWords(w.From-w.To), w.Cluster, w.Why)
	default:
		add(v1.EventTypeNormal, ReasonRescaled, "scaled cluster %s from %d to %s: %s", w.Cluster, w.From, inWords(w.To), w.Why)
	}
}

func warning(cluster, reason, format string, args ...any) podhealth.Event {
	return podhealth.Event{Type: v1.EventTypeWarning, Reason: reason, About: cluster, Message: fmt.Sprintf(format, args...)}
}

// OverwroteForeign is the event when an object was overwritten that was not written for the
// FederatedReplicaSet and had a number of replicas.
func OverwroteForeign(cluster string, replicas int32) podhealth.Event {
	return warning(cluster, ReasonOverwritten,
		"overwrote an object of that name in cluster %s, which had another origin and %s; its pods may be adopted", cluster, inWords(replicas))
}

// OverwroteChange is the event when the content of a local object was overwritten that somebody
// else had changed.
func OverwroteChange(cluster string) podhealth.Event {
	return warning(cluster, ReasonOverwritten, "overwrote a change of the object in cluster %s by somebody else", cluster)
}

// LeftBehind is the event when an object is not deleted because it was somebody else's before.
func LeftBehind(cluster string) podhealth.Event {
	return warning(cluster, ReasonLeftBehind, "left the object in cluster %s behind instead of deleting it: it was somebody else's before",
		cluster)
}

// recipients names the clusters that grow while the number asked for stays; empty if none does.
func (p *pass) recipients(writes []Write) string {
	var names []string
	for _, w := range writes {
		if w.To > w.From && p.in.Status.AskedReplicas == replica.Clip(p.total) {
			names = append(names, w.Cluster)
		}
	}
	return strings.Join(names, ", ")
}

// refuse is the decision about an invalid spec: the clusters and all that is known about them stay
// as they are.
func refuse(in Input, problem string) Decision {
	d := Decision{Status: *in.Status.DeepCopy()}
	d.Status.ObservedGeneration, d.Status.Selector = in.Generation, in.Spec.Selector.Query()
	invalid := podhealth.Condition(v1alpha1.ConditionSettled, false, ReasonInvalidSpec, problem)
	d.Status.Conditions = podhealth.Conditions(in.Status.Conditions, []metav1.Condition{invalid}, in.Generation, in.Now)
	d.Events.Warn(in.Status.Conditions, invalid)
	return d
}
