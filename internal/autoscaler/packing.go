package autoscaler

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/predicates"
)

// Packing is how pods are put on nodes, by the scheduler and by Cluster Autoscaler's simulation of
// it.
type Packing interface {
	// Snapshot makes a what-if copy of nodes and the pods on them.
	Snapshot(nodes []predicates.Node) Snapshot
	// LikeNode makes a template take as many volumes as the node that it was made from.
	LikeNode(template, node *v1.Node)
}

// Order is in which order a pod tries nodes.
type Order int

// The orders.
const (
	FirstFit Order = iota // from the first
	InTurn                // from the one after the last pod's, as Cluster Autoscaler does
	Emptiest              // from the one with the most free, as kube-scheduler does
)

// Snapshot is a what-if copy of a cluster.
type Snapshot interface {
	// Place puts the pods on nodes, one after the other. It tells the index of each pod's node, -1
	// for none.
	Place(pods []*v1.Pod, order Order) ([]int, error)
	// Fits says which of the pods fit a fresh node of each template. The snapshot does not change.
	Fits(templates []predicates.Node, pods []*v1.Pod) (Fit, error)
	// Estimate packs groups of equal pods on at most limit new nodes, the largest pods first. The
	// snapshot does not change. Templates of one class, if it is not empty, are packed once.
	Estimate(template predicates.Node, class string, groups [][]*v1.Pod, limit int) (nodes int, placed []*v1.Pod, err error)
	// Try puts pods on nodes by their positions, those of the fresh nodes after all others, each beside
	// those before it. It returns the first that does not fit, -1 if all do. The snapshot does not
	// change.
	Try(fresh []predicates.Node, pods []*v1.Pod, at []int) (int, error)
	// Extend adds nodes and puts the pods on them. It reports whether all of the pods fit.
	Extend(nodes []predicates.Node, pods []*v1.Pod) (bool, error)
}

// Fit says which pods fit a fresh node of which template, by their positions.
type Fit interface {
	Passes(template, pod int) bool
	// Reasons say why a pod does not fit, as far as that is known.
	Reasons(template, pod int) []predicates.Reason
	// Class is the same for templates that take equally many of the pods; empty where that is not
	// known.
	Class(template int) string
}

// fits is a Fit without reasons.
type fits [][]bool

func (f fits) Passes(template, pod int) bool      { return f[template][pod] }
func (fits) Reasons(_, _ int) []predicates.Reason { return nil }
func (fits) Class(int) string                     { return "" }

// Arithmetic packs by the requests of cpu and memory, the number of pods, the node selector, the
// taints and hard topology spread constraints. It is what Cluster Autoscaler's estimator comes to
// for such pods. The zero value is ready for use, by one goroutine.
type Arithmetic struct{ known known }

// known is what is worked out once per pod: pods never change.
type known struct {
	needs  map[*v1.Pod]amount
	shapes map[*v1.Pod]string
}

// maxNeeds is how many pods are remembered.
const maxNeeds = 4096

// Snapshot implements Packing.
func (p *Arithmetic) Snapshot(nodes []predicates.Node) Snapshot {
	if p.known.needs == nil || len(p.known.needs) > maxNeeds {
		p.known = known{map[*v1.Pod]amount{}, map[*v1.Pod]string{}}
	}
	s := &arithmetic{known: p.known, machines: make([]machine, 0, len(nodes))}
	for i := range nodes {
		s.machines = append(s.machines, s.fresh(nodes[i]))
	}
	return s
}

type arithmetic struct {
	machines []machine
	known    known
	spreads  map[string][]*tally // by the shape of pods
}

type amount struct{ cpu, memory, pods int64 }

type machine struct {
	node      *v1.Node
	host      string // where it is not the node's label
	all, free amount
	pods      []*v1.Pod
}

func newMachine(node *v1.Node) machine {
	list := node.Status.Allocatable
	if list == nil {
		list = node.Status.Capacity
	}
	all := amount{cpu: list.Cpu().MilliValue(), memory: list.Memory().Value(), pods: list.Pods().Value()}
	return machine{node: node, all: all, free: all}
}

func (m *machine) take(a amount) {
	m.free.cpu -= a.cpu
	m.free.memory -= a.memory
	m.free.pods -= a.pods
}

