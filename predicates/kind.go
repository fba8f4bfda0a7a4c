package predicates

import (
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/evenkeel/evenkeel/podfit"
)

// boundPod stands for equal pods that are on nodes.
type boundPod struct {
	id   int // in order of appearance, for stable orders
	info *framework.PodInfo
	need amounts
	// ports are those of the host that the pod holds; nil: none.
	ports fwk.HostPortInfo
	// terms are what the pod wants of other pods; nil if other pods need not care.
	terms *terms
	// attaches are the volumes of the pod that limits of nodes count.
	attaches attachments
}

// terms are what pods of one namespace want of other pods: their anti-affinity and, where nodes are
// scored, all their affinity.
type terms struct {
	id      int
	info    *framework.PodInfo // of one of the pods
	looksAt []string           // labels of other pods
}

// kind stands for equal pods to place.
type kind struct {
	info *framework.PodInfo
	// placed stands for the pod once it is on a node: without claims of its own,
	// so that equal pods stay equal there.
	placed *boundPod

	// asks is what the scheduler wants free on the node. (boundPod.need is what a
	// pod takes once it is there, its status counted.)
	asks amounts
	// picky says that the pod tells single nodes apart: it picks them by name. only are the names
	// that it picks; nil: any.
	picky bool
	only  sets.Set[string]
	// volumes says that the pod has volumes that are attached to its node. contested says that other
	// pods, or single nodes, matter to one of them, and binds that where a pod is placed changes where
	// the next ones can be.
	volumes, contested, binds bool
	// turnedAway are the results of fleet.turnsAway, by what the kind looks at of a node: what it is,
	// and its labels under nodeKeys.
	turnedAway map[string]bool
	nodeKeys   []string
	// answers are those about fresh nodes for which nothing else matters, by what the kind looks at
	// of them.
	answers map[string][]Reason

	// own are the pod's rules about other pods, others those that they have about it, and rulesByTerms which of
	// these their terms are. broken: a rule of the pod cannot be read.
	own             []*rule
	others          []*rule
	rulesByTerms    map[*terms][]*rule
	sought          []fwk.AffinityTerm
	preferred       *nodeaffinity.PreferredSchedulingTerms // of nodes
	broken          bool
	systemDefaulted bool // the spread constraints are the built-in ones
}

func (u *index) newKind(p *v1.Pod, placed *boundPod) *kind {
	info, err := framework.NewPodInfo(p)
	k := &kind{
		info: info, placed: placed, asks: asksOf(p),
		turnedAway: map[string]bool{}, answers: map[string][]Reason{}, rulesByTerms: map[*terms][]*rule{},
	}
	k.broken = err != nil && u.c.rules.affine
	k.picky = picksNodes(p) || u.scored() && slices.ContainsFunc(preferredNodes(p), func(t v1.PreferredSchedulingTerm) bool {
		return onHost(&v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{t.Preference}})
	})
	if k.picky {
		k.only = u.c.begin(p, nil).only
	}
	k.nodeKeys = compacted(slices.Concat(selectorKeysOf(p), u.c.rules.nodeKeys))
	s := u.c.storage
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		k.binds = k.binds || s.contended(p, v)
		k.contested = k.contested || k.binds || conflicts(v) || s.single(p, v)
	}
	k.volumes = slices.ContainsFunc(p.Spec.Volumes, attached)
	k.readRules(u)
	return k
}

// asksOf is what a pod wants free on a node and, as far as scores go, with the scheduler's defaults for
// containers without requests.
func asksOf(p *v1.Pod) amounts {
	asks := framework.NewResource(resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}))
	scored := resourcehelper.PodResourcesOptions{UseStatusResources: true, NonMissingContainerRequests: defaultRequests}
	counted := resourcehelper.PodRequests(p, scored)
	return amounts{*asks, counted.Cpu().MilliValue(), counted.Memory().Value()}
}

// needOf is what a pod takes on a node.
func needOf(info *framework.PodInfo) amounts {
	total := info.CalculateResource()
	need := amounts{scoredCPU: total.Non0CPU, scoredMemory: total.Non0Mem}
	if r, ok := total.Resource.(*framework.Resource); ok {
		need.Resource = *r
	}
	return need
}

func portsOf(p *v1.Pod) fwk.HostPortInfo {
	var taken fwk.HostPortInfo
	for _, port := range schedutil.GetHostPorts(p) {
		if taken == nil {
			taken = fwk.HostPortInfo{}
		}
		taken.Add(port.HostIP, string(port.Protocol), port.HostPort)
	}
	return taken
}

