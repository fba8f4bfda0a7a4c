package estimator

import (
	"fmt"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/predicates"
)

// NoLimit stands for a number of nodes without a bound.
const NoLimit = math.MaxInt

// Demand is a number of equal pods that want a place.
type Demand struct {
	Kind  int // the caller's index of the kind, see Workload
	Pod   *v1.Pod
	Count int
}

// Phase is one step of an estimate: pods for new nodes of one template.
type Phase struct {
	// Template is the node to open and the daemon set and static pods on it.
	Template predicates.Node

	// Shape is equal for templates that take equally many of the same pods (for
	// example predicates.Fit.ClassOf, written as text), so that an Estimator works
	// out only one of them. Empty: nothing is shared.
	Shape string

	// Demands are the pods to place. Larger pods are placed first; among
	// equally large ones the order here decides.
	Demands []Demand

	// Reuse lists earlier phases whose nodes these pods may fill up too,
	// before new nodes are opened.
	Reuse []int

	// MaxNodes bounds the nodes opened in this phase: 0 opens none, NoLimit
	// leaves it to the limit of the whole estimate.
	MaxNodes int
}

// Estimation is how many nodes are needed and what runs on them.
type Estimation struct {
	NodeCount int         // new nodes of all phases
	Phases    []Estimated // in the order of the phases
}

// Estimated is the part of one phase.
type Estimated struct {
	NodeCount int      // new nodes of the phase's template, each with at least one pod
	Placed    []Placed // in the order of the phase's demands
}

// Placed is how many pods of a demand found a place.
type Placed struct {
	Count  int
	Reason Reason // why not all; empty where all did
}

// Reason is why pods of a demand found no place.
type Reason string

const (
	// ReasonNodeLimit: they would fit on one more node, and none may be opened.
	ReasonNodeLimit Reason = "NodeLimit"
	// ReasonDoesNotFit: not one of them fits on an empty node.
	ReasonDoesNotFit Reason = "DoesNotFit"
	// ReasonHeldBack: some found a place, and now the pods placed so far keep the
	// rest out, as spread constraints and anti-affinity do.
	ReasonHeldBack Reason = "HeldBack"
)

// Limited reports whether a bound on nodes kept pods out.
func (e Estimation) Limited() bool {
	for _, phase := range e.Phases {
		for _, p := range phase.Placed {
			if p.Reason == ReasonNodeLimit {
				return true
			}
		}
	}
	return false
}

// pack packs the pods of valid phases, one phase after the other, on at most
// limit new nodes in all: first fit, the largest pods first, each placed only
// where the scheduler's own plugins let it run. The cluster is the world the
// new nodes come into; it is not changed.
//
// Equal pods are placed in bulk, so the work does not grow with their number,
// and it is bounded by nodes alone: the same input has the same answer on a
// fast machine and on a slow one.
func pack(cluster *predicates.Cluster, phases []Phase, limit int) (layout, error) {
	p := packing{cluster: cluster.Fork(), room: max(limit, 0)}
	var l layout
	for _, phase := range phases {
		estimated, runs, err := p.pack(phase)
		if err != nil {
			return layout{}, err
		}
		l.runs = runs
		l.Phases = append(l.Phases, estimated)
		l.NodeCount += estimated.NodeCount
	}
	if len(phases) == 1 {
		l.bound = boundOf(phases[0], limit)
	}
	return l, nil
}

func validate(phases []Phase) error {
	for i, phase := range phases {
		if phase.Template.Node == nil {
			return fmt.Errorf("%w: phase %d: the template has no node", ErrInvalidPhase, i)
		}
		for j, d := range phase.Demands {
			if d.Pod == nil || d.Count < 0 {
				return fmt.Errorf("%w: phase %d, demand %d: needs a pod and a count of 0 or more", ErrInvalidPhase, i, j)
			}
		}
		for _, earlier := range phase.Reuse {
			if earlier < 0 || earlier >= i {
				return fmt.Errorf("%w: phase %d cannot reuse the nodes of phase %d", ErrInvalidPhase, i, earlier)
			}
		}
	}
	return nil
}

// packing is the state of one estimate.
type packing struct {
	cluster *predicates.Cluster
	room    int                    // nodes that may still be opened
	opened  []window               // the nodes of every phase so far
	runs    []predicates.Placement // of the demand being placed, from the phase's first node
}

// window is a range of node ids, hi exclusive.
type window struct{ lo, hi int }