func (m *machine) room(a amount) bool {
	return a.cpu <= m.free.cpu && a.memory <= m.free.memory && a.pods <= m.free.pods
}

// share is how much of the machine is free, in thousandths, the mean of cpu and memory.
func (m *machine) share() int64 {
	return (1000*m.free.cpu/max(m.all.cpu, 1) + 1000*m.free.memory/max(m.all.memory, 1)) / 2
}

func (s *arithmetic) need(pod *v1.Pod) amount {
	a, ok := s.known.needs[pod]
	if !ok {
		r := expander.RequestsOf(pod)
		a = amount{cpu: r.MilliCPU, memory: r.Memory, pods: 1}
		s.known.needs[pod] = a
	}
	return a
}

// admits reports whether the pod may run on the node, however full it is.
func admits(node *v1.Node, pod *v1.Pod) bool {
	for key, value := range pod.Spec.NodeSelector {
		if got, ok := node.Labels[key]; !ok || got != value {
			return false
		}
	}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil {
		if ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node); !ok || err != nil {
			return false
		}
	}
	for i := range node.Spec.Taints {
		if !tolerates(pod, &node.Spec.Taints[i]) {
			return false
		}
	}
	return !node.Spec.Unschedulable
}

func tolerates(pod *v1.Pod, taint *v1.Taint) bool {
	if taint.Effect == v1.TaintEffectPreferNoSchedule {
		return true
	}
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t v1.Toleration) bool {
		return (t.Effect == "" || t.Effect == taint.Effect) && (t.Key == "" || t.Key == taint.Key) &&
			(t.Operator == v1.TolerationOpExists || t.Value == taint.Value)
	})
}

// Place implements Snapshot.
func (s *arithmetic) Place(pods []*v1.Pod, order Order) ([]int, error) {
	return s.place(s.machines, pods, order), nil
}

// Extend implements Snapshot.
func (s *arithmetic) Extend(nodes []predicates.Node, pods []*v1.Pod) (bool, error) {
	before := len(s.machines)
	for i := range nodes {
		s.machines = append(s.machines, s.fresh(nodes[i]))
		s.opened(&s.machines[before+i])
	}
	return !slices.Contains(s.place(s.machines[before:], pods, FirstFit), -1), nil
}

// Try implements Snapshot.
func (s *arithmetic) Try(fresh []predicates.Node, pods []*v1.Pod, at []int) (int, error) {
	trial := &arithmetic{known: s.known}
	for i := range s.machines {
		m := s.machines[i]
		m.pods = slices.Clip(m.pods)
		trial.machines = append(trial.machines, m)
	}
	for _, n := range fresh {
		trial.machines = append(trial.machines, trial.fresh(n))
	}
	for i, pod := range pods {
		m := &trial.machines[at[i]]
		if !m.room(trial.need(pod)) || !admits(m.node, pod) || !trial.spreadable(m, pod) {
			return i, nil
		}
		trial.bind(m, pod)
	}
	return -1, nil
}

// place puts pods on some of the machines.
func (s *arithmetic) place(machines []machine, pods []*v1.Pod, order Order) []int {
	at := make([]int, len(pods))
	first := 0
	for i, pod := range pods {
		need, best := s.need(pod), -1
		for k := range machines {
			k = (k + first) % len(machines)
			m := &machines[k]
			if !m.room(need) || best >= 0 && m.share() <= machines[best].share() || !admits(m.node, pod) || !s.spreadable(m, pod) {
				continue
			}
			best = k
			if order != Emptiest {
				break
			}
		}
		if best >= 0 {
			s.bind(&machines[best], pod)
			if order == InTurn {
				first = best + 1
			}
		}
		at[i] = best
	}
	return at
}

// LikeNode implements Packing: volumes do not count.
func (*Arithmetic) LikeNode(_, _ *v1.Node) {}

// Fits implements Snapshot.
func (s *arithmetic) Fits(templates []predicates.Node, pods []*v1.Pod) (Fit, error) {
	out := make(fits, len(templates))
	for i, template := range templates {
		out[i] = s.fitting(template, pods)
	}
	return out, nil
}

