package predicates

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	resourcehelper "k8s.io/component-helpers/resource"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	schedutil "k8s.io/kubernetes/pkg/scheduler/util"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// resident stands for equal pods that are on nodes.
type resident struct {
	id   int // in order of appearance, for stable orders
	info *framework.PodInfo
	need amounts
	// repels is the pod's required anti-affinity; nil if it has none.
	repels *repulsion
	// attaches are the volumes of the pod that limits of nodes count.
	attaches attachments
	// looksAt are the labels of other pods that the pod's rules look at.
	looksAt []string
}

// repulsion is the required anti-affinity of pods.
type repulsion struct {
	terms []fwk.AffinityTerm
	// host and wider tell that there are terms over hostnames, over other keys.
	host, wider bool
}

func newRepulsion(terms []fwk.AffinityTerm) *repulsion {
	r := &repulsion{terms: terms}
	for i := range terms {
		if terms[i].TopologyKey == v1.LabelHostname {
			r.host = true
		} else {
			r.wider = true
		}
	}
	return r
}

// kind represents equal pods to place.
type kind struct {
	*resident
	// placed stands for the pod once it is on a node: without claims of its own,
	// so that equal pods stay equal there.
	placed *resident

	// asks is what the scheduler wants free on the node. (resident.need is what a
	// pod takes once it is there, its status counted.)
	asks amounts
	// spreadAll says that any pod of the namespace may count: a selector cannot be read.
	spreadAll bool
	// minDomains is the largest minDomains of the hard constraints.
	minDomains int
	// host says that the pod has constraints or terms over hostnames; wider,
	// that it has some whose answer needs more than the node alone.
	host, wider bool
	// constraints are the hard spread constraints, the default ones if the pod has none. onlySpread says that they are
	// the only rules of the pod that need more than the node alone.
	constraints []topologyspread.Constraint
	onlySpread  bool
	// alone is the pod as a node alone judges it: without them.
	alone *v1.Pod
	// volumes says that the pod has volumes that are attached to its node.
	volumes bool
	// plain says that other pods on a node matter to it by the room they take and
	// by what they repel, and by nothing else.
	plain bool
	// exact says that single nodes matter: the pod picks them by name or has
	// volumes or device claims.
	exact bool
	// binds says that where a pod is placed changes where the next ones can be.
	binds bool
	// answers are those about fresh nodes that stand alone, by what the kind looks at
	// of them.
	answers map[string][]Reason
	// away are the results of Cluster.turnedAway, by what the kind looks at of an empty node: what it
	// is, and its labels under nodeKeys.
	away     map[string]bool
	nodeKeys []string
	// counts tell of pods on nodes which of the constraints count them.
	counts map[*resident][]bool
	// rooms are how many pods of the kind nodes take by themselves, as far as Moves
	// has asked the plugins.
	rooms map[*state]int
}

// ownTerms reports whether the pod has any inter-pod rule of its own.
func (k *kind) ownTerms() bool { return k.host || k.wider }

func newKind(r, placed *resident, c *Checker) *kind {
	rules := &c.rules
	p := r.info.Pod
	k := &kind{resident: r, placed: placed, asks: asksOf(p)}
	k.spreads(c)
	for i := range r.info.RequiredAffinityTerms {
		k.wider = true // the first pod of a group may go anywhere
		k.host = k.host || r.info.RequiredAffinityTerms[i].TopologyKey == v1.LabelHostname
	}
	if r.repels != nil {
		k.host = k.host || r.repels.host
		k.wider = k.wider || r.repels.wider
	}
	k.exact = picksNodes(p) || len(p.Spec.ResourceClaims) > 0
	k.mounts(p, c.storage)
	k.plain = !k.exact && !k.volumes && !rules.ignoreScalars && r.repels == nil && len(r.info.RequiredAffinityTerms) == 0 && len(schedutil.GetHostPorts(p)) == 0
	k.alone = p
	if len(k.constraints) > 0 {
		overHosts := 0
		for i := range k.constraints {
			if k.constraints[i].Key == v1.LabelHostname {
				overHosts++
			}
		}
		k.onlySpread = overHosts < 2 && len(r.info.RequiredAffinityTerms) == 0 && (r.repels == nil || !r.repels.wider)
	}
	if k.onlySpread {
		alone := *p
		alone.Spec.TopologySpreadConstraints = harmless
		k.alone = &alone
	}
	return k
}

// harmless are constraints that reject no node, and that keep default ones away.
var harmless = []v1.TopologySpreadConstraint{{TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 1}}

// spreads takes over the hard spread constraints.
func (k *kind) spreads(c *Checker) {
	var err error
	if k.constraints, err = c.hardConstraints(k.info.Pod); err != nil {
		k.wider, k.spreadAll = true, true // the plugin will say what is wrong
	}
	for i := range k.constraints {
		one := &k.constraints[i]
		k.wider = true // even over hostnames the least count of all nodes matters
		k.host = k.host || one.Key == v1.LabelHostname
		k.minDomains = max(k.minDomains, one.MinDomains)
	}
}