func (p *packing) pack(phase Phase) (Estimated, [][]predicates.Placement, error) {
	own := window{p.cluster.Len(), p.cluster.Len()}
	p.opened = append(p.opened, own)
	estimated := Estimated{Placed: make([]Placed, len(phase.Demands))}
	runs := make([][]predicates.Placement, len(phase.Demands))
	for _, i := range LargestFirst(phase.Template.Node, phase.Demands) {
		p.runs = nil
		placed, err := p.place(phase, phase.Demands[i])
		if err != nil {
			d := phase.Demands[i]
			return Estimated{}, nil, fmt.Errorf("placing pods like %s/%s: %w", d.Pod.Namespace, d.Pod.Name, err)
		}
		estimated.Placed[i], runs[i] = placed, p.runs
	}
	estimated.NodeCount = p.current().hi - own.lo
	return estimated, runs, nil
}

// place finds places for one demand: on open nodes, then on new ones.
func (p *packing) place(phase Phase, d Demand) (Placed, error) {
	step := d.Count
	if placingUnlocks(d.Pod) {
		step = 1
	}
	left := d.Count
	for left > 0 {
		n, err := p.placeOnOpen(phase, d.Pod, left)
		if err != nil {
			return Placed{}, err
		}
		if left -= n; left == 0 {
			break
		}
		if n, err = p.placeOnNew(phase, d.Pod, min(step, left)); err != nil {
			return Placed{}, err
		}
		left -= n
		if n < step {
			break
		}
	}
	placed := Placed{Count: d.Count - left}
	if left == 0 {
		return placed, nil
	}
	var err error
	placed.Reason, err = p.reason(phase, d.Pod, placed.Count)
	return placed, err
}

// placingUnlocks reports whether one more such pod can open nodes to the next
// that were closed to it: a spread constraint does so once the least populated
// domain has grown, affinity once the first pod has settled. The places of all
// other pods only ever get fewer, so the open nodes need be tried only once.
func placingUnlocks(pod *v1.Pod) bool {
	spread := slices.ContainsFunc(pod.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == v1.DoNotSchedule
	})
	affinity := pod.Spec.Affinity
	return spread || affinity != nil && affinity.PodAffinity != nil &&
		len(affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// placeOnOpen fills the open nodes the phase may use, in the order of opening.
func (p *packing) placeOnOpen(phase Phase, pod *v1.Pod, count int) (int, error) {
	windows := p.usable(phase)
	step := count
	if len(windows) > 1 && placingUnlocks(pod) {
		step = 1 // each pod begins at the first window again
	}
	placed := 0
	for placed < count {
		before := placed
		for _, w := range windows {
			n, err := p.cluster.Place(pod, min(step, count-placed), w.lo, w.hi)
			if err != nil {
				return 0, err
			}
			placed += p.record(n)
			if placed-before >= step {
				break
			}
		}
		if placed-before < step {
			break
		}
	}
	return placed, nil
}

// usable lists the nodes of the reused phases and of this one, adjacent
// windows joined.
func (p *packing) usable(phase Phase) []window {
	indexes := append(slices.Sorted(slices.Values(phase.Reuse)), len(p.opened)-1)
	var windows []window
	for _, i := range slices.Compact(indexes) {
		w := p.opened[i]
		switch last := len(windows) - 1; {
		case w.lo == w.hi:
		case last >= 0 && windows[last].hi == w.lo:
			windows[last].hi = w.hi
		default:
			windows = append(windows, w)
		}
	}
	return windows
}

func (p *packing) placeOnNew(phase Phase, pod *v1.Pod, count int) (int, error) {
	room := min(p.roomFor(phase), count) // no node without a pod
	if room == 0 {
		return 0, nil
	}
	placements, err := p.cluster.PlaceOnNew(phase.Template, pod, count, room)
	if err != nil {
		return 0, err
	}
	own := p.current()
	p.room -= p.cluster.Len() - own.hi
	own.hi = p.cluster.Len()
	return p.record(placements), nil
}

// record notes where pods went and counts them.
func (p *packing) record(placements []predicates.Placement) int {
	for _, run := range placements {
		run.First -= p.current().lo
		p.runs = append(p.runs, run)
	}
	return total(placements)
}

// reason says whether a demand lacks nodes, or whether more nodes would not help it.
func (p *packing) reason(phase Phase, pod *v1.Pod, placed int) (Reason, error) {
	if p.roomFor(phase) == 0 {
		takes, err := p.cluster.TakesOnNew(phase.Template, pod)
		if err != nil {
			return "", err
		}
		if takes {
			return ReasonNodeLimit, nil
		}
	}
	if placed > 0 {
		return ReasonHeldBack, nil
	}
	return ReasonDoesNotFit, nil
}

// current is the window of the phase being packed.
func (p *packing) current() *window { return &p.opened[len(p.opened)-1] }

func (p *packing) roomFor(phase Phase) int {
	own := p.current()
	return max(0, min(p.room, phase.MaxNodes-(own.hi-own.lo)))
}

func total(placements []predicates.Placement) int {
	n := 0
	for _, p := range placements {
		n += p.Nodes * p.PerNode
	}
	return n
}
