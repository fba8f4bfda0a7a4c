package autoscaler

import (
	"cmp"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/predicates"
)

// Packing is how pods are put on nodes, by the scheduler and by Cluster Autoscaler's simulation of
// it.
type Packing interface {
	// Snapshot makes a what-if copy of nodes and the pods on them.
	Snapshot(nodes []predicates.Node) Snapshot
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
	// Fits says which of the pods fit a fresh node of the template. The snapshot does not change.
	Fits(template predicates.Node, pods []*v1.Pod) ([]bool, error)
	// Estimate packs groups of equal pods on at most limit new nodes, the largest pods first. The
	// snapshot does not change.
	Estimate(template predicates.Node, groups [][]*v1.Pod, limit int) (nodes int, placed []*v1.Pod, err error)
}

// Arithmetic packs by the requests of cpu and memory, the number of pods, the node selector and the
// taints. It is what Cluster Autoscaler's estimator comes to for such pods. The zero value is ready
// for use, by one goroutine.
type Arithmetic struct {
	needs map[*v1.Pod]amount // what pods request, which never changes
}

// maxNeeds is how many pods are remembered.
const maxNeeds = 4096

// Snapshot implements Packing.
func (p *Arithmetic) Snapshot(nodes []predicates.Node) Snapshot {
	if p.needs == nil || len(p.needs) > maxNeeds {
		p.needs = map[*v1.Pod]amount{}
	}
	s := &arithmetic{needs: p.needs, machines: make([]machine, 0, len(nodes))}
	for i := range nodes {
		m := newMachine(nodes[i].Node)
		for _, pod := range nodes[i].Pods {
			m.take(s.need(pod))
		}
		s.machines = append(s.machines, m)
	}
	return s
}

type arithmetic struct {
	machines []machine
	needs    map[*v1.Pod]amount
}

type amount struct{ cpu, memory, pods int64 }

type machine struct {
	node      *v1.Node
	all, free amount
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
	a, ok := s.needs[pod]
	if !ok {
		r := expander.RequestsOf(pod)
		a = amount{cpu: r.MilliCPU, memory: r.Memory, pods: 1}
		s.needs[pod] = a
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
	at := make([]int, len(pods))
	first := 0
	for i, pod := range pods {
		need, best := s.need(pod), -1
		for k := range s.machines {
			k = (k + first) % len(s.machines)
			m := &s.machines[k]
			if !m.room(need) || best >= 0 && m.share() <= s.machines[best].share() || !admits(m.node, pod) {
				continue
			}
			best = k
			if order != Emptiest {
				break
			}
		}
		if best >= 0 {
			s.machines[best].take(need)
			if order == InTurn {
				first = best + 1
			}
		}
		at[i] = best
	}
	return at, nil
}

// Fits implements Snapshot.
func (s *arithmetic) Fits(template predicates.Node, pods []*v1.Pod) ([]bool, error) {
	m := s.fresh(template)
	fits := make([]bool, len(pods))
	for i, pod := range pods {
		fits[i] = m.room(s.need(pod)) && admits(template.Node, pod)
	}
	return fits, nil
}

func (s *arithmetic) fresh(template predicates.Node) machine {
	m := newMachine(template.Node)
	for _, pod := range template.Pods {
		m.take(s.need(pod))
	}
	return m
}

// Estimate implements Snapshot. A pod goes on the nodes opened so far, until one of its group finds
// no place on any; from then on it goes on the last node, or on a new one.
func (s *arithmetic) Estimate(template predicates.Node, groups [][]*v1.Pod, limit int) (int, []*v1.Pod, error) {
	empty := s.fresh(template)
	groups = slices.Clone(groups)
	slices.SortStableFunc(groups, func(a, b []*v1.Pod) int {
		return cmp.Compare(score(s.need(b[0]), empty.all), score(s.need(a[0]), empty.all))
	})
	var opened []machine
	var placed []*v1.Pod
	for _, group := range groups {
		need, next := s.need(group[0]), 0
		for k := 0; k < len(opened) && next < len(group); {
			if !opened[k].room(need) {
				k++
				continue
			}
			opened[k].take(need)
			next++
		}
		placed = append(placed, group[:next]...)
		for _, pod := range group[next:] {
			if len(opened) == 0 || !opened[len(opened)-1].room(need) {
				if len(opened) >= limit || !empty.room(need) {
					break
				}
				opened = append(opened, empty)
			}
			opened[len(opened)-1].take(need)
			placed = append(placed, pod)
		}
	}
	return len(opened), placed, nil
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
