package template

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// nodeLabel is what Cluster Autoscaler puts on the nodes it makes from templates.
const nodeLabel = "cluster-autoscaler.kubernetes.io/template-node"

// transientTaints say something of one node at one moment, not of its group.
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

// StartupTaintPrefixes are prefixes of taints that a node carries only while it starts.
var StartupTaintPrefixes = []string{
	"startup-taint.cluster-autoscaler.kubernetes.io/",
	"ignore-taint.cluster-autoscaler.kubernetes.io/",
}

// startingTaints are those of them that a node carries until it is ready for the first time, besides that
// of nodes that are not ready.
var startingTaints = []string{
	v1.TaintNodeNetworkUnavailable,
	"node.cloudprovider.kubernetes.io/uninitialized",
	"node.cilium.io/agent-not-ready",
	"karpenter.sh/unregistered",
}

// StartsWith reports whether a taint is one that a node carries only while it starts. StartupTaints
// are the keys of further ones. That of nodes that are not ready is none of them: nodes that fail get
// it too.
func StartsWith(key string, startupTaints []string) bool {
	return slices.Contains(startingTaints, key) || slices.Contains(startupTaints, key) ||
		slices.ContainsFunc(StartupTaintPrefixes, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
}

// nameFor is the name of the template of a group, also as its hostname.
func nameFor(group string) string { return "template-node-for-" + group }

// OfNode makes the template of a group from one of its nodes and the pods on it. The template has a
// hostname of its own, no taint that a node carries only for a time, and of the pods only those
// that run on every node of the group: daemon set and static pods. StartupTaints are the keys of
// further taints that a node carries only while it starts.
func OfNode(group string, n *v1.Node, pods []*v1.Pod, startupTaints []string) *cloudprovider.Template {
	t := &cloudprovider.Template{Node: cleanNode(group, n, startupTaints)}
	for _, pod := range pods {
		if RunsOnEveryNode(pod) && pod.DeletionTimestamp == nil {
			t.Pods = append(t.Pods, cleanPod(pod))
		}
	}
	sortByName(t.Pods)
	return t
}

// OfNodes makes the template of a group from the first of its nodes by Compare, with the pods of a function on it. If that node does
// not name its cloud, the first one by name that does says it. It needs at least one node.
func OfNodes(group string, nodes []*v1.Node, pods func(node string) []*v1.Pod) (*cloudprovider.Template, error) {
	packs, err := nodegroupset.ShippedPacks()
	if err != nil {
		return nil, err
	}
	first := slices.MinFunc(nodes, Compare)
	t := OfNode(group, first, pods(first.Name), nil)
	if packs.NamesCloud(t.Node) {
		return t, nil
	}
	by := ""
	for _, n := range nodes {
		if packs.NamesCloud(n) && (by == "" || n.Name < by) {
			by, t.Node.Spec.ProviderID = n.Name, n.Spec.ProviderID
		}
	}
	return t, nil
}

// OfCloud makes the template of a group without nodes from what the cloud says and the daemon sets
// of the cluster.
func OfCloud(group string, cloud cloudprovider.Template, sets []*appsv1.DaemonSet, startupTaints []string) *cloudprovider.Template {
	t := &cloudprovider.Template{Node: cleanNode(group, cloud.Node, startupTaints), Pods: cloud.Pods}
	AddDaemonPods(t, sets)
	return t
}

func sortByName(pods []*v1.Pod) {
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
}

// cleanNode returns a copy that stands for any node of the group.
func cleanNode(group string, n *v1.Node, startupTaints []string) *v1.Node {
	name := nameFor(group)
	clean := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: make(map[string]string, len(n.Labels)+1), Annotations: n.Annotations},
		Spec:       v1.NodeSpec{ProviderID: n.Spec.ProviderID},
		Status: v1.NodeStatus{Capacity: n.Status.Capacity, Allocatable: n.Status.Allocatable, NodeInfo: n.Status.NodeInfo,
			DeclaredFeatures: n.Status.DeclaredFeatures},
	}
	clean = clean.DeepCopy()
	for key, value := range n.Labels {
		if key != nodeLabel {
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
	return slices.Contains(transientTaints, key) || StartsWith(key, startupTaints)
}

// cleanPod returns a copy that is bound to no node, neither by name nor by the node affinity that
// the daemon set controller writes.
func cleanPod(pod *v1.Pod) *v1.Pod {
	clean := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, Labels: pod.Labels, Annotations: pod.Annotations,
			OwnerReferences: pod.OwnerReferences},
		Spec: *pod.Spec.DeepCopy(),
	}
	clean.Spec.NodeName = ""
	if affinity := clean.Spec.Affinity; affinity != nil && affinity.NodeAffinity != nil {
		affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
	}
	return clean
}
