package topologyspread

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/spelling"
)

// Node is a node and the pods on it.
type Node struct {
	Node *v1.Node
	Pods []*v1.Pod
}

// Table counts the pods of a fleet as one incoming pod sees them. It is made once for equal pods;
// each of them that is placed costs the number of their constraints.
type Table struct {
	hard, soft *Counts
	nodes      []row
}

// row is one node. own is how many pods on it each soft constraint over hostnames counts.
type row struct {
	node       *v1.Node
	hard, soft Site
	own        []int
}

// NewTable makes the table of a pod. Nodes are numbered in the order given. Pods that have finished
// are ignored. The error describes a selector of the pod that cannot be parsed.
func NewTable(pod *v1.Pod, nodes []Node) (*Table, error) {
	hard, err := Hard(pod)
	if err != nil {
		return nil, err
	}
	soft, err := Soft(pod)
	if err != nil {
		return nil, err
	}
	t := &Table{hard: NewCounts(pod, counters(hard)), soft: NewCounts(pod, counters(soft)), nodes: make([]row, 0, len(nodes))}
	for _, n := range nodes {
		t.Add(n)
	}
	return t, nil
}

func counters(constraints []Constraint) []*Counter {
	all := make([]*Counter, len(constraints))
	for i := range constraints {
		all[i] = NewCounter(&constraints[i])
	}
	return all
}

// Add adds a node with the pods on it, and returns its number.
func (t *Table) Add(n Node) int {
	r := row{node: n.Node, hard: t.hard.add(n), soft: t.soft.add(n)}
	for i, c := range t.soft.Counters {
		if c.Key == v1.LabelHostname {
			if r.own == nil {
				r.own = make([]int, len(t.soft.Counters))
			}
			r.own[i] = c.matching(n.Pods)
		}
	}
	t.nodes = append(t.nodes, r)
	return len(t.nodes) - 1
}

// add counts a node with the pods on it.
func (c *Counts) add(n Node) Site {
	at := c.Site(n.Node)
	for i, t := range c.Counters {
		if at.Included[i] {
			t.Add(at.Domains[i], t.matching(n.Pods), 1)
		}
	}
	return at
}

// matching returns how many of the pods the constraint counts.
func (c *Constraint) matching(pods []*v1.Pod) int {
	n := 0
	for _, p := range pods {
		if p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed && c.Counts(p) {
			n++
		}
	}
	return n
}

// Fits reports whether the hard constraints allow the pod on a node.
func (t *Table) Fits(node int) bool {
	at := &t.nodes[node].hard
	return at.Keyed && t.hard.Open(at)
}

// Place counts one more pod like the incoming one on a node.
func (t *Table) Place(node int) {
	r := &t.nodes[node]
	t.hard.Place(&r.hard)
	t.soft.Place(&r.soft)
	for i := range r.own {
		r.own[i] += t.soft.Counters[i].Step
	}
}

// Scored reports whether the pod has soft constraints: without, the scheduler gives no score.
func (t *Table) Scored() bool { return len(t.soft.Counters) > 0 }

// Scores returns the scores of nodes, 0 to MaxScore, in the order given. The nodes are those that
// pass all filters of the scheduler: the scores are relative to each other. A node without the key
// of a soft constraint has 0.
func (t *Table) Scores(candidates []int) []int64 {
	weights := t.weights(candidates)
	scores := make([]int64, len(candidates)) // the costs at first
	var scale Scale
	for i, node := range candidates {
		r := &t.nodes[node]
		if !r.soft.Keyed {
			continue
		}
		sum := 0.0
		for j, c := range t.soft.Counters {
			sum += c.Cost(r.matching(j, c), weights[j])
		}
		scores[i] = int64(math.Round(sum))
		scale.Note(scores[i])
	}
	for i, node := range candidates {
		if t.nodes[node].soft.Keyed {
			scores[i] = scale.Score(scores[i])
		}
	}
	return scores
}

// matching returns how many pods a soft constraint counts for the node.
func (r *row) matching(constraint int, c *Counter) int {
	if c.Key == v1.LabelHostname {
		return r.own[constraint]
	}
	return c.Pods(r.soft.Domains[constraint])
}

