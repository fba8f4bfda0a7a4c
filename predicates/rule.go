package predicates

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// role says what the pods that a rule counts mean to the pod to place.
type role int

const (
	mustSpread   role = iota // by a spread constraint that must hold
	shouldSpread             // by one that may be broken
	isSought                 // its required affinity looks for them
	avoids                   // its required anti-affinity looks for them
	repelled                 // they repel it
	isPreferred              // preferences of either side, weighted
)

// rule says which pods on nodes matter to a kind of pods, and over which domains.
type rule struct {
	role       role
	key        string
	constraint *topologyspread.Constraint // of the spread roles
	weight     func(*boundPod) int        // how much one of these pods counts
	byTerms    bool                       // pods with the same terms count the same
	weights    []int32                    // of the pods or terms by id, as far as asked; unasked where not
}

const unasked = -1 << 31

// weightOf returns how much a pod counts.
func (r *rule) weightOf(p *boundPod) int {
	id := p.id
	if r.byTerms {
		if p.terms == nil {
			return 0
		}
		id = p.terms.id
	}
	if missing := id + 1 - len(r.weights); missing > 0 {
		r.weights = append(r.weights, slices.Repeat([]int32{unasked}, missing)...)
	}
	if r.weights[id] == unasked {
		r.weights[id] = int32(r.weight(p))
	}
	return int(r.weights[id])
}

// held returns how much the pods on a node count.
func (r *rule) held(st *state) int {
	n := 0
	for _, it := range st.items {
		n += r.weightOf(it.boundPod) * it.n
	}
	return n
}

// systemSpread are the constraints kube-scheduler gives by default to pods that
// have none and belong to a service or a controller.
var systemSpread = []v1.TopologySpreadConstraint{
	{TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 5},
}

// readRules reads the rules of the pod itself.
func (k *kind) readRules(u *index) {
	c, p := u.c, k.info.Pod
	add := func(role role, key string, weight func(*boundPod) int) *rule {
		r := &rule{role: role, key: key, weight: weight}
		k.own = append(k.own, r)
		return r
	}
	spread := func(one topologyspread.Constraint, soft bool) {
		role := mustSpread
		if soft {
			role = shouldSpread
		}
		add(role, one.Key, func(r *boundPod) int { return toInt(one.Counts(r.info.Pod)) }).constraint = &one
	}
	constraints := c.Defaulted(p).Spec.TopologySpreadConstraints
	for i := range constraints {
		soft := constraints[i].WhenUnsatisfiable != v1.DoNotSchedule
		if soft && !u.scored() || !soft && !c.rules.spreads {
			continue
		}
		one, err := topologyspread.Read(p, &constraints[i])
		if err != nil {
			k.broken = true // the plugin will say what is wrong
			continue
		}
		spread(one, soft)
	}
	if owned := labels.Selector(nil); len(constraints) == 0 && u.scored() {
		if owned = c.ownerSelector(p); !owned.Empty() {
			k.systemDefaulted = true
			for i := range systemSpread {
				spread(topologyspread.ReadDefault(p, &systemSpread[i], owned), true)
			}
		}
	}
	if c.rules.affine {
		k.sought = c.withNamespaces(k.info.RequiredAffinityTerms)
		for _, term := range c.withNamespaces(k.info.RequiredAntiAffinityTerms) {
			add(avoids, term.TopologyKey, func(r *boundPod) int { return toInt(term.Matches(r.info.Pod, nil)) })
		}
		for _, term := range k.sought {
			add(isSought, term.TopologyKey, func(r *boundPod) int { return toInt(k.seeks(r.info.Pod)) })
		}
	}
	if u.scored() {
		if preferred := preferredNodes(p); preferred != nil {
			var err error
			k.preferred, err = nodeaffinity.NewPreferredSchedulingTerms(preferred)
			k.broken = k.broken || err != nil
		}
		with, apart := c.weightedWithNamespaces(k.info.PreferredAffinityTerms), c.weightedWithNamespaces(k.info.PreferredAntiAffinityTerms)
		var keys []string
		for _, term := range slices.Concat(with, apart) {
			keys = append(keys, term.TopologyKey)
		}
		for _, key := range compacted(keys) {
			add(isPreferred, key, func(r *boundPod) int {
				return weighing(with, key, r.info.Pod, nil) - weighing(apart, key, r.info.Pod, nil)
			})
		}
	}
}

// seeks reports whether a pod meets the required affinity.
func (k *kind) seeks(p *v1.Pod) bool {
	return !slices.ContainsFunc(k.sought, func(t fwk.AffinityTerm) bool { return !t.Matches(p, nil) })
}

