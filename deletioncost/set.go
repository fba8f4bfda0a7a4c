package deletioncost

import (
	"cmp"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/topologyspread"
)

const (
	// maxConstraints is how many constraints the costs express. Further ones are not looked at.
	maxConstraints = 2
	// scale is by how much the cost differs from one level of the first constraint to the next if there
	// is a second constraint.
	scale = 10_000
)

// set is a ReplicaSet with the constraints of its pods.
type set struct {
	constraints []*constraint // hard ones first, each kind in the pod's order
	members     []*member     // those first whose costs somebody else wrote, then older ones
	foreign     int           // of them
}

// member is a pod of the set that runs and is ready.
type member struct {
	pod      *v1.Pod
	domains  [maxConstraints]int // by constraint, none if it does not count the pod
	cordoned bool
	cost     int  // that it has
	foreign  bool // the cost stays as it is
	rank     int  // see set.rank
	level    [maxConstraints]int
	want     int // the cost that the levels mean
}

// constraint is a spread constraint, and what its domains have without the pods of the set.
type constraint struct {
	*topologyspread.Constraint
	at   map[string]int // the domain of each node that takes part
	base map[int]int    // pods of others, by domain that takes part
	// free is up to which level pods need no cost: any order is right where no domain has more than
	// maxSkew.
	free int
	// step is by how much the cost differs from one level to the next, and most by how many steps it can
	// differ.
	step, most int
}

const none = -1

// newSet returns the set of an input with the pods that run and are ready.
func newSet(in *Input, pods []*v1.Pod) (*set, error) {
	pod, others := pods[0], in.Others // the pods of a ReplicaSet have the same constraints
	kinds, err := constraintsOf(pod)
	if err != nil {
		return nil, err
	}
	if in.Request == Zone && len(slices.Concat(kinds...)) == 0 {
		c := &v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway}
		kinds, others = [][]topologyspread.Constraint{{topologyspread.ReadDefault(pod, c, labels.SelectorFromSet(pod.Labels))}}, nil
	}
	s := &set{}
	for _, kind := range kinds {
		for _, c := range read(pod, kind, in.Nodes) {
			if len(s.constraints) < maxConstraints && slices.ContainsFunc(pods, func(p *v1.Pod) bool { return c.domain(p) != none }) {
				c.count(others)
				s.constraints = append(s.constraints, c)
			}
		}
	}
	if len(s.constraints) > 1 {
		s.constraints[0].step, s.constraints[1].most = scale, scale-1
	}
	cordoned := map[string]bool{}
	for _, n := range in.Nodes {
		cordoned[n.Name] = n.Spec.Unschedulable
	}
	for _, p := range pods {
		m := &member{pod: p, cordoned: cordoned[p.Spec.NodeName]}
		if m.cost, m.foreign = costOf(p); m.foreign {
			s.foreign++
		}
		for k, c := range s.constraints {
			m.domains[k] = c.domain(p)
		}
		s.members = append(s.members, m)
	}
	slices.SortStableFunc(s.members, func(a, b *member) int { return number(b.foreign) - number(a.foreign) })
	return s, nil
}

func number(holds bool) int {
	if holds {
		return 1
	}
	return 0
}

// Counts returns which pods of other workloads matter to a pod with constraints; nil if none do.
func Counts(pod *v1.Pod) func(other *v1.Pod) bool {
	kinds, _ := constraintsOf(pod) // Decide returns the errors
	all := slices.Concat(kinds...)
	if len(all) == 0 {
		return nil
	}
	return func(other *v1.Pod) bool {
		return slices.ContainsFunc(all, func(c topologyspread.Constraint) bool { return c.Counts(other) })
	}
}

// constraintsOf are the constraints of a pod, hard ones first. Those that can be read are there also if there
// is an error.
func constraintsOf(pod *v1.Pod) ([][]topologyspread.Constraint, error) {
	hard, err := topologyspread.Hard(pod)
	soft, problem := topologyspread.Soft(pod)
	return [][]topologyspread.Constraint{hard, soft}, cmp.Or(err, problem)
}

// read finds the domains of constraints of one kind: a node takes part only if it has the keys of all of them.
func read(pod *v1.Pod, kind []topologyspread.Constraint, nodes []*v1.Node) []*constraint {
	counters, all := make([]*topologyspread.Counter, len(kind)), make([]*constraint, len(kind))
	for k := range kind {
		counters[k] = topologyspread.NewCounter(&kind[k])
		all[k] = &constraint{Constraint: &kind[k], at: map[string]int{}, base: map[int]int{}, step: 1, most: math.MaxInt32}
	}
	counts := topologyspread.NewCounts(pod, counters)
	for _, n := range nodes {
		site := counts.Site(n)
		for k, c := range all {
			if site.Keyed && site.Included[k] {
				c.at[n.Name] = site.Domains[k]
				c.base[site.Domains[k]] = 0
			}
		}
	}
	return all
}

// domain returns the domain in which a constraint counts a pod.
func (c *constraint) domain(p *v1.Pod) int {
	if d, in := c.at[p.Spec.NodeName]; in && c.Counts(p) {
		return d
	}
	return none
}

// count counts the pods that stay while the set is scaled down.
func (c *constraint) count(others []*v1.Pod) {
	c.free = c.MaxSkew
	for _, p := range others {
		if d := c.domain(p); d != none && p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
			if c.base[d]++; c.base[d] > c.MaxSkew {
				c.free = 1 // a domain of others is above the rest, which must be left level
			}
		}
	}
}
