package federation

import (
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// Failure is a write that was not made, or not as it was sent.
type Failure struct {
	Write Write
	// Refused is the answer of the cluster, or says why there is none. It is empty if the object was
	// deleted, to be created again.
	Refused string
	// Content says that the write was made after all, and is the hash of the pod template that the
	// cluster made of it.
	Content string
}

// Settle corrects the status of a decision, which assumes that all writes succeed. It returns the
// events about failures. A write that failed is tried again after a time that grows; its replicas
// count as missing since it failed first.
func Settle(in Input, d Decision, failures []Failure, now time.Time) (v1alpha1.FederatedReplicaSetStatus, podhealth.Events) {
	status := *d.Status.DeepCopy()
	var events podhealth.Events
	var refusals []string
	for _, f := range failures {
		for i := range status.Clusters {
			s := &status.Clusters[i]
			if s.Name != f.Write.Cluster {
				continue
			}
			if f.Content != "" {
				s.Content = f.Content
				continue
			}
			before := clusterStatus(&in.Status, s.Name)
			s.Written, s.Revision, s.RollingSince = f.Write.From, f.Write.Was, before.RollingSince
			if f.Refused == "" {
				continue
			}
			s.Refused = &v1alpha1.FederatedRefusal{Replicas: f.Write.To, Count: 1, FirstTime: *podhealth.Stamp(now), LastTime: *podhealth.Stamp(now), Message: f.Refused}
			if r := before.Refused; r != nil && !r.FirstTime.IsZero() {
				s.Refused.Count, s.Refused.FirstTime = r.Count+1, r.FirstTime
			}
			refusals = append(refusals, refusal(*s))
			if before.Refused == nil || before.Refused.Message != f.Refused {
				events.Add(v1.EventTypeWarning, ReasonRefused, s.Name, "cluster %s", refusal(*s))
			}
		}
	}
	if len(refusals) > 0 {
		settled := podhealth.Condition(v1alpha1.ConditionSettled, false, ReasonRefused, strings.Join(refusals, "; "))
		// The time of the condition depends on what was stored before.
		dated := podhealth.Conditions(in.Status.Conditions, []metav1.Condition{settled}, in.Generation, in.Now)
		if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionSettled); c != nil {
			*c = *meta.FindStatusCondition(dated, v1alpha1.ConditionSettled)
		}
	}
	return status, events
}

// clusterStatus is the status of a cluster; an empty one if there is none.
func clusterStatus(s *v1alpha1.FederatedReplicaSetStatus, name string) v1alpha1.FederatedClusterStatus {
	for _, c := range s.Clusters {
		if c.Name == name {
			return c
		}
	}
	return v1alpha1.FederatedClusterStatus{}
}
