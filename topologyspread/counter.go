package topologyspread

import (
	"maps"
	"math"
	"slices"
)

// Counter keeps the counts of one constraint's domains and their minimum. Domains are numbered in
// order of appearance.
//
// A counter without a constraint keeps no minimum: Minimum and Allows are not for it.
//
// A counter over hostnames can leave the counts to its caller: each node is a domain of its own
// then, and nodes in the same state need no domain each. Domain and Pods are not for these, and the
// other methods take how many matching pods the node holds.
type Counter struct {
	*Constraint
	// PerNode says that every node is a domain of its own, whose count the caller keeps.
	PerNode bool

	domains map[string]int // the index of each value of the key
	pods    []int          // by domain
	nodes   []int          // that take part, by domain
	having  map[int]int    // domains that take part, by their count
	number  int            // domains that take part
	least   int            // of them
}

// NewCounter returns a counter of a constraint, or of none, without domains.
func NewCounter(c *Constraint) *Counter {
	return &Counter{Constraint: c, domains: map[string]int{}, having: map[int]int{}}
}

// Clone returns a copy. Changes to either do not show in the other.
func (t *Counter) Clone() *Counter {
	c := *t
	c.domains, c.having = maps.Clone(t.domains), maps.Clone(t.having)
	c.pods, c.nodes = slices.Clone(t.pods), slices.Clone(t.nodes)
	return &c
}

// Domain returns the number of a value of the key.
func (t *Counter) Domain(value string) int {
	i, known := t.domains[value]
	if !known {
		i = len(t.pods)
		t.domains[value] = i
		t.pods, t.nodes = append(t.pods, 0), append(t.nodes, 0)
	}
	return i
}

// Pods returns how many matching pods there are on the nodes of a domain that take part.
func (t *Counter) Pods(domain int) int { return t.pods[domain] }

// Add counts n nodes of a domain, with so many matching pods on each.
func (t *Counter) Add(domain, held, n int) {
	if t.PerNode {
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

// More counts n matching pods that came to a node that takes part.
func (t *Counter) More(domain, held, n int) {
	if !t.PerNode {
		held = t.pods[domain]
		t.pods[domain] += n
	}
	t.leave(held)
	t.enter(held+n, 1)
}

// Remove takes a node of a domain out, with so many matching pods.
func (t *Counter) Remove(domain, held int) {
	if t.PerNode {
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

func (t *Counter) enter(count, n int) {
	if t.Constraint == nil {
		return
	}
	if t.number == 0 || count < t.least {
		t.least = count
	}
	t.having[count] += n
	t.number += n
}

func (t *Counter) leave(count int) {
	if t.Constraint == nil {
		return
	}
	t.having[count]--
	t.number--
	if t.having[count] > 0 {
		return
	}
	delete(t.having, count)
	if count != t.least {
		return
	}
	if t.least++; t.having[t.least] > 0 {
		return // as a rule: a pod came to the last of the least domains
	}
	t.least = math.MaxInt
	for more := range t.having {
		t.least = min(t.least, more)
	}
}

// Minimum returns the least count of the domains that take part, 0 if there are fewer than
// MinDomains.
func (t *Counter) Minimum() int {
	if t.number < t.MinDomains {
		return 0
	}
	return t.least
}

// Allows reports whether a domain with so many matching pods takes the incoming pod.
func (t *Counter) Allows(held int) bool { return held+t.Self-t.Minimum() <= t.MaxSkew }