// weights returns the weights of the soft constraints among candidates.
func (t *Table) weights(candidates []int) []float64 {
	weights := make([]float64, len(t.soft.Counters))
	for j, c := range t.soft.Counters {
		seen := make([]bool, len(c.pods))
		domains := 0
		for _, node := range candidates {
			at := &t.nodes[node].soft
			if at.Keyed && (c.Key == v1.LabelHostname || !seen[at.Domains[j]]) {
				seen[at.Domains[j]] = true
				domains++
			}
		}
		weights[j] = Weight(domains)
	}
	return weights
}

// Standing is a constraint and the counts of its domains.
type Standing struct {
	// Constraint is its position in the pod's list, Key its topologyKey.
	Constraint int
	Key        string
	// Least is the least count, 0 if there are fewer domains than MinDomains.
	Least, MaxSkew, MinDomains int
	// Domains are those that nodes take part in, by name.
	Domains []Domain
}

// Domain is a domain of a hard constraint.
type Domain struct {
	Name    string
	Pods    int  // that match
	Allowed bool // the constraint lets the pod in
}

// Standings returns the hard constraints in their order.
func (t *Table) Standings() []Standing { return t.hard.standings() }

// Preferences returns the soft constraints in their order. Allowed says nothing of their domains.
func (t *Table) Preferences() []Standing { return t.soft.standings() }

func (c *Counts) standings() []Standing {
	all := make([]Standing, len(c.Counters))
	for i, c := range c.Counters {
		all[i] = Standing{Constraint: c.index, Key: c.Key, Least: c.Minimum(), MaxSkew: c.MaxSkew, MinDomains: c.MinDomains}
		for name, d := range c.domains {
			if c.nodes[d] > 0 {
				all[i].Domains = append(all[i].Domains, Domain{name, c.pods[d], c.Allows(c.pods[d])})
			}
		}
		slices.SortFunc(all[i].Domains, func(a, b Domain) int { return cmp.Compare(a.Name, b.Name) })
	}
	return all
}

// Refusal is a hard constraint that does not allow the pod on a node, with the numbers that say so.
type Refusal struct {
	// Constraint is its position in the pod's list.
	Constraint int
	// Key is its topologyKey, and Domain the node's value. Unkeyed says that the node has none.
	Key, Domain string
	Unkeyed     bool
	// Pods are the matching pods in the domain, Self is 1 if the pod matches itself, Least is the
	// least count over the domains, and MaxSkew what Pods + Self - Least exceeds.
	Pods, Self, Least, MaxSkew int
	// Domains are as many as take part; with fewer than MinDomains Least is 0.
	Domains, MinDomains int
}

// Refusals returns the hard constraints that do not allow the pod on a node, in their order.
func (t *Table) Refusals(node int) []Refusal {
	var all []Refusal
	for _, c := range t.hard.Counters {
		value, has := t.nodes[node].node.Labels[c.Key]
		r := Refusal{
			Constraint: c.index, Key: c.Key, Domain: value, Unkeyed: !has, Self: c.Self, Least: c.Minimum(), MaxSkew: c.MaxSkew,
			Domains: c.number, MinDomains: c.MinDomains,
		}
		if d, known := c.domains[value]; has && known {
			r.Pods = c.pods[d]
		}
		if !has || !c.Allows(r.Pods) {
			all = append(all, r)
		}
	}
	return all
}

func (r Refusal) String() string {
	at := fmt.Sprintf("topologySpreadConstraints[%d]", r.Constraint)
	if r.Unkeyed {
		return fmt.Sprintf("%s: the node has no label %s", at, r.Key)
	}
	least := fmt.Sprintf("the least of %s has %d", spelling.Count(r.Domains, "domain"), r.Least)
	if r.Domains < r.MinDomains {
		least = fmt.Sprintf("%s, fewer than minDomains %d, so the least count is 0", spelling.Count(r.Domains, "domain"), r.MinDomains)
	}
	return fmt.Sprintf("%s: %s=%s has %s, %s: the skew would be %d, maxSkew is %d",
		at, r.Key, r.Domain, spelling.Count(r.Pods, "matching pod"), least, r.Pods+r.Self-r.Least, r.MaxSkew)
}