// rulesFor returns the rules for a fleet with such pods: the pod's own and those that others have about
// it, pods like itself included.
func (u *index) rulesFor(k *kind, others []*terms) []*rule {
	all := slices.Clip(k.own)
	for _, t := range append(slices.Clip(others), k.placed.terms) {
		for _, r := range u.rulesOf(k, t) {
			if !slices.Contains(all, r) {
				all = append(all, r)
			}
		}
	}
	return all
}

// rulesOf returns the rules about a kind by which pods with the given terms count.
func (u *index) rulesOf(k *kind, t *terms) []*rule {
	if t == nil {
		return nil
	}
	if known, there := k.rulesByTerms[t]; there {
		return known
	}
	var rules []*rule
	p, about := k.info.Pod, u.c.namespaceLabels(k.info.Pod.Namespace)
	by := func(role role, term *fwk.AffinityTerm, weight func(has *terms, key string) int) {
		key := term.TopologyKey
		if !term.Matches(p, about) {
			return
		}
		i := slices.IndexFunc(k.others, func(r *rule) bool { return r.role == role && r.key == key })
		if i < 0 {
			i = len(k.others)
			k.others = append(k.others, &rule{role: role, key: key, byTerms: true, weight: func(r *boundPod) int { return weight(r.terms, key) }})
		}
		rules = append(rules, k.others[i])
	}
	for i := range t.info.RequiredAntiAffinityTerms {
		if u.c.rules.affine {
			by(repelled, &t.info.RequiredAntiAffinityTerms[i], func(has *terms, key string) int {
				return matching(has.info.RequiredAntiAffinityTerms, key, p, about)
			})
		}
	}
	if u.scored() {
		preferred := func(has *terms, key string) int {
			return hardAffinityWeight*matching(has.info.RequiredAffinityTerms, key, p, about) +
				weighing(has.info.PreferredAffinityTerms, key, p, about) - weighing(has.info.PreferredAntiAffinityTerms, key, p, about)
		}
		for i := range t.info.RequiredAffinityTerms {
			by(isPreferred, &t.info.RequiredAffinityTerms[i], preferred)
		}
		for _, weighted := range [][]fwk.WeightedAffinityTerm{t.info.PreferredAffinityTerms, t.info.PreferredAntiAffinityTerms} {
			for i := range weighted {
				by(isPreferred, &weighted[i].AffinityTerm, preferred)
			}
		}
	}
	k.rulesByTerms[t] = rules
	return rules
}

// hardAffinityWeight is what a required affinity of a pod on a node counts as a
// preference of the pod it looks for: hardPodAffinityWeight by default.
const hardAffinityWeight = 1

// matching counts the terms over a key that a pod in a namespace of these labels
// matches.
func matching(terms []fwk.AffinityTerm, key string, p *v1.Pod, about labels.Set) int {
	n := 0
	for i := range terms {
		if terms[i].TopologyKey == key && terms[i].Matches(p, about) {
			n++
		}
	}
	return n
}

func weighing(terms []fwk.WeightedAffinityTerm, key string, p *v1.Pod, about labels.Set) int {
	n := 0
	for i := range terms {
		if terms[i].TopologyKey == key && terms[i].Matches(p, about) {
			n += int(terms[i].Weight)
		}
	}
	return n
}

// ownerSelector is the selector of the services and the controller of a pod.
func (c *Checker) ownerSelector(p *v1.Pod) labels.Selector {
	core, apps := c.objects.Core().V1(), c.objects.Apps().V1()
	return helper.DefaultSelector(p, core.Services().Lister(), core.ReplicationControllers().Lister(),
		apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
}

// namespaceLabels are the labels of a namespace, nil if it is not known.
func (c *Checker) namespaceLabels(name string) labels.Set {
	if n, err := c.objects.Core().V1().Namespaces().Lister().Get(name); err == nil {
		return n.Labels
	}
	return nil
}

// withNamespaces returns terms of a pod to be placed with the namespaces added
// that their namespace selectors select, as InterPodAffinity does.
func (c *Checker) withNamespaces(terms []fwk.AffinityTerm) []fwk.AffinityTerm {
	terms = slices.Clone(terms)
	for i := range terms {
		t := &terms[i]
		if t.NamespaceSelector.Empty() {
			continue
		}
		t.Namespaces = t.Namespaces.Clone()
		selected, _ := c.objects.Core().V1().Namespaces().Lister().List(t.NamespaceSelector) // an indexer does not fail
		for _, n := range selected {
			t.Namespaces.Insert(n.Name)
		}
	}
	return terms
}

func (c *Checker) weightedWithNamespaces(terms []fwk.WeightedAffinityTerm) []fwk.WeightedAffinityTerm {
	terms = slices.Clone(terms)
	for i := range terms {
		terms[i].AffinityTerm = c.withNamespaces([]fwk.AffinityTerm{terms[i].AffinityTerm})[0]
	}
	return terms
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}
