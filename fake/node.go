package fake

import (
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// GroupAnnotation on nodes and templates names the node group they come from.
const GroupAnnotation = "fake.evenkeel.dev/node-group"

// defaultScheme is the scheme of providerIDs if the configuration has no other.
const defaultScheme = "fake"

// schemeOf is the beginning of the providerIDs of a group's nodes. It is taken from its template or
// its own nodes, because a cloud uses one form of ids.
func (g *Group) schemeOf() string {
	for _, node := range append([]*v1.Node{g.Template.Node}, g.Nodes...) {
		if node == nil {
			continue
		}
		if scheme, _, found := strings.Cut(node.Spec.ProviderID, ":"); found && scheme != "" {
			return scheme
		}
	}
	return defaultScheme
}

// providerID is the spec.providerID of a node the cloud made.
func providerID(scheme, group, name string) string { return scheme + "://" + group + "/" + name }

// providerIDOf is the provider id of a node of the configuration: its own, or a generated one in
// the cloud's form if it has none.
func (g *Group) providerIDOf(node *v1.Node) string {
	if node.Spec.ProviderID != "" {
		return node.Spec.ProviderID
	}
	return providerID(g.schemeOf(), g.ID, node.Name)
}

// preparedTemplate converts a configured template to the one that the cloud returns and makes nodes
// from: without the identity and state of the node it may have been taken from, with allocatable
// filled in, and ready.
func preparedTemplate(id string, t cloudprovider.Template) cloudprovider.Template {
	t = t.DeepCopy()
	node := t.Node
	node.ObjectMeta = metav1.ObjectMeta{Labels: node.Labels, Annotations: node.Annotations}
	if node.Annotations == nil {
		node.Annotations = map[string]string{}
	}
	node.Annotations[GroupAnnotation] = id
	rename(node, id+"-template")
	if scheme, _, found := strings.Cut(node.Spec.ProviderID, ":"); found && scheme != "" {
		node.Spec.ProviderID = providerID(scheme, id, node.Name) // not the id of a node, but in the cloud's form
	} else {
		node.Spec.ProviderID = ""
	}
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(taint v1.Taint) bool {
		return taint.Key == v1.TaintNodeNotReady || taint.Key == v1.TaintNodeUnreachable
	})
	node.Status.Addresses = nil
	if node.Status.Allocatable == nil {
		node.Status.Allocatable = node.Status.Capacity.DeepCopy()
	}
	setReady(node, v1.ConditionTrue, "KubeletReady", metav1.Time{})
	return t
}

func rename(node *v1.Node, name string) {
	node.Name = name
	if node.Labels == nil {
		node.Labels = map[string]string{}
	}
	node.Labels[v1.LabelHostname] = name
}

// nodeState is the part of a node's state that its object shows.
type nodeState int

const (
	ready nodeState = iota + 1
	notReady
	unreachable
	starting
)

func (in *instance) stateAt(now time.Time, down bool) nodeState {
	switch {
	case down:
		return unreachable
	case in.stuck == NeverReady, in.node == nil && in.readyAt().After(now):
		return notReady
	case in.started != nil && in.startedAt.After(now):
		return starting
	}
	return ready
}

// nodeObject is the instance's node as the API server would show it now. It never changes: a new
// state makes a new object. It shares with the template what all nodes of the group have in common.
func (in *instance) nodeObject(now time.Time, down bool) *v1.Node {
	if l := in.stateAt(now, down); in.shownAs != l {
		in.shown, in.shownAs = in.draw(l), l
	}
	return in.shown
}

func (in *instance) draw(l nodeState) *v1.Node {
	var node v1.Node
	switch {
	case in.started == nil && in.node != nil && l == ready && in.node.Spec.ProviderID == in.id:
		return in.node
	case in.started != nil && l == ready:
		node = *in.started
	case in.node != nil:
		node = *in.node
	default:
		node = *in.place.like
		node.Labels = maps.Clone(node.Labels)
		rename(&node, in.name)
		node.CreationTimestamp = metav1.Time{Time: in.registersAt()}
		setReady(&node, v1.ConditionTrue, "KubeletReady", metav1.Time{Time: in.readyAt()})
	}
	node.Spec.ProviderID = in.id
	switch l {
	case ready, starting:
	case unreachable:
		setReady(&node, v1.ConditionUnknown, "NodeStatusUnknown", metav1.Time{})
		taint(&node, v1.TaintNodeUnreachable, v1.TaintEffectNoSchedule)
		taint(&node, v1.TaintNodeUnreachable, v1.TaintEffectNoExecute)
	case notReady:
		setReady(&node, v1.ConditionFalse, "KubeletNotReady", node.CreationTimestamp)
		taint(&node, v1.TaintNodeNotReady, v1.TaintEffectNoSchedule)
	}
	return &node
}

// setReady gives the node a list of conditions of its own.
func setReady(node *v1.Node, status v1.ConditionStatus, reason string, since metav1.Time) {
	node.Status.Conditions = slices.DeleteFunc(slices.Clone(node.Status.Conditions), func(c v1.NodeCondition) bool {
		return c.Type == v1.NodeReady
	})
	node.Status.Conditions = append(node.Status.Conditions, v1.NodeCondition{
		Type: v1.NodeReady, Status: status, Reason: reason, LastTransitionTime: since,
	})
}

// taint gives the node a list of taints of its own.
func taint(node *v1.Node, key string, effect v1.TaintEffect) {
	node.Spec.Taints = append(slices.Clip(node.Spec.Taints), v1.Taint{Key: key, Effect: effect})
}