// hardConstraints returns the hard spread constraints of a pod, the default ones of the profile if
// it has none of its own.
func (c *Checker) hardConstraints(p *v1.Pod) ([]topologyspread.Constraint, error) {
	if len(c.rules.spread) == 0 {
		return topologyspread.Hard(p)
	}
	return topologyspread.Hard(c.Defaulted(p))
}

// mounts takes over what the pod's volumes make of it.
func (k *kind) mounts(p *v1.Pod, s *storage) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		k.binds = k.binds || s.contended(p, v)
		k.exact = k.exact || k.binds || conflicts(v) || s.single(p, v)
	}
	k.volumes = slices.ContainsFunc(p.Spec.Volumes, attached)
}

// asksOf is what a pod wants free on a node.
func asksOf(p *v1.Pod) amounts {
	asks := framework.NewResource(resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}))
	return amounts{cpu: asks.MilliCPU, memory: asks.Memory, ephemeral: asks.EphemeralStorage, scalars: asks.ScalarResources}
}

// needOf is what a pod takes on a node.
func needOf(info *framework.PodInfo) amounts {
	need := info.CalculateResource().Resource
	return amounts{cpu: need.GetMilliCPU(), memory: need.GetMemory(), ephemeral: need.GetEphemeralStorage(), scalars: need.GetScalarResources()}
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

// concerns reports whether a pod on a node may count for the kind's spread
// constraints or pod affinity, or repel it. It may say so too often (namespaces
// of terms are left to the plugins), never too seldom.
func (k *kind) concerns(r *resident) bool {
	on := labels.Set(r.info.Pod.Labels)
	if r.info.Pod.Namespace == k.info.Pod.Namespace {
		if k.spreadAll {
			return true
		}
		for i := range k.constraints {
			if k.constraints[i].Counts(r.info.Pod) {
				return true
			}
		}
	}
	return anyMatches(k.info.RequiredAffinityTerms, on) ||
		anyMatches(k.info.RequiredAntiAffinityTerms, on) ||
		r.repels != nil && k.repelledBy(r.repels)
}

// repelledBy reports whether the kind may be meant by a repulsion, whatever the
// namespaces.
func (k *kind) repelledBy(r *repulsion) bool {
	return anyMatches(r.terms, labels.Set(k.info.Pod.Labels))
}

// repelledOn reports whether pods on a node in the given state may repel the kind.
func (k *kind) repelledOn(st *state) bool {
	return slices.ContainsFunc(st.items, func(it item) bool { return it.repels != nil && k.repelledBy(it.repels) })
}

func anyMatches(terms []fwk.AffinityTerm, on labels.Set) bool {
	for i := range terms {
		if terms[i].Selector.Matches(on) {
			return true
		}
	}
	return false
}

// attached reports whether other pods on a node may matter to a volume.
func attached(v v1.Volume) bool {
	return v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil || conflicts(&v)
}

// finished reports whether a pod no longer takes anything.
func finished(p *v1.Pod) bool {
	return p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed
}

// nodeKeysOf returns the node label keys a pod looks at when it is placed.
// Hostnames are left out: pods that pick nodes by them are placed exactly, and
// as a topology key they tell no two nodes apart.
func nodeKeysOf(p *v1.Pod) []string {
	keys := selectorKeysOf(p)
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable == v1.DoNotSchedule {
			keys = append(keys, c.TopologyKey)
		}
	}
	for _, t := range requiredTerms(p) {
		keys = append(keys, t.TopologyKey)
	}
	return withoutHost(keys)
}

// selectorKeysOf returns the node label keys that a pod selects nodes by.
func selectorKeysOf(p *v1.Pod) []string {
	keys := mapKeys(p.Spec.NodeSelector)
	if required := requiredNodes(p); required != nil {
		keys = appendSelectorKeys(keys, required)
	}
	return keys
}

// residentNodeKeysOf returns the node label keys over which a pod on a node
// repels others.
func residentNodeKeysOf(p *v1.Pod) []string {
	var keys []string
	if a := p.Spec.Affinity; a != nil {
		for _, t := range fwk.GetPodAntiAffinityTerms(a) {
			keys = append(keys, t.TopologyKey)
		}
	}
	return withoutHost(keys)
}

func withoutHost(keys []string) []string {
	kept := keys[:0]
	for _, k := range keys {
		if k != v1.LabelHostname {
			kept = append(kept, k)
		}
	}
	return kept
}

func requiredTerms(p *v1.Pod) []v1.PodAffinityTerm {
	a := p.Spec.Affinity
	if a == nil {
		return nil
	}
	var terms []v1.PodAffinityTerm
	terms = append(terms, fwk.GetPodAffinityTerms(a)...)
	return append(terms, fwk.GetPodAntiAffinityTerms(a)...)
}

// podKeysOf returns the pod label keys that the rules of a pod look at.
func podKeysOf(p *v1.Pod) []string {
	var keys []string
	for _, c := range p.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		keys = append(keys, labelSelectorKeys(c.LabelSelector)...)
		keys = append(keys, c.MatchLabelKeys...)
	}
	for _, t := range requiredTerms(p) {
		keys = append(keys, labelSelectorKeys(t.LabelSelector)...)
		keys = append(keys, t.MatchLabelKeys...)
		keys = append(keys, t.MismatchLabelKeys...)
	}
	return keys
}
