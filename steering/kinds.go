package steering

import (
	"cmp"
	"maps"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// kind is a number of pending pods that are equal to the scheduler.
type kind struct {
	key      string
	pod      *v1.Pod // one of them
	count    int64
	requests amounts
	affinity nodeaffinity.RequiredNodeAffinity
	zones    *topologyspread.Constraint // over domains of several nodes; nil for none
	hosts    *topologyspread.Constraint // over nodes; nil for none
	keys     []string                   // of its hard constraints
	perNode  int64                      // pods that fit on a new node
	members  []*member                  // that it may run on
}

// shownFor is how long pods of a kind count as asked for after Cluster Autoscaler has last shown
// one. Its next loops follow at once, and may show other kinds first.
const shownFor = time.Minute

// perPod are labels that differ between the pods of one controller, and that no spread selects by.
var perPod = []string{"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index", "batch.kubernetes.io/job-completion-index"}

// kindKey returns the same text for pods of one kind. Pods of one controller with the same labels
// come from one template.
func kindKey(pod *v1.Pod) string {
	set := labels.Set(pod.Labels)
	if slices.ContainsFunc(perPod, set.Has) {
		set = maps.Clone(set)
		maps.DeleteFunc(set, func(key, _ string) bool { return slices.Contains(perPod, key) })
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		return pod.Namespace + "/" + string(owner.UID) + " " + set.String()
	}
	return pod.Namespace + " " + set.String() + " " + kindOf(pod)
}

// readKind reads what matters of a pod for a plan. If plain arithmetic does not cover the pod, why
// says what is the matter.
func readKind(key string, pod *v1.Pod) (k *kind, why string) {
	k = &kind{key: key, pod: pod, requests: requestsOf(pod), affinity: nodeaffinity.GetRequiredNodeAffinity(pod)}
	if why := uncovered(pod); why != "" {
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
	return k, ""
}

// uncovered says why plain arithmetic does not cover a pod; it is empty if it does.
func uncovered(pod *v1.Pod) string {
	if a := pod.Spec.Affinity; a != nil {
		switch {
		case a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0:
			return "pod affinity"
		case a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0:
			return "pod anti-affinity"
		}
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

// pendingKinds returns the kinds of pods that Cluster Autoscaler asks nodes for, with all pods of
// these kinds that are pending. A kind that is not covered by plain arithmetic is the reason why.
func (c *choice) pendingKinds(members []member) (kinds []*kind, why string) {
	asked := map[string]bool{}
	keys := map[types.UID]string{}
	for i := range members {
		for _, p := range members[i].pods() {
			pod := c.request.Pods[p]
			if keys[uid(pod)] == "" {
				keys[uid(pod)] = kindKey(pod)
				asked[keys[uid(pod)]] = true
			}
		}
	}
	for key := range asked {
		if c.shown == nil {
			c.shown = map[string]time.Time{}
		}
		c.shown[key] = c.at.now
	}
	maps.DeleteFunc(c.shown, func(_ string, at time.Time) bool { return c.at.now.Sub(at) > shownFor })

	byKey := map[string]*kind{}
	add := func(pod *v1.Pod) bool {
		key := cmp.Or(keys[uid(pod)], kindKey(pod))
		if _, shown := c.shown[key]; !shown {
			return true
		}
		if byKey[key] == nil {
			k, problem := readKind(key, pod)
			if k == nil {
				why = problem
				return false
			}
			byKey[key] = k
			kinds = append(kinds, k)
		}
		byKey[key].count++
		return true
	}
	known := make(map[types.UID]bool, len(c.request.Workload.Pods))
	for _, pod := range c.request.Workload.Pods {
		known[uid(pod)] = true
		if pending(pod) && !add(pod) {
			return nil, why
		}
	}
	for i := range members {
		for _, p := range members[i].pods() { // younger than the view of the cluster
			if pod := c.request.Pods[p]; !known[uid(pod)] {
				known[uid(pod)] = true
				if !add(pod) {
					return nil, why
				}
			}
		}
	}
	return kinds, ""
}

// pending reports whether a pod waits for a node.
func pending(pod *v1.Pod) bool {
	return pod.Spec.NodeName == "" && !finished(pod) && pod.DeletionTimestamp == nil && len(pod.Spec.SchedulingGates) == 0
}

// counts reports how many pods on a machine a constraint of the kind counts.
func (k *kind) counts(t *topologyspread.Constraint, m *machine) int64 {
	var n int64
	for _, pod := range m.pods {
		if t.Counts(pod) {
			n++
		}
	}
	for other, placed := range m.placed {
		if t.Counts(other.pod) {
			n += placed
		}
	}
	return n
}

// domain returns the machine's domain of the spread over zones; ok is false if the machine takes no
// part in it.
func (k *kind) domain(node *v1.Node) (name string, ok bool) {
	for _, key := range k.keys {
		if _, has := node.Labels[key]; !has && key != v1.LabelHostname {
			return "", false
		}
	}
	return node.Labels[k.zones.Key], k.zones.Includes(k.pod, k.affinity, node)
}

// slots returns how many more pods of the kind fit on a machine, however they are spread over zones.
func (k *kind) slots(m *machine) int64 {
	if !m.usable || !admits(k.pod, m.node) {
		return 0
	}
	n := m.free.fits(k.requests)
	if m.fresh && k.perNode > 0 {
		n = min(n, k.perNode-m.placed[k])
	}
	if k.hosts != nil {
		n = min(n, max(0, int64(k.hosts.MaxSkew)-k.counts(k.hosts, m)))
	}
	return n
}

// place puts pods on a machine.
func (k *kind) place(m *machine, n int64) {
	if m.placed == nil {
		m.placed = map[*kind]int64{}
	}
	m.placed[k] += n
	m.free.take(n, k.requests)
}
