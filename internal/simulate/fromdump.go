package simulate

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// DumpOptions contain what is missing in a dump.
type DumpOptions struct {
	// Name is the name of the scenario.
	Name string
	// GroupLabel is the label that names the group of a node; empty means the first of
	// KnownGroupLabels that a node has.
	GroupLabel string
	// Bounds are the bounds of groups by name; they take precedence over Cluster Autoscaler's
	// status.
	Bounds map[string]DumpBounds
	// Max is the maximum of groups whose bounds are unknown.
	Max int32
}

// DumpBounds are the bounds of a node group.
type DumpBounds struct{ Min, Max int32 }

// KnownGroupLabels are the labels by which clouds name the node group of a node.
var KnownGroupLabels = []string{
	"eks.amazonaws.com/nodegroup", "alpha.eksctl.io/nodegroup-name", "cloud.google.com/gke-nodepool", "kubernetes.azure.com/agentpool", "agentpool",
	"kops.k8s.io/instancegroup", "doks.digitalocean.com/node-pool", "k8s.scaleway.com/pool-name", "lke.linode.com/pool-id", "ibm-cloud.kubernetes.io/worker-pool-name",
}

// Dump collects the objects of a cluster, to make a scenario of them.
type Dump struct {
	nodes   []*v1.Node
	objects []json.RawMessage
	bounds  map[string]DumpBounds // by Cluster Autoscaler's name of the group
}

// Add adds an object. Objects that a scenario does not use are ignored.
func (d *Dump) Add(item document.Item) error {
	object := item.Object
	switch o := item.Object.(type) {
	case *v1.Node:
		d.nodes = append(d.nodes, o)
		object = plainNode(o)
	case *v1.Pod:
		if o.Status.Phase == v1.PodSucceeded || o.Status.Phase == v1.PodFailed {
			return nil
		}
		object = plainPod(o)
	case *appsv1.DaemonSet:
		object = &appsv1.DaemonSet{ObjectMeta: plainMeta(&o.ObjectMeta), Spec: appsv1.DaemonSetSpec{
			Template: v1.PodTemplateSpec{ObjectMeta: plainMeta(&o.Spec.Template.ObjectMeta), Spec: plainSpec(&o.Spec.Template.Spec)},
		}}
	case *v1.ConfigMap:
		if o.Name == statusConfigMap {
			d.bounds = parseStatus(o.Data["status"])
		}
		return nil
	case *v1.Service:
		object = &v1.Service{ObjectMeta: plainMeta(&o.ObjectMeta), Spec: v1.ServiceSpec{Selector: o.Spec.Selector}}
	case *v1.ReplicationController:
		object = &v1.ReplicationController{ObjectMeta: plainMeta(&o.ObjectMeta), Spec: v1.ReplicationControllerSpec{Selector: o.Spec.Selector}}
	case *appsv1.ReplicaSet:
		if o.Status.Replicas == 0 {
			return nil // an old revision
		}
		object = &appsv1.ReplicaSet{ObjectMeta: plainMeta(&o.ObjectMeta), Spec: appsv1.ReplicaSetSpec{Selector: o.Spec.Selector}}
	case *v1.Namespace:
		object = &v1.Namespace{ObjectMeta: plainMeta(&o.ObjectMeta)}
	case nil:
		return nil
	}
	raw, err := plainJSON(object, item.APIVersion, item.Kind)
	if err != nil {
		return fmt.Errorf("%s %s: %w", item.Kind, item.Name, err)
	}
	d.objects = append(d.objects, raw)
	return nil
}

// Dumped is the scenario made from a dump.
type Dumped struct {
	Scenario *v1alpha1.Scenario
	// Empty are the names and bounds of groups that Cluster Autoscaler knows and that have no node.
	// They are not in the scenario, because their templates are unknown.
	Empty []v1alpha1.ScenarioNodeGroup
	// Notes describe missing information.
	Notes []string
}

