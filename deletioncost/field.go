package deletioncost

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// maxConstraints is how many constraints the costs express. Further ones are not looked at.
const maxConstraints = 2

// field is a ReplicaSet with the domains of its constraints.
type field struct {
	constraints []*constraint // hard ones first, each kind in the pod's order
	seats       []*seat       // older pods first
	foreign     int           // pods whose costs somebody else wrote
}

// constraint is a spread constraint and how many pods that stay its domains have.
type constraint struct {
	*topologyspread.Constraint
	base  map[int]int // by domain that takes part, the pods of others
	alone bool        // counts the pods of the ReplicaSet only
	// free is up to which level pods need no cost: any order is right where no domain has more than
	// maxSkew.
	free int
}

// seat is a pod of the ReplicaSet that runs and is ready.
type seat struct {
	pod      *v1.Pod
	domains  []int // by constraint, none if it does not count the pod
	cordoned bool
	cost     int32               // that it has
	foreign  bool                // the cost stays as it is
	rank     int                 // see field.rank
	level    [maxConstraints]int // in the domain of each constraint
	want     int32               // the cost that the levels mean
}

const none = -1

// sites says for each node in which domain of each constraint it is.
type sites map[string]site

type site struct {
	domains  []int
	cordoned bool
}

func newField(in *Input, standing []*v1.Pod) (*field, error) {
	pod := standing[0] // the pods of a ReplicaSet have the same constraints
	kinds, err := constraintsOf(pod)
	if err != nil {
		return nil, err
	}
	f := &field{}
	alone := len(slices.Concat(kinds...)) == 0 && in.Request == Zone
	if alone {
		kinds = append(kinds, zones(pod))
	}
	at := sites{}
	for _, kind := range kinds {
		f.add(at, pod, kind, in.Nodes, alone)
	}
	for _, p := range standing {
		cost, foreign := costOf(p)
		s := &seat{pod: p, domains: make([]int, len(f.constraints)), cordoned: at[p.Spec.NodeName].cordoned, cost: cost, foreign: foreign}
		for k, c := range f.constraints {
			s.domains[k] = at.of(p, k, c)
		}
		if foreign {
			f.foreign++
		}
		f.seats = append(f.seats, s)
	}
	f.count(at, in.Others)
	f.narrow()
	return f, nil
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

// zones is what Request Zone means to a pod without constraints.
func zones(pod *v1.Pod) []topologyspread.Constraint {
	c := &v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.ScheduleAnyway}
	return []topologyspread.Constraint{topologyspread.ReadDefault(pod, c, labels.SelectorFromSet(pod.Labels))}
}

// add adds constraints of one kind: a node takes part only if it has the keys of all of them.
func (f *field) add(at sites, pod *v1.Pod, kind []topologyspread.Constraint, nodes []*v1.Node, alone bool) {
	if len(kind) == 0 {
		return
	}
	counters := make([]*topologyspread.Counter, len(kind))
	for i := range kind {
		counters[i] = topologyspread.NewCounter(&kind[i])
		f.constraints = append(f.constraints, &constraint{Constraint: &kind[i], base: map[int]int{}, alone: alone})
	}
	added := f.constraints[len(f.constraints)-len(kind):]
	counts := topologyspread.NewCounts(pod, counters)
	for _, n := range nodes {
		seen := counts.Site(n)
		s := at[n.Name]
		s.cordoned = n.Spec.Unschedulable
		for i, c := range added {
			d := none
			if seen.Keyed && seen.Included[i] {
				d = seen.Domains[i]
				c.base[d] += 0
			}
			s.domains = append(s.domains, d)
		}
		at[n.Name] = s
	}
}

// of returns the domain in which a constraint counts a pod.
func (at sites) of(p *v1.Pod, constraint int, c *constraint) int {
	if s, known := at[p.Spec.NodeName]; known && c.Counts(p) {
		return s.domains[constraint]
	}
	return none
}

// count counts the pods that stay while this ReplicaSet is scaled down.
func (f *field) count(at sites, others []*v1.Pod) {
	for k, c := range f.constraints {
		if c.alone {
			continue
		}
		for _, p := range others {
			if p.Status.Phase == v1.PodSucceeded || p.Status.Phase == v1.PodFailed {
				continue
			}
			if d := at.of(p, k, c); d != none {
				c.base[d]++
			}
		}
	}
}

// narrow leaves out the constraints that count none of the pods, and those beyond the maximum.
func (f *field) narrow() {
	var kept []int
	for k := range f.constraints {
		if len(kept) < maxConstraints && slices.ContainsFunc(f.seats, func(s *seat) bool { return s.domains[k] != none }) {
			kept = append(kept, k)
		}
	}
	constraints := f.constraints
	f.constraints = nil
	for _, k := range kept {
		c := constraints[k]
		f.constraints = append(f.constraints, c)
		c.free = c.MaxSkew
		for _, n := range c.base {
			if n > c.MaxSkew {
				c.free = 1 // a domain of others is above the rest, which must be left level
			}
		}
	}
	for _, s := range f.seats {
		all := s.domains
		s.domains = nil
		for _, k := range kept {
			s.domains = append(s.domains, all[k])
		}
	}
}
