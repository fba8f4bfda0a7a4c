package predicates

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	v1helper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
)

// constraint is a spread constraint, read as PodTopologySpread reads it.
type constraint struct {
	key        string
	host       bool // over hostnames: each node is a domain
	maxSkew    int
	minDomains int
	namespace  string
	selector   labels.Selector
	self       int // 1 if the pod matches its own constraint
	step       int // what one more of these pods adds to a count
	// Which nodes take part: those the pod's node affinity lets it run on, those
	// whose taints it tolerates.
	honorAffinity, honorTaints bool
}

// constraintsOf reads the hard constraints of a kind; ok is false if one cannot
// be read.
func constraintsOf(k *kind) (all []constraint, ok bool) {
	pod := k.info.Pod
	for _, c := range pod.Spec.TopologySpreadConstraints {
		if c.WhenUnsatisfiable != v1.DoNotSchedule {
			continue
		}
		one, err := readConstraint(&c, pod)
		if err != nil {
			return nil, false
		}
		all = append(all, one)
	}
	return all, len(all) > 0
}

// readConstraint reads a spread constraint of a pod.
func readConstraint(c *v1.TopologySpreadConstraint, pod *v1.Pod) (constraint, error) {
	selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
	if err != nil {
		return constraint{}, err
	}
	// The pod's own values of these keys narrow the selector, unless it selects nothing.
	if requirements, selectable := selector.Requirements(); selectable {
		narrower := labels.Set{}
		for _, key := range c.MatchLabelKeys {
			if value, has := pod.Labels[key]; has {
				narrower[key] = value
			}
		}
		if len(narrower) > 0 {
			selector = labels.SelectorFromSet(narrower).Add(requirements...)
		}
	}
	one := constraint{
		key: c.TopologyKey, host: c.TopologyKey == v1.LabelHostname,
		maxSkew: int(c.MaxSkew), minDomains: minDomainsOf(*c),
		namespace: pod.Namespace, selector: selector,
		honorAffinity: c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == v1.NodeInclusionPolicyHonor,
		honorTaints:   c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == v1.NodeInclusionPolicyHonor,
	}
	if selector.Matches(labels.Set(pod.Labels)) {
		one.self = 1
	}
	if one.counts(pod) {
		one.step = 1
	}
	return one, nil
}

// counts reports whether the constraint counts a pod on a node.
func (c *constraint) counts(p *v1.Pod) bool {
	return !c.selector.Empty() && p.DeletionTimestamp == nil && p.Namespace == c.namespace && c.selector.Matches(labels.Set(p.Labels))
}

// includes reports whether the constraint of a pod counts nodes like this one.
func (c *constraint) includes(pod *v1.Pod, affinity nodeaffinity.RequiredNodeAffinity, n *v1.Node) bool {
	if c.honorAffinity {
		if match, _ := affinity.Match(n); !match {
			return false
		}
	}
	if c.honorTaints {
		if _, untolerated := v1helper.FindMatchingUntoleratedTaint(klog.Logger{}, n.Spec.Taints, pod.Spec.Tolerations, helper.DoNotScheduleTaintsFilterFunc(), false); untolerated {
			return false
		}
	}
	return true
}

// counter keeps the counts of one constraint's domains and their minimum.
type counter struct {
	*constraint
	domains map[string]int // the index of each value of the key; unused over hostnames
	pods    []int          // by domain
	nodes   []int          // that take part, by domain
	having  map[int]int    // domains that take part, by their count
	number  int            // domains that take part
	least   int            // of them
}

func newCounter(c *constraint) *counter {
	return &counter{constraint: c, domains: map[string]int{}, having: map[int]int{}}
}

// domain returns the index of a value of the key.
func (t *counter) domain(value string) int {
	i, known := t.domains[value]
	if !known {
		i = len(t.pods)
		t.domains[value] = i
		t.pods, t.nodes = append(t.pods, 0), append(t.nodes, 0)
	}
	return i
}

// add counts n nodes of a domain, with so many pods that match on each.
func (t *counter) add(domain, held, n int) {
	if t.host {
		t.enter(held, n)
		return
	}
	if t.nodes[domain] > 0 {
		t.leave(t.pods[domain])
	}
	t.nodes[domain] += n
	t.pods[domain] += n * held
	t.enter(t.pods[domain], 1)
}

// drop takes back the last node that was added, when the least count was as given.
func (t *counter) drop(domain, held, least int) {
	if t.host {
		t.leave(held)
	} else {
		t.leave(t.pods[domain])
		t.nodes[domain]--
		t.pods[domain] -= held
		if t.nodes[domain] > 0 {
			t.enter(t.pods[domain], 1)
		}
	}
	t.least = least
}

// place counts one more pod in a domain with so many.
func (t *counter) place(domain, held int) {
	if !t.host {
		held = t.pods[domain]
		t.pods[domain] += t.step
	}
	t.leave(held)
	t.enter(held+t.step, 1)
}

// more counts pods that came to a domain that takes part.
func (t *counter) more(domain, n int) {
	t.leave(t.pods[domain])
	t.pods[domain] += n
	t.enter(t.pods[domain], 1)
}

// remove takes a node of a domain out, with so many pods that match.
func (t *counter) remove(domain, held int) {
	if t.host {
		t.leave(held)
		return
	}
	t.leave(t.pods[domain])
	t.nodes[domain]--
	t.pods[domain] -= held
	if t.nodes[domain] > 0 {
		t.enter(t.pods[domain], 1)
	}
}

func (t *counter) enter(count, n int) {
	if t.number == 0 || count < t.least {
		t.least = count
	}
	t.having[count] += n
	t.number += n
}

func (t *counter) leave(count int) {
	t.having[count]--
	t.number--
	if t.having[count] > 0 {
		return
	}
	delete(t.having, count)
	if count != t.least {
		return
	}
	for t.number > 0 && t.having[t.least] == 0 {
		t.least++
	}
}

// minimum is the global minimum, as the plugin takes it.
func (t *counter) minimum() int {
	if t.number < t.minDomains {
		return 0
	}
	return t.least
}

// allows reports whether a domain with so many pods that match takes one more.
func (t *counter) allows(held int) bool { return held+t.self-t.minimum() <= t.maxSkew }
