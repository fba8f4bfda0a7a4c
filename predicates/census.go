package predicates

import (
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// role says what the pods that a census counts mean to the pod to bind.
type role int

const (
	mustSpread   role = iota // by a spread constraint that must hold
	shouldSpread             // by one that may be broken
	keepsAway                // they repel it, or it repels them
	isSought                 // its required affinity looks for them
	isPreferred              // preferences of either side, weighted
)

// census keeps the number of certain pods in every domain of a topology key.
type census struct {
	role   role
	key    string
	weight func(*tenant) int // how much one of these pods counts
	weighs []int             // of the tenants by id, as far as asked; unasked where not

	constraint *spreadRule // of the spread roles

	// Over hostnames a domain is a node, and host the index of its count in the
	// standings; the tables are empty then. Otherwise host is below zero.
	host    int
	domains map[string]int // numbers of the label's values
	count   []int          // of the domains
	members []int          // nodes of each domain that take part
	total   int            // over all domains
	stamp   []int          // of the domains: the look at which they last had a candidate
}

const unasked = math.MinInt

func (c *census) of(t *tenant) int {
	for len(c.weighs) <= t.id {
		c.weighs = append(c.weighs, unasked)
	}
	if c.weighs[t.id] == unasked {
		c.weighs[t.id] = c.weight(t)
	}
	return c.weighs[t.id]
}

// domain numbers a value of the key.
func (c *census) domain(value string) int {
	d, known := c.domains[value]
	if !known {
		d = len(c.count)
		c.domains[value] = d
		c.count, c.members, c.stamp = append(c.count, 0), append(c.members, 0), append(c.stamp, 0)
	}
	return d
}

// spreadRule is a spread constraint of a pod, and the least count of its domains
// and their number as last looked at.
type spreadRule struct {
	topologyspread.Constraint
	least, domains int
}

// systemSpread are the constraints kube-scheduler gives by default to pods that
// have none and belong to a service or a controller.
var systemSpread = []v1.TopologySpreadConstraint{
	{TopologyKey: v1.LabelHostname, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 3},
	{TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway, MaxSkew: 5},
}

// censuses makes the censuses of a pod to be bound.
func (s *Scheduler) censuses(t *tenant) (all []*census, systemDefaulted bool, err error) {
	add := func(r role, key string, weight func(*tenant) int) *census {
		c := &census{role: r, key: key, weight: weight, host: -1, domains: map[string]int{}}
		all = append(all, c)
		return c
	}
	p := t.info.Pod
	constraints, owned := p.Spec.TopologySpreadConstraints, labels.Nothing()
	if len(constraints) == 0 {
		if owned = s.c.ownerSelector(p); !owned.Empty() {
			constraints, systemDefaulted = systemSpread, true
		}
	}
	for i := range constraints {
		rule := &spreadRule{}
		if systemDefaulted {
			rule.Constraint = topologyspread.ReadDefault(p, &constraints[i], owned)
		} else if rule.Constraint, err = topologyspread.Read(p, &constraints[i]); err != nil {
			return nil, false, fmt.Errorf("topologySpreadConstraints[%d]: %w", i, err)
		}
		kind := shouldSpread
		if constraints[i].WhenUnsatisfiable == v1.DoNotSchedule {
			kind = mustSpread
		}
		add(kind, rule.Key, func(t *tenant) int { return toInt(rule.Counts(t.info.Pod)) }).constraint = rule
	}
	s.requirements(t, add)
	s.preferences(t, add)
	hosts := 0
	for _, c := range all {
		if c.key == v1.LabelHostname {
			c.host = hosts
			hosts++
		}
	}
	return all, systemDefaulted, nil
}

// ownerSelector is the selector of the services and the controller of a pod.
func (c *Checker) ownerSelector(p *v1.Pod) labels.Selector {
	core, apps := c.objects.Core().V1(), c.objects.Apps().V1()
	return helper.DefaultSelector(p, core.Services().Lister(), core.ReplicationControllers().Lister(),
		apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
}

type adder func(role, string, func(*tenant) int) *census

// requirements adds the censuses of required affinity and anti-affinity, the
// pod's own and that of the others.
func (s *Scheduler) requirements(t *tenant, add adder) {
	p, about := t.info.Pod, s.c.namespaceLabels(t.info.Pod.Namespace)
	keys := sets.New[string]()
	for _, other := range s.tenants {
		for i := range other.info.RequiredAntiAffinityTerms {
			if term := &other.info.RequiredAntiAffinityTerms[i]; term.Matches(p, about) {
				keys.Insert(term.TopologyKey)
			}
		}
	}
	for _, key := range sets.List(keys) {
		add(keepsAway, key, func(other *tenant) int {
			return matching(other.info.RequiredAntiAffinityTerms, key, p, about)
		})
	}
	for _, term := range s.c.withNamespaces(t.info.RequiredAntiAffinityTerms) {
		add(keepsAway, term.TopologyKey, func(other *tenant) int {
			return matching([]fwk.AffinityTerm{term}, term.TopologyKey, other.info.Pod, nil)
		})
	}
	sought := s.c.withNamespaces(t.info.RequiredAffinityTerms)
	for _, term := range sought {
		add(isSought, term.TopologyKey, func(other *tenant) int {
			if meetsAll(sought, other.info.Pod) {
				return 1
			}
			return 0
		})
	}
}

// preferences adds one census for every topology key over which the pod, or
// another on its behalf, prefers some domains.
func (s *Scheduler) preferences(t *tenant, add adder) {
	p, about := t.info.Pod, s.c.namespaceLabels(t.info.Pod.Namespace)
	with, apart := s.c.weightedWithNamespaces(t.info.PreferredAffinityTerms), s.c.weightedWithNamespaces(t.info.PreferredAntiAffinityTerms)
	keys := sets.New[string]()
	for _, term := range slices.Concat(with, apart) {
		keys.Insert(term.TopologyKey)
	}
	for _, other := range s.tenants {
		for i := range other.info.RequiredAffinityTerms {
			if term := &other.info.RequiredAffinityTerms[i]; term.Matches(p, about) {
				keys.Insert(term.TopologyKey)
			}
		}
		for _, weighted := range [][]fwk.WeightedAffinityTerm{other.info.PreferredAffinityTerms, other.info.PreferredAntiAffinityTerms} {
			for i := range weighted {
				if term := &weighted[i]; term.Matches(p, about) {
					keys.Insert(term.TopologyKey)
				}
			}
		}
	}
	for _, key := range sets.List(keys) {
		add(isPreferred, key, func(other *tenant) int {
			return weighing(with, key, other.info.Pod, nil) - weighing(apart, key, other.info.Pod, nil) +
				hardAffinityWeight*matching(other.info.RequiredAffinityTerms, key, p, about) +
				weighing(other.info.PreferredAffinityTerms, key, p, about) - weighing(other.info.PreferredAntiAffinityTerms, key, p, about)
		})
	}
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

func meetsAll(terms []fwk.AffinityTerm, p *v1.Pod) bool {
	return !slices.ContainsFunc(terms, func(t fwk.AffinityTerm) bool { return !t.Matches(p, nil) })
}

// namespaceLabels are the labels of a namespace, nil if it is not known.
func (c *Checker) namespaceLabels(name string) labels.Set {
	if n, err := c.objects.Core().V1().Namespaces().Lister().Get(name); err == nil {
		return n.Labels
	}
	return nil
}

// withNamespaces returns terms of a pod to be bound with the namespaces added
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

// leastOf is the least count over the domains that take part in a hard spread
// constraint, 0 if there are fewer than it wants.
func (r *spreadRule) leastOf() int {
	if r.domains < r.MinDomains || r.domains == 0 {
		return 0
	}
	return r.least
}

// note takes domains of one count into the least one.
func (r *spreadRule) note(count, domains int) {
	if domains > 0 {
		r.least = min(r.least, count)
		r.domains += domains
	}
}
