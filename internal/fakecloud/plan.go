package fakecloud

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	nodeutil "k8s.io/component-helpers/node/util"
)

const (
	// OwnerAnnotation on a Node object, and the label of the same name on a Lease,
	// says which fake cloud made it. Nodes without it are never touched.
	OwnerAnnotation = "fake.evenkeel.dev/cloud"

	kwokAnnotation = "kwok.x-k8s.io/node" // has kwok look after a node
	kwokFake       = "fake"
)

// A view is what the cloud has and what the API server has.
type view struct {
	owner   string
	desired []*v1.Node           // of the cloud, as they ought to look
	actual  map[string]*v1.Node  // all of the API server, by name
	held    map[string]types.UID // the leases this cloud holds, by name of the node
	// inherited are the nodes of an earlier run, which may look different from
	// what the cloud has now.
	inherited sets.Set[types.UID]
}

// A step is what must be done for one node. Its parts are done in the order
// of the fields.
type step struct {
	name    string
	foreign bool              // a node of that name is there and somebody else's
	hold    bool              // take the lease
	create  *v1.Node          // nil: none
	remove  types.UID         // of the Node object to delete; empty: none
	ready   *v1.NodeCondition // to be written; nil: none
	release types.UID         // of the Lease to give up; empty: none
	// contested says that the node was made ready in spite of its lease.
	contested bool
}

// plan compares. Steps come in the order of the nodes of the cloud, after those
// for nodes that the cloud has not, which are in order of name.
func plan(v view) []step {
	var steps []step
	wanted := make(map[string]bool, len(v.desired))
	for _, n := range v.desired {
		wanted[n.Name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(v.actual)) {
		if n := v.actual[name]; !wanted[name] && v.owns(n) && n.DeletionTimestamp == nil {
			steps = append(steps, step{name: name, remove: n.UID, release: v.held[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v.held)) {
		if _, there := v.actual[name]; !wanted[name] && !there {
			steps = append(steps, step{name: name, release: v.held[name]})
		}
	}
	for _, n := range v.desired {
		if s, needed := v.stepFor(n); needed {
			steps = append(steps, s)
		}
	}
	return steps
}

// stepFor is what to do for a node of the cloud.
func (v *view) stepFor(desired *v1.Node) (s step, needed bool) {
	s.name = desired.Name
	want := readyOf(desired)
	lease, held := v.held[desired.Name]
	actual := v.actual[desired.Name]
	switch {
	case actual == nil:
		s.create = v.object(desired)
	case !v.owns(actual):
		s.foreign = true
		return s, true
	case actual.DeletionTimestamp != nil:
		return s, false
	case v.inherited.Has(actual.UID) && !sameMachine(actual, v.object(desired)):
		s.remove = actual.UID // the next round makes it anew
		return s, true
	}
	if want.Status == v1.ConditionTrue {
		s.release = lease
		if held && actual != nil {
			s.ready = &want
		}
	} else {
		s.hold = !held
		if actual != nil && !staysDown(readyOf(actual).Status, want.Status) {
			s.ready = &want
			s.contested = held && readyOf(actual).Status == v1.ConditionTrue
		}
	}
	return s, s.hold || s.release != "" || s.create != nil || s.ready != nil
}

// staysDown reports whether a node that ought not to be ready can stay as it is.
// That a node which never was ready does not answer is what the control plane
// makes of its silence.
func staysDown(is, want v1.ConditionStatus) bool {
	return is == want || is == v1.ConditionUnknown
}

func (v *view) owns(n *v1.Node) bool { return n.Annotations[OwnerAnnotation] == v.owner }

// object is the Node object to create for a node of the cloud. The taints of
// nodes that are not ready are the control plane's.
func (v *view) object(n *v1.Node) *v1.Node {
	out := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: maps.Clone(n.Labels), Annotations: maps.Clone(n.Annotations)},
		Spec:       v1.NodeSpec{ProviderID: n.Spec.ProviderID, Unschedulable: n.Spec.Unschedulable},
		Status:     *n.Status.DeepCopy(),
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	out.Annotations[OwnerAnnotation] = v.owner
	out.Annotations[kwokAnnotation] = kwokFake
	for _, taint := range n.Spec.Taints {
		switch taint.Key {
		case v1.TaintNodeNotReady, v1.TaintNodeUnreachable, v1.TaintNodeUnschedulable:
		default:
			out.Spec.Taints = append(out.Spec.Taints, taint)
		}
	}
	out.Status.Phase = v1.NodeRunning // kwok looks after such nodes only
	info := &out.Status.NodeInfo
	info.Architecture = cmp.Or(info.Architecture, out.Labels[v1.LabelArchStable], "amd64")
	info.OperatingSystem = cmp.Or(info.OperatingSystem, out.Labels[v1.LabelOSStable], "linux")
	info.KubeletVersion = cmp.Or(info.KubeletVersion, "fake")
	info.ContainerRuntimeVersion = cmp.Or(info.ContainerRuntimeVersion, "fake")
	return out
}

// sameMachine reports whether a node of an earlier run is still what the
// configuration says.
func sameMachine(actual, desired *v1.Node) bool {
	for key, value := range desired.Labels {
		if has, ok := actual.Labels[key]; !ok || has != value {
			return false
		}
	}
	for _, taint := range desired.Spec.Taints {
		if !slices.ContainsFunc(actual.Spec.Taints, func(t v1.Taint) bool { return t.MatchTaint(&taint) && t.Value == taint.Value }) {
			return false
		}
	}
	return actual.Spec.ProviderID == desired.Spec.ProviderID &&
		equality.Semantic.DeepEqual(actual.Status.Capacity, desired.Status.Capacity) &&
		equality.Semantic.DeepEqual(actual.Status.Allocatable, desired.Status.Allocatable)
}

// readyOf is the node's condition Ready, unknown if it has none.
func readyOf(n *v1.Node) v1.NodeCondition {
	if _, c := nodeutil.GetNodeCondition(&n.Status, v1.NodeReady); c != nil {
		return *c
	}
	return v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionUnknown}
}
