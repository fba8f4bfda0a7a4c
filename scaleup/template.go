package scaleup

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/predicates"
)

// Keys of the taints that Cluster Autoscaler puts on a node it removes, and on
// one it may remove, for the scheduler to avoid.
const (
	ToBeDeletedTaint       = "ToBeDeletedByClusterAutoscaler"
	DeletionCandidateTaint = "DeletionCandidateOfClusterAutoscaler"
)

// What else says something of one node at one moment, not of its group.
const (
	templateNodeLabel   = "cluster-autoscaler.kubernetes.io/template-node"
	mirrorPodAnnotation = v1.MirrorPodAnnotationKey
	fromCloud           = "cloud"
)

var transientTaints = []string{
	v1.TaintNodeNotReady,
	v1.TaintNodeUnreachable,
	v1.TaintNodeUnschedulable,
	v1.TaintNodeMemoryPressure,
	v1.TaintNodeDiskPressure,
	v1.TaintNodeNetworkUnavailable,
	v1.TaintNodePIDPressure,
	v1.TaintNodeOutOfService,
	"node.cloudprovider.kubernetes.io/uninitialized",
	"node.cloudprovider.kubernetes.io/shutdown",
	ToBeDeletedTaint,
	DeletionCandidateTaint,
}

// Prefixes of taints that a node carries only while it starts.
var startupTaintPrefixes = []string{
	"startup-taint.cluster-autoscaler.kubernetes.io/",
	"ignore-taint.cluster-autoscaler.kubernetes.io/",
}

// templateName is the name of a group's template, also as its hostname.
func templateName(group string) string { return "template-node-for-" + group }

// TemplateOfNode makes a group's template from one of its nodes: a hostname of
// its own, no transient or start-up taints, and of the pods only those that
// run on every node of the group (daemon set and static pods). The node is not
// changed. StartupTaints are keys of taints that a node carries only while it
// starts.
func TemplateOfNode(group string, n predicates.Node, startupTaints []string) *cloudprovider.Template {
	node := cleanNode(group, n.Node, startupTaints)
	var pods []*v1.Pod
	for _, pod := range n.Pods {
		if RunsOnEveryNode(pod) && pod.DeletionTimestamp == nil {
			pods = append(pods, cleanPod(pod))
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return &cloudprovider.Template{Node: node, Pods: pods}
}

// cleanNode returns a copy that stands for any node of the group.
func cleanNode(group string, n *v1.Node, startupTaints []string) *v1.Node {
	name := templateName(group)
	clean := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: make(map[string]string, len(n.Labels)+1), Annotations: n.Annotations},
		Spec:       v1.NodeSpec{ProviderID: n.Spec.ProviderID},
		Status:     v1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable, NodeInfo: n.Status.NodeInfo, DeclaredFeatures: n.Status.DeclaredFeatures},
	}
	clean = clean.DeepCopy()
	for key, value := range n.Labels {
		if key != templateNodeLabel {
			clean.Labels[key] = value
		}
	}
	clean.Labels[v1.LabelHostname] = name
	for _, taint := range n.Spec.Taints {
		if !isTransient(taint.Key, startupTaints) {
			clean.Spec.Taints = append(clean.Spec.Taints, v1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect})
		}
	}
	return clean
}

func isTransient(key string, startupTaints []string) bool {
	return slices.Contains(transientTaints, key) || slices.Contains(startupTaints, key) ||
		slices.ContainsFunc(startupTaintPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// RunsOnEveryNode tells daemon set and static pods from workload.
func RunsOnEveryNode(pod *v1.Pod) bool {
	if _, static := pod.Annotations[mirrorPodAnnotation]; static {
		return true
	}
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && (owner.Kind == "DaemonSet" || owner.Kind == "Node")
}

// cleanPod returns a copy bound to no node: neither by name nor by the node
// affinity that the daemon set controller writes.
func cleanPod(pod *v1.Pod) *v1.Pod {
	clean := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels, Annotations: pod.Annotations, OwnerReferences: pod.OwnerReferences},
		Spec:       *pod.Spec.DeepCopy(),
	}
	clean.Spec.NodeName = ""
	if affinity := clean.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	}
	return clean
}

// completeTemplate fills in what the cloud's template of an empty group lacks
// and a real node of a populated group shows: resources and labels that are
// absent, where nothing that is present on both sides differs. It returns the
// completed copy and the names of what was filled in.
func completeTemplate(empty, sibling *cloudprovider.Template, missing []missingField) (*cloudprovider.Template, []string) {
	node := empty.Node.DeepCopy()
	var filled []string
	for _, m := range missing {
		switch m.kind {
		case missingCapacity:
			fill(&node.Status.Capacity, m.name, sibling.Node.Status.Capacity)
		case missingAllocatable:
			fill(&node.Status.Allocatable, m.name, sibling.Node.Status.Allocatable)
		case missingLabel:
			if node.Labels == nil {
				node.Labels = map[string]string{}
			}
			node.Labels[m.name] = sibling.Node.Labels[m.name]
		}
		if !slices.Contains(filled, m.name) {
			filled = append(filled, m.name)
		}
	}
	return &cloudprovider.Template{Node: node, Pods: empty.Pods}, filled
}

func fill(into *v1.ResourceList, name string, from v1.ResourceList) {
	if *into == nil {
		*into = v1.ResourceList{}
	}
	(*into)[v1.ResourceName(name)] = from[v1.ResourceName(name)].DeepCopy()
}

type missingKind int

const (
	missingCapacity missingKind = iota
	missingAllocatable
	missingLabel
)

// missingField is one thing that a template lacks.
type missingField struct {
	kind missingKind
	name string
}

func completedFrom(sibling string, filled []string) string {
	return fmt.Sprintf("cloud, completed from %s (%s)", sibling, strings.Join(filled, ", "))
}
