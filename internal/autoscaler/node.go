package autoscaler

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// stabilization is how long a node must be ready to serve as a template.
const stabilization = time.Minute

// notReady is a copy of a node that has not been ready since it was created.
func notReady(node *v1.Node) *v1.Node {
	out := *node
	out.Status.Conditions = append(slices.DeleteFunc(slices.Clone(node.Status.Conditions), func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady
	}), v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionFalse, LastTransitionTime: node.CreationTimestamp})
	return &out
}

// lastChange is the last change of what makes the node ready.
func lastChange(node *v1.Node) time.Time {
	var last time.Time
	for _, c := range node.Status.Conditions {
		switch c.Type {
		case v1.NodeReady, v1.NodeDiskPressure, v1.NodeNetworkUnavailable:
			if last.Before(c.LastTransitionTime.Time) {
				last = c.LastTransitionTime.Time
			}
		}
	}
	return last
}

func tainted(node *v1.Node, key string) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Key == key {
			return true
		}
	}
	return false
}

func deleting(node *v1.Node) bool { return tainted(node, template.ToBeDeletedTaint) }

// goodTemplate reports whether a group's template is taken from the node.
func goodTemplate(node *v1.Node, now time.Time) bool {
	return template.IsHealthy(node) && lastChange(node).Add(stabilization).Before(now) && !node.Spec.Unschedulable && !deleting(node)
}

// renamed is a copy of a node under another name. It shares what is not changed; the provider id
// stays.
func renamed(node *v1.Node, name string) *v1.Node {
	out := *node
	out.Name, out.UID = name, ""
	out.Labels = make(map[string]string, len(node.Labels)+1)
	for key, value := range node.Labels {
		out.Labels[key] = value
	}
	out.Labels[v1.LabelHostname] = name
	return &out
}
