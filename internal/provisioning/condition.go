package provisioning

import (
	"time"

	v1 "k8s.io/api/core/v1"
)

// ConditionType is the condition of a pod that says what an autoscaler does about it, as KEP-5616
// has it. It is True while a node is on its way, and False if none is ordered. It stays when the pod
// has a node.
const ConditionType v1.PodConditionType = "NodeProvisioningInProgress"

// Reasons of the condition, as in KEP-5616. A scale-up that goes well has no reason.
const (
	// ReasonAttemptFailed goes with True: a scale-up has failed, and other node groups are left.
	ReasonAttemptFailed = "ProvisioningAttemptFailed"
	// ReasonNoOptions goes with False: no node group that can grow helps the pod.
	ReasonNoOptions = "NoOptionsAvailable"
	// ReasonNotTried goes with False: the autoscaler has stopped before it came to scale-ups.
	ReasonNotTried = "NotTried"
	// ReasonInCooldown goes with False: the autoscaler pauses.
	ReasonInCooldown = "InCooldown"
	// ReasonMaxNodesTotal goes with False: the cluster has as many nodes as it may have.
	ReasonMaxNodesTotal = "LimitedByMaxNodesTotal"
)

// Condition is what the condition of a pod says: that a node is on its way or that none is, and since
// when. It is not known if the pod has no such condition, or one that is neither true nor false.
func Condition(pod *v1.Pod) (acts bool, since time.Time, known bool) {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == ConditionType {
			return c.Status == v1.ConditionTrue, c.LastTransitionTime.Time, c.Status == v1.ConditionTrue || c.Status == v1.ConditionFalse
		}
	}
	return false, time.Time{}, false
}
