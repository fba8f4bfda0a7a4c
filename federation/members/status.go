package members

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// stateOf is what a MemberCluster counted as when its status was written.
func stateOf(m *v1alpha1.MemberCluster) State {
	c := meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable)
	switch {
	case c == nil:
		return Connecting
	case c.Reason == v1alpha1.ReasonNoCredentials && c.Status == metav1.ConditionFalse:
		return Offline
	}
	return State(c.Reason)
}

// status is what the status of the MemberCluster should be, and when the cluster counts as something else if it goes on as it does; zero
// for never.
func (c *Cluster) status(now time.Time) (_ *v1alpha1.MemberClusterStatus, until time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := c.member
	s := m.Status.DeepCopy()
	s.ObservedGeneration, s.Version, s.ClusterUID = m.Generation, c.version, c.uid
	state, since, until := c.live.at(now)
	reachable := c.reachable(state)
	reachable.LastTransitionTime = metav1.NewTime(since)
	conditions := []metav1.Condition{reachable, c.credentials(now)}
	if m.Spec.FixedNodes {
		conditions = append(conditions, c.roomKnown())
	} else {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionRoomKnown)
	}
	for _, condition := range conditions {
		condition.ObservedGeneration = m.Generation
		meta.SetStatusCondition(&s.Conditions, condition)
	}
	if !equality.Semantic.DeepEqual(s, &m.Status) && !c.probed.IsZero() {
		s.LastProbeTime = &metav1.Time{Time: c.probed.Truncate(time.Second)}
	}
	return s, until
}

// reachable is the condition of that name.
func (c *Cluster) reachable(state State) metav1.Condition {
	out := metav1.Condition{Type: v1alpha1.ConditionReachable, Status: metav1.ConditionUnknown, Reason: string(state)}
	lost := cmp.Or(c.cause, "the cluster does not answer")
	if c.problem != nil {
		lost = c.problem.Message
	}
	switch state {
	case Ready:
		out.Status, out.Message = metav1.ConditionTrue, "the cluster answers"
	case Connecting:
		out.Message = lost + "; it is asked again"
		if c.cause == "" && c.problem == nil {
			out.Message = "the cluster was not asked yet"
		}
	case NotAnswering:
		out.Message = fmt.Sprintf("%s; if it does not answer within %s, its replicas start elsewhere", lost, c.options.OfflineAfter)
	case Offline:
		out.Status, out.Message = metav1.ConditionFalse, lost+"; its replicas belong elsewhere until it returns"
	case Stabilizing:
		out.Status, out.Message = metav1.ConditionFalse,
			fmt.Sprintf("the cluster answers again; it counts as returned when it has done so for %s", c.options.StabilizationTime)
	}
	if c.problem != nil && state != Ready && state != Stabilizing {
		out.Reason = v1alpha1.ReasonNoCredentials
	}
	return out
}

// credentials is the condition CredentialsValid.
func (c *Cluster) credentials(now time.Time) metav1.Condition {
	out := metav1.Condition{Type: v1alpha1.ConditionCredentialsValid, Status: metav1.ConditionUnknown}
	switch s := c.connection; {
	case c.problem != nil:
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, c.problem.Reason, c.problem.Message
	case s == nil || !s.valid:
		out.Reason, out.Message = v1alpha1.ReasonUnchecked, "the cluster has not answered since the credentials were read"
	default:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the cluster accepts the credentials"
		if !s.expires.IsZero() {
			out.Message += ", which expire on " + s.expires.UTC().Format(time.RFC3339)
		}
		if !s.warn.IsZero() && !now.Before(s.warn) {
			out.Reason = v1alpha1.ReasonExpiringSoon
			out.Message += ": " + remedy
		}
	}
	return out
}

// roomKnown is the condition of that name.
func (c *Cluster) roomKnown() metav1.Condition {
	out := metav1.Condition{Type: v1alpha1.ConditionRoomKnown, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonUnchecked,
		Message: "the nodes have not been read yet"}
	switch known, denied := c.caches.nodesKnown(); {
	case known:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, v1alpha1.ReasonNodesRead, "the nodes and what their pods request are known"
	case denied:
		out.Reason = v1alpha1.ReasonForbidden
		out.Message = "the cluster does not allow to list and watch nodes: evenkeel cluster join with --fixed-nodes gives the right; " +
			"until then the cluster is taken for one whose room is not known"
	}
	return out
}
