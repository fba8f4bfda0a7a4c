package linked

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/internal/provisioning/conditions"
)

// PodResult is what a scale-up of the autoscaler has meant for pods.
type PodResult struct {
	// Groups are the names of node groups that grow, and Triggered the pods for which they do.
	Groups    []string
	Triggered []*v1.Pod
	// Failed is true if some of the scale-up failed.
	Failed bool
	// Reason is why nothing grows for the pods that are left; empty if a scale-up was tried, after
	// which they are looked at once more.
	Reason string
	Left   []LeftPod
}

// LeftPod is a pod for which no node group grows, and why not.
type LeftPod struct {
	Pod *v1.Pod
	Why string
}

// The reasons by the autoscaler's names of results.
var reasons = map[string]string{
	"ScaleUpNoOptionsAvailable":     provisioning.ReasonNoOptions,
	"ScaleUpNotTried":               provisioning.ReasonNotTried,
	"ScaleUpInCooldown":             provisioning.ReasonInCooldown,
	"ScaleUpLimitedByMaxNodesTotal": provisioning.ReasonMaxNodesTotal,
}

// ReasonOf is the reason of the condition of pods that a result leaves; empty if it leaves none.
func ReasonOf(result string) string { return reasons[result] }

// Notices are the conditions of pods after a scale-up.
func (r PodResult) Notices() []conditions.Notice {
	var out []conditions.Notice
	add := func(pod *v1.Pod, n conditions.Notice) {
		if pod.UID == "" {
			return // it stands for others, and is not in the cluster
		}
		n.Namespace, n.Name, n.UID = pod.Namespace, pod.Name, pod.UID
		out = append(out, n)
	}
	for _, pod := range r.Triggered {
		switch {
		case r.Failed:
			add(pod, conditions.Notice{Acting: true, Reason: provisioning.ReasonAttemptFailed,
				Message: "a scale-up has failed; other node groups may be tried"})
		case len(r.Groups) > 0:
			add(pod, conditions.Notice{Acting: true, Message: "these node groups grow: " + strings.Join(r.Groups, ", ")})
		}
	}
	if r.Reason == "" {
		return out
	}
	for _, left := range r.Left {
		message := "no node group grows for the pod"
		if left.Why != "" {
			message += fmt.Sprintf(": %s", left.Why)
		}
		add(left.Pod, conditions.Notice{Reason: r.Reason, Message: message})
	}
	return out
}
