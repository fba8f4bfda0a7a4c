package spreadplan

import (
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// Kind is a number of pending pods that are equal to the scheduler.
type Kind struct {
	Key   string  // as KeyOf returns it
	Pod   *v1.Pod // one of them
	Count int64

	requests podfit.Resources
	rules    podfit.Rules
	zones    *topologyspread.Constraint // over domains of several nodes; nil for none
	hosts    *topologyspread.Constraint // over nodes; nil for none
	keys     []string                   // of its hard constraints
	perNode  int64                      // pods that fit on a new node
	members  []*Member                  // that it may run on
}

// perPod are labels that differ between the pods of one controller, and that no spread selects by.
var perPod = []string{"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index"}

// KeyOf returns the same text for pods of one kind. Pods of one controller with the same labels come
// from one template.
func KeyOf(pod *v1.Pod) string {
	set := labels.Set(pod.Labels)
	if slices.ContainsFunc(perPod, set.Has) {
		set = maps.Clone(set)
		maps.DeleteFunc(set, func(key, _ string) bool { return slices.Contains(perPod, key) })
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return pod.Namespace + "/" + string(owner.UID) + " " + set.String()
	}
	return pod.Namespace + " " + set.String() + " " + WhereOf(pod)
}

// WhereOf returns the same text for two pods if each can run wherever the other can.
func WhereOf(pod *v1.Pod) string {
	spec := &pod.Spec
	where := v1.PodSpec{
		NodeSelector: spec.NodeSelector, Affinity: spec.Affinity, Tolerations: spec.Tolerations,
		TopologySpreadConstraints: spec.TopologySpreadConstraints, ResourceClaims: spec.ResourceClaims,
	}
	for i := range spec.Volumes {
		if v := &spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			where.Volumes = append(where.Volumes, *v)
		}
	}
	for i := range spec.Containers {
		where.Containers = append(where.Containers, v1.Container{Ports: spec.Containers[i].Ports})
	}
	return fmt.Sprint(podfit.Requests(pod), where.String())
}

// Spreads reports whether a pod has a hard topology spread over domains of several nodes. Cluster
// Autoscaler then asks for nodes bit by bit: as many as fit in one domain before another must grow.
// That a group has no option for the pod says nothing of the group, and that the pod is still
// pending says nothing of nodes on their way: another pod has taken the room.
func Spreads(pod *v1.Pod) bool {
	return slices.ContainsFunc(podfit.HardSpread(pod), func(c v1.TopologySpreadConstraint) bool { return c.TopologyKey != v1.LabelHostname })
}

// ReadKind reads what matters of a pod for a plan. If plain arithmetic does not cover the pod, why
// says what is the matter.
func ReadKind(key string, pod *v1.Pod) (k *Kind, why string) {
	k = &Kind{Key: key, Pod: pod, requests: podfit.Requests(pod), rules: podfit.RulesOf(pod)}
	if why := Uncovered(pod); why != "" {
		return nil, why
	}
	constraints, err := topologyspread.Hard(pod)
	if err != nil {
		return nil, err.Error()
	}
	for i := range constraints {
		t := &constraints[i]
		k.keys = append(k.keys, t.Key)
		switch {
		case t.Self == 0 || t.Step == 0:
			return nil, "a topology spread that does not count the pod itself"
		case t.Key == v1.LabelHostname:
			k.hosts = t
		case k.zones != nil:
			return nil, "several topology spreads"
		default:
			k.zones = t
		}
	}
	if k.hosts != nil && k.zones == nil {
		return nil, "a topology spread over nodes alone" // how many pods a node may have depends on all others, which an estimate sees
	}
	return k, ""
}

// Uncovered says why plain arithmetic does not cover a pod, leaving its topology spread aside; it is
// empty if it does.
func Uncovered(pod *v1.Pod) string {
	switch affinity, anti := podfit.PodTerms(pod); {
	case len(affinity) > 0:
		return "pod affinity"
	case len(anti) > 0:
		return "pod anti-affinity"
	}
	for i := range pod.Spec.Volumes {
		if v := &pod.Spec.Volumes[i]; v.PersistentVolumeClaim != nil || v.Ephemeral != nil {
			return "volumes"
		}
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return "resource claims"
	}
	for i := range pod.Spec.Containers {
		for _, port := range pod.Spec.Containers[i].Ports {
			if port.HostPort != 0 {
				return "host ports"
			}
		}
	}
	return ""
}

// counts reports how many pods on a machine a constraint of the kind counts.
func (k *Kind) counts(t *topologyspread.Constraint, m *Machine) int64 {
	var n int64
	for _, pod := range m.Pods {
		if t.Counts(pod) {
			n++
		}
	}
	for other, placed := range m.placed {
		if t.Counts(other.Pod) {
			n += placed
		}
	}
	return n
}

// domain returns the machine's domain of the spread over zones; ok is false if the machine takes no
// part in it.
func (k *Kind) domain(node *v1.Node) (name string, ok bool) {
	for _, key := range k.keys {
		if _, has := node.Labels[key]; !has && key != v1.LabelHostname {
			return "", false
		}
	}
	return node.Labels[k.zones.Key], k.zones.Includes(k.rules, node)
}

// slots returns how many more pods of the kind fit on a machine, however they are spread over zones.
func (k *Kind) slots(m *Machine) int64 {
	if !m.Usable || !k.rules.Admit(m.Node) {
		return 0
	}
	n := m.Free.Takes(k.requests)
	if m.Fresh && k.perNode > 0 {
		n = min(n, k.perNode-m.placed[k])
	}
	if k.hosts != nil {
		n = min(n, max(0, int64(k.hosts.MaxSkew)-k.counts(k.hosts, m)))
	}
	return n
}
