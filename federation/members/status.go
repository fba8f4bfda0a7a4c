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

// status is what the status of the MemberCluster should be.
func (c *Cluster) status(m *v1alpha1.MemberCluster) *v1alpha1.MemberClusterStatus {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := m.Status.DeepCopy()
	s.ObservedGeneration = m.Generation
	s.Version, s.ClusterUID = c.version, c.uid
	if s.ClusterUID == "" && c.problem == nil { // not asked yet since the program started
		s.Version, s.ClusterUID = m.Status.Version, m.Status.ClusterUID
	}
	reachable := c.reachable()
	reachable.LastTransitionTime = metav1.NewTime(c.live.since)
	for _, condition := range []metav1.Condition{reachable, c.credentials()} {
		condition.ObservedGeneration = m.Generation
		meta.SetStatusCondition(&s.Conditions, condition)
	}
	if room := c.roomKnown(); room != nil {
		room.ObservedGeneration = m.Generation
		meta.SetStatusCondition(&s.Conditions, *room)
	} else {
		meta.RemoveStatusCondition(&s.Conditions, v1alpha1.ConditionRoomKnown)
	}
	if !equality.Semantic.DeepEqual(s, &m.Status) && !c.probed.IsZero() {
		s.LastProbeTime = &metav1.Time{Time: c.probed.Truncate(time.Second)}
	}
	return s
}

// reachable is the condition of that name.
func (c *Cluster) reachable() metav1.Condition {
	out := metav1.Condition{Type: v1alpha1.ConditionReachable, Status: metav1.ConditionUnknown, Reason: string(c.live.state)}
	lost := cmp.Or(c.cause, "the cluster does not answer")
	if c.problem != nil {
		lost = c.problem.Message
	}
	switch c.live.state {
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
		out.Status, out.Message = metav1.ConditionFalse, fmt.Sprintf("the cluster answers again; it counts as returned when it has done so for %s", c.options.StabilizationTime)
	}
	if c.problem != nil && c.live.state != Ready && c.live.state != Stabilizing {
		out.Reason = v1alpha1.ReasonNoCredentials
	}
	return out
}

// credentials is the condition CredentialsValid.
func (c *Cluster) credentials() metav1.Condition {
	out := metav1.Condition{Type: v1alpha1.ConditionCredentialsValid, Status: metav1.ConditionUnknown}
	switch {
	case c.problem != nil:
		out.Status, out.Reason, out.Message = metav1.ConditionFalse, c.problem.Reason, c.problem.Message
	case !c.valid:
		out.Reason, out.Message = v1alpha1.ReasonUnchecked, "the cluster has not answered since the credentials were read"
	default:
		out.Status, out.Reason, out.Message = metav1.ConditionTrue, v1alpha1.ReasonAccepted, "the cluster accepts the credentials"
		if !c.expires.IsZero() {
			out.Message += ", which expire on " + c.expires.UTC().Format(time.RFC3339)
		}
		if !c.warn.IsZero() && !c.options.Clock.Now().Before(c.warn) {
			out.Reason = v1alpha1.ReasonExpiringSoon
			out.Message += ": " + remedy
		}
	}
	return out
}