func (s *arithmetic) fitting(template predicates.Node, pods []*v1.Pod) []bool {
	m := s.fresh(template)
	m.host = "new"
	fits := make([]bool, len(pods))
	for i, pod := range pods {
		fits[i] = m.room(s.need(pod)) && admits(template.Node, pod)
		if fits[i] && len(pod.Spec.TopologySpreadConstraints) > 0 {
			fork := s.fork([][]*v1.Pod{{pod}})
			fork.opened(&m)
			fits[i] = fork.spreadable(&m, pod)
		}
	}
	return fits
}

func (s *arithmetic) fresh(template predicates.Node) machine {
	m := newMachine(template.Node)
	for _, pod := range template.Pods {
		m.take(s.need(pod))
	}
	m.pods = slices.Clip(template.Pods)
	return m
}

// Estimate implements Snapshot. A pod goes on the nodes opened so far, until one of its group finds
// no place on any; from then on it goes on the last node, or on a new one. One that does not keep to
// its spread on a new node ends its group.
func (s *arithmetic) Estimate(template predicates.Node, _ string, groups [][]*v1.Pod, limit int) (int, []*v1.Pod, error) {
	empty := s.fresh(template)
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b []*v1.Pod) int {
		return cmp.Compare(score(s.need(b[0]), empty.all), score(s.need(a[0]), empty.all))
	})
	e := &estimate{arithmetic: s.fork(groups), empty: empty, limit: limit}
	for _, group := range groups {
		e.onNew(e.onOpened(group))
	}
	used := 0
	for i := range e.nodes {
		if len(e.nodes[i].pods) > len(empty.pods) {
			used++
		}
	}
	return used, e.placed, nil
}

// estimate is an estimate in progress.
type estimate struct {
	*arithmetic
	empty  machine
	limit  int
	full   bool // the limit of new nodes is reached
	nodes  []machine
	placed []*v1.Pod
}

// try puts a pod on a new node if it fits there.
func (e *estimate) try(k int, pod *v1.Pod) bool {
	m := &e.nodes[k]
	if !m.room(e.need(pod)) || !e.spreadable(m, pod) {
		return false
	}
	e.bind(m, pod)
	e.placed = append(e.placed, pod)
	return true
}

// onOpened puts pods on the nodes opened so far, and returns the rest.
func (e *estimate) onOpened(group []*v1.Pod) []*v1.Pod {
	for k := 0; k < len(e.nodes) && len(group) > 0; {
		if e.try(k, group[0]) {
			group = group[1:]
			if len(e.tallies(e.placed[len(e.placed)-1])) > 0 {
				k = 0 // a domain may have room again
			}
		} else {
			k++
		}
	}
	return group
}

// onNew puts pods on the last node, or on one more.
func (e *estimate) onNew(group []*v1.Pod) {
	for _, pod := range group {
		if e.full {
			return
		}
		last := len(e.nodes) - 1
		if last >= 0 && (e.try(last, pod) || e.onOtherHost(last, pod)) {
			continue
		}
		if last >= 0 && len(e.nodes[last].pods) == len(e.empty.pods) || !e.empty.room(e.need(pod)) {
			return
		}
		if len(e.nodes) >= e.limit {
			e.full = true
			return
		}
		m := e.empty
		m.host = fmt.Sprint("new-", len(e.nodes))
		e.nodes = append(e.nodes, m)
		e.opened(&e.nodes[last+1])
		if !e.try(last+1, pod) {
			return
		}
	}
}

// onOtherHost puts a pod on another new node if its spread over hosts has kept it off the last one.
func (e *estimate) onOtherHost(last int, pod *v1.Pod) bool {
	byHost := slices.ContainsFunc(e.tallies(pod), func(t *tally) bool { return t.Key == v1.LabelHostname })
	if !byHost || e.spreadable(&e.nodes[last], pod) {
		return false
	}
	for k := range last {
		if e.try(k, pod) {
			return true
		}
	}
	return false
}

// score orders pods by their size relative to a node.
func score(need, all amount) float64 {
	var sum float64
	if all.cpu > 0 {
		sum += float64(need.cpu) / float64(all.cpu)
	}
	if all.memory > 0 {
		sum += float64(need.memory) / float64(all.memory)
	}
	return sum
}