// Scenario makes the scenario, with the node groups of the nodes.
func (d *Dump) Scenario(o DumpOptions) (*Dumped, error) {
	slices.SortFunc(d.nodes, func(a, b *v1.Node) int { return strings.Compare(a.Name, b.Name) })
	label := cmp.Or(o.GroupLabel, d.knownLabel())
	if label == "" {
		return nil, fmt.Errorf("no node has a label that is known to name its group, such as %s", KnownGroupLabels[0])
	}
	out := &Dumped{}
	s := &v1alpha1.Scenario{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindScenario},
		ObjectMeta: metav1.ObjectMeta{Name: o.Name},
		Spec:       v1alpha1.ScenarioSpec{GroupLabel: label, Objects: d.objects},
	}
	members := map[string][]*v1.Node{}
	for i, name := range nodegroupset.ParseGroupLabel(label).Names(d.nodes) {
		if name != "" {
			members[name] = append(members[name], d.nodes[i])
		}
	}
	if len(members) == 0 {
		return nil, fmt.Errorf("no node has the label %s", label)
	}
	var unbounded []string
	bounded := map[string]bool{} // of the status
	for _, name := range slices.Sorted(maps.Keys(members)) {
		nodes := members[name]
		bounds, known := o.Bounds[name]
		if inStatus, found := d.boundsOf(name); found {
			bounded[inStatus] = true
			if !known {
				bounds, known = d.bounds[inStatus], true
			}
		}
		if !known {
			bounds.Max = max(o.Max, int32(len(nodes)))
			unbounded = append(unbounded, name)
		}
		s.Spec.NodeGroups = append(s.Spec.NodeGroups, v1alpha1.ScenarioNodeGroup{
			Name: name, Min: bounds.Min, Max: &bounds.Max, Template: templateOf(name, nodes),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(o.Bounds)) {
		if members[name] == nil {
			return nil, fmt.Errorf("no node group %q, the groups are %s", name, few(slices.Sorted(maps.Keys(members))))
		}
	}
	if len(unbounded) > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("the bounds of %s are unknown, so they are 0 and %d: give --nodes=MIN:MAX:GROUP, or the ConfigMap %s of Cluster Autoscaler",
			few(unbounded), o.Max, statusConfigMap))
	}
	var empty []string
	for _, name := range slices.Sorted(maps.Keys(d.bounds)) {
		if b := d.bounds[name]; !bounded[name] {
			empty = append(empty, name)
			out.Empty = append(out.Empty, v1alpha1.ScenarioNodeGroup{Name: name, Min: b.Min, Max: &b.Max})
		}
	}
	if len(empty) > 0 {
		out.Notes = append(out.Notes, fmt.Sprintf("Cluster Autoscaler knows %s, which has no node, so its template is unknown: it is a comment below nodeGroups, for you to fill in", few(empty)))
	}
	out.Scenario = s
	return out, nil
}

// knownLabel returns the first label of KnownGroupLabels that a node has.
func (d *Dump) knownLabel() string {
	for _, label := range KnownGroupLabels {
		if slices.ContainsFunc(d.nodes, func(n *v1.Node) bool { return n.Labels[label] != "" }) {
			return label
		}
	}
	return ""
}

// templateOf is what one node of a group says of all: the first usable one by name, else the first.
func templateOf(group string, nodes []*v1.Node) *v1.Node {
	node := template.OfNode(group, slices.MinFunc(nodes, template.Compare), nil, nil).Node
	delete(node.Labels, v1.LabelHostname)
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: node.Labels},
		Spec:       v1.NodeSpec{Taints: node.Spec.Taints, ProviderID: node.Spec.ProviderID},
		Status:     v1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable},
	}
}

// plainMeta returns the metadata that a simulation uses.
func plainMeta(m *metav1.ObjectMeta) metav1.ObjectMeta {
	annotations := maps.Clone(m.Annotations)
	delete(annotations, v1.LastAppliedConfigAnnotation)
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, Labels: m.Labels, Annotations: annotations, OwnerReferences: m.OwnerReferences,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp, DeletionGracePeriodSeconds: m.DeletionGracePeriodSeconds,
	}
}

func plainNode(n *v1.Node) *v1.Node {
	out := &v1.Node{
		ObjectMeta: plainMeta(&n.ObjectMeta),
		Spec:       v1.NodeSpec{ProviderID: n.Spec.ProviderID, Taints: n.Spec.Taints, Unschedulable: n.Spec.Unschedulable},
		Status:     v1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable},
	}
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			out.Status.Conditions = append(out.Status.Conditions, v1.NodeCondition{Type: c.Type, Status: c.Status})
		}
	}
	return out
}

func plainPod(p *v1.Pod) *v1.Pod {
	out := &v1.Pod{
		ObjectMeta: plainMeta(&p.ObjectMeta), Spec: plainSpec(&p.Spec),
		Status: v1.PodStatus{Phase: p.Status.Phase, NominatedNodeName: p.Status.NominatedNodeName},
	}
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled && c.Status != v1.ConditionTrue {
			out.Status.Conditions = append(out.Status.Conditions, v1.PodCondition{Type: c.Type, Status: c.Status, Reason: c.Reason})
		}
	}
	return out
}

// plainSpec returns the specification without images, commands, variables and probes.
func plainSpec(s *v1.PodSpec) v1.PodSpec {
	out := *s
	plain := func(all []v1.Container) []v1.Container {
		var out []v1.Container
		for _, c := range all {
			out = append(out, v1.Container{Name: c.Name, Image: c.Image, Ports: c.Ports, Resources: c.Resources, RestartPolicy: c.RestartPolicy})
		}
		return out
	}
	out.InitContainers, out.Containers, out.EphemeralContainers = plain(s.InitContainers), plain(s.Containers), nil
	return out
}

// plainJSON returns an object without fields that only an API server uses.
func plainJSON(object any, apiVersion, kind string) (json.RawMessage, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, err
	}
	fields["apiVersion"], fields["kind"] = apiVersion, kind
	if meta, ok := fields["metadata"].(map[string]any); ok {
		for _, name := range []string{"managedFields", "resourceVersion", "generation", "selfLink"} {
			delete(meta, name)
		}
	}
	if status, ok := fields["status"].(map[string]any); ok {
		delete(status, "nodeInfo")
		delete(status, "daemonEndpoints")
	}
	withoutNulls(fields)
	return json.Marshal(fields)
}

func withoutNulls(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			if inner == nil {
				delete(v, name)
				continue
			}
			withoutNulls(inner)
		}
	case []any:
		for _, inner := range v {
			withoutNulls(inner)
		}
	}
}
