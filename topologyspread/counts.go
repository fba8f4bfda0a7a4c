package topologyspread

import (
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/podfit"
)

// Counts keeps a counter for each hard constraint of an incoming pod.
type Counts struct {
	Counters []*Counter

	rules podfit.Rules
}

// Site is what nodes with the same labels and taints are to the hard constraints of a pod.
type Site struct {
	// Keyed says that they have the keys of all constraints; without, they take no pod and part in
	// no count.
	Keyed bool
	// Included says for each constraint whether they take part in it.
	Included []bool
	// Domains has their domain for each constraint.
	Domains []int
}

// NewCounts returns the counts of a pod for which no node has been added, with a counter for each
// constraint.
func NewCounts(pod *v1.Pod, counters []*Counter) *Counts {
	return &Counts{Counters: counters, rules: podfit.RulesOf(pod)}
}

// Site returns what nodes like this one are to the constraints.
func (c *Counts) Site(n *v1.Node) Site {
	at := Site{Keyed: true, Included: make([]bool, len(c.Counters)), Domains: make([]int, len(c.Counters))}
	for _, t := range c.Counters {
		_, has := n.Labels[t.Key]
		at.Keyed = at.Keyed && has
	}
	if !at.Keyed {
		return at
	}
	for i, t := range c.Counters {
		at.Included[i] = t.Includes(c.rules, n)
		at.Domains[i] = t.Domain(n.Labels[t.Key])
	}
	return at
}

// Open reports whether the constraints let the incoming pod into the domains of a site.
func (c *Counts) Open(at *Site) bool {
	for i, t := range c.Counters {
		if !t.Allows(t.Pods(at.Domains[i])) {
			return false
		}
	}
	return true
}

// Place counts one more pod like the incoming one on a node of a site.
func (c *Counts) Place(at *Site) {
	for i, t := range c.Counters {
		if at.Included[i] {
			t.More(at.Domains[i], 0, t.Step)
		}
	}
}
