package removal

import (
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// Annotations by which nodes and pods are kept or let go.
const (
	scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	safeToEvict       = "cluster-autoscaler.kubernetes.io/safe-to-evict"
	safeLocalVolumes  = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
)

// replicating are the kinds of controllers that make a pod anew.
var replicating = []string{"ReplicaSet", "StatefulSet", "Job", "ReplicationController"}

// drain is what the rules about single pods say of a node.
type drain struct {
	movable    []*v1.Pod // that have to move when the node goes
	budgeted   []budgeted
	completing bool      // one is to complete first
	reason     string    // why the node stays whatever else is
	until      time.Time // when the rules may say otherwise; zero: not by time alone
}

// drainOf applies the rules in Cluster Autoscaler's order.
func (w *World) drainOf(n *Node, o *Options) drain {
	if n.Node.Node.Annotations[scaleDownDisabled] == "true" {
		return drain{reason: "marked " + scaleDownDisabled}
	}
	var d drain
	for _, pod := range n.Pods {
		if template.RunsOnEveryNode(pod) || isFinished(pod) || d.stuck(pod, w.Now) {
			continue
		}
		by := w.budgetsOf(pod)
		reason, free := o.keeps(pod, len(by) > 0, &d, w.Now)
		switch {
		case reason != "":
			return drain{reason: "has a pod that " + reason, until: d.until}
		case !free && pod.Annotations[safeToEvict] == "on-completion":
			d.completing = true
			continue
		case len(by) > 0:
			d.budgeted = append(d.budgeted, budgeted{by, free})
		}
		d.movable = append(d.movable, pod)
	}
	return d
}

// stuckAfter is how long a pod has ended beyond its grace period if nobody waits for it any more.
const stuckAfter = 30 * time.Second

// stuck reports whether a pod has been ending for so long that it counts as gone.
func (d *drain) stuck(pod *v1.Pod, now time.Time) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	grace := time.Duration(ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, v1.DefaultTerminationGracePeriodSeconds)) * time.Second
	return d.passed(pod.DeletionTimestamp.Add(grace+stuckAfter), now)
}

// passed reports whether now is after an instant. One to come limits for how long d holds.
func (d *drain) passed(at, now time.Time) bool {
	if now.After(at) {
		return true
	}
	if after := at.Add(1); d.until.IsZero() || after.Before(d.until) {
		d.until = after
	}
	return false
}

func isFinished(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}

// keeps reports why a pod keeps its node; empty where it does not. A free pod moves whatever its
// budgets say.
func (o *Options) keeps(pod *v1.Pod, hasBudget bool, d *drain, now time.Time) (reason string, free bool) {
	safe, owner := pod.Annotations[safeToEvict], metav1.GetControllerOfNoCopy(pod)
	switch {
	case o.tooFew(pod, owner, d, now):
		return "has too few replicas", false
	case safe == "true":
		return "", true
	case safe == "on-completion":
		return "", false
	case owner == nil:
		return "has no controller", false
	case !o.AllowCustomControllers && !slices.Contains(replicating, owner.Kind):
		return "has a controller of kind " + owner.Kind, false
	case !o.AllowSystemPods && pod.Namespace == metav1.NamespaceSystem && !hasBudget:
		created := pod.CreationTimestamp
		if !created.IsZero() && d.passed(created.Add(ptr.Deref(o.SystemPodTimeout, DefaultSystemPodTimeout)), now) {
			return "", true
		}
		return "belongs to the system", false
	case safe == "false":
		return "is not safe to evict", false
	case !o.AllowLocalStorage && keepsData(pod):
		return "has local storage", false
	}
	return "", false
}

// tooFew reports whether a pod has fewer replicas than those of its controller that may be moved.
func (o *Options) tooFew(pod *v1.Pod, owner *metav1.OwnerReference, d *drain, now time.Time) bool {
	if o.MinReplicas == 0 || o.Replicas == nil || o.AllowCustomControllers || owner == nil || owner.Kind != "ReplicaSet" &&
		owner.Kind != "ReplicationController" {
		return false
	}
	d.until = now // replicas may change at any time
	return o.Replicas(pod) < o.MinReplicas
}

// keepsData reports whether the pod has data on the node that would be lost.
func keepsData(pod *v1.Pod) bool {
	safe := strings.Split(pod.Annotations[safeLocalVolumes], ",")
	return slices.ContainsFunc(pod.Spec.Volumes, func(volume v1.Volume) bool {
		local := volume.HostPath != nil || volume.EmptyDir != nil && volume.EmptyDir.Medium != v1.StorageMediumMemory
		return local && !slices.Contains(safe, volume.Name)
	})
}