// room returns how many pods of a kind a node takes by its resources, ports and volumes.
func (u *index) room(k *kind, st *state) int {
	n, rules := math.MaxInt32, &u.c.rules
	if rules.resources {
		n = st.room(&k.asks, rules.ignores)
	}
	if k.placed.ports != nil && n > 0 && rules.ports {
		n = 1
		for _, it := range st.items {
			if it.ports != nil && conflict(it.ports, k.placed.ports) {
				return 0
			}
		}
	}
	if n > 0 && rules.attach {
		room, _ := st.attachRoom(k)
		n = min(n, room)
	}
	return n
}

func conflict(taken, wanted fwk.HostPortInfo) bool {
	for ip, ports := range wanted {
		for port := range ports {
			if taken.CheckConflict(ip, port.Protocol, port.Port) {
				return true
			}
		}
	}
	return false
}

// picksNodes reports whether a pod names single nodes.
func picksNodes(p *v1.Pod) bool {
	if p.Spec.NodeName != "" {
		return true
	}
	if _, ok := p.Spec.NodeSelector[v1.LabelHostname]; ok {
		return true
	}
	required := requiredNodes(p)
	return required != nil && onHost(required)
}

func requiredNodes(p *v1.Pod) *v1.NodeSelector {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
}

func preferredNodes(p *v1.Pod) []v1.PreferredSchedulingTerm {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil {
		return nil
	}
	return p.Spec.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
}

// attached reports whether other pods on a node may matter to a volume.
func attached(v v1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil || conflicts(&v)
}

// finished reports whether a pod no longer takes anything.
func finished(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// constraintsOf returns the spread constraints of a pod: the hard ones or, where nodes are scored, all.
func constraintsOf(p *v1.Pod, scored bool) []v1.TopologySpreadConstraint {
	if scored {
		return p.Spec.TopologySpreadConstraints
	}
	return podfit.HardSpread(p)
}

// termsOf returns the terms of pod affinity and anti-affinity: the required ones or, where nodes are
// scored, all.
func termsOf(p *v1.Pod, scored bool) []v1.PodAffinityTerm {
	a := p.Spec.Affinity
	if a == nil {
		return nil
	}
	all := slices.Concat(fwk.GetPodAffinityTerms(a), fwk.GetPodAntiAffinityTerms(a))
	var weighted []v1.WeightedPodAffinityTerm
	if scored && a.PodAffinity != nil {
		weighted = a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	}
	if scored && a.PodAntiAffinity != nil {
		weighted = slices.Concat(weighted, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	for i := range weighted {
		all = append(all, weighted[i].PodAffinityTerm)
	}
	return all
}

// nodeKeysOf returns the node label keys a pod looks at when it is placed. Hostnames are left out:
// pods that pick nodes by them are picky, and as a topology key they tell no two nodes apart.
func nodeKeysOf(p *v1.Pod, scored bool) []string {
	keys := selectorKeysOf(p)
	if scored {
		for _, t := range preferredNodes(p) {
			keys = appendSelectorKeys(keys, &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{t.Preference}})
		}
	}
	for _, c := range constraintsOf(p, scored) {
		keys = append(keys, c.TopologyKey)
	}
	return withoutHost(append(keys, topologyKeysOf(termsOf(p, scored))...))
}

// selectorKeysOf returns the node label keys that a pod selects nodes by.
func selectorKeysOf(p *v1.Pod) []string {
	keys := mapKeys(p.Spec.NodeSelector)
	if required := requiredNodes(p); required != nil {
		keys = appendSelectorKeys(keys, required)
	}
	return keys
}

func topologyKeysOf(terms []v1.PodAffinityTerm) []string {
	keys := make([]string, len(terms))
	for i := range terms {
		keys[i] = terms[i].TopologyKey
	}
	return keys
}

func withoutHost(keys []string) []string {
	return slices.DeleteFunc(keys, func(k string) bool { return k == v1.LabelHostname })
}

// LabelKeys returns how many label keys of nodes and of pods the rules of a pod name, with repetitions. A question costs
// as much as they are, and so do those about other pods while it is known.
func LabelKeys(p *v1.Pod) int { return len(nodeKeysOf(p, true)) + len(podKeysOf(p, true)) }

// podKeysOf returns the pod label keys that the rules of a pod look at.
func podKeysOf(p *v1.Pod, scored bool) []string {
	var keys []string
	for _, c := range constraintsOf(p, scored) {
		keys = append(keys, labelSelectorKeys(c.LabelSelector)...)
		keys = append(keys, c.MatchLabelKeys...)
	}
	return append(keys, selectedKeysOf(termsOf(p, scored))...)
}

// selectedKeysOf returns the pod label keys that terms of pod affinity look at.
func selectedKeysOf(terms []v1.PodAffinityTerm) []string {
	var keys []string
	for _, t := range terms {
		keys = append(keys, labelSelectorKeys(t.LabelSelector)...)
		keys = append(keys, t.MatchLabelKeys...)
		keys = append(keys, t.MismatchLabelKeys...)
	}
	return keys
}

func compacted(keys []string) []string {
	slices.Sort(keys)
	return slices.Compact(keys)
}
