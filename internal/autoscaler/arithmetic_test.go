package autoscaler

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/evenkeel/evenkeel/podfit"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/topologyspread"
)

// Arithmetic is the slow, obvious oracle of snapshots: it packs by the requests of cpu and memory, the number of pods,
// the node selector, the taints and hard topology spread constraints. It is what Cluster Autoscaler's estimator comes
// to for such pods. The zero value is ready for use, by one goroutine.
type Arithmetic struct{ known known }

// known is what is worked out once per pod: pods never change.
type known struct {
	needs  map[*v1.Pod]amount
	shapes map[*v1.Pod]string
}

// maxNeeds is how many pods are remembered.
const maxNeeds = 4096

// Snapshot is the arithmetic of nodes.
func (p *Arithmetic) Snapshot(nodes []predicates.Node) *arithmetic {
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

func (s *arithmetic) need(pod *v1.Pod) amount {
	a, ok := s.known.needs[pod]
	if !ok {
		r := podfit.Requests(pod)
		a = amount{cpu: r[v1.ResourceCPU], memory: r[v1.ResourceMemory], pods: 1}
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

// Place puts pods on machines, each from the one after the last pod's on.
func (s *arithmetic) Place(pods []*v1.Pod) []int {
	machines := s.machines
	at := make([]int, len(pods))
	first := 0
	for i, pod := range pods {
		need, best := s.need(pod), -1
		for k := range machines {
			k = (k + first) % len(machines)
			m := &machines[k]
			if m.room(need) && admits(m.node, pod) && s.spreadable(m, pod) {
				best = k
				break
			}
		}
		if best >= 0 {
			s.bind(&machines[best], pod)
			first = best + 1
		}
		at[i] = best
	}
	return at
}

func (s *arithmetic) Fits(templates []predicates.Node, pods []*v1.Pod) [][]bool {
	out := make([][]bool, len(templates))
	for i, template := range templates {
		out[i] = s.fitting(template, pods)
	}
	return out
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

// Estimate does as the snapshot does. A pod goes on the nodes opened so far, until one of its group finds
// no place on any; from then on it goes on the last node, or on a new one. One that does not keep to
// its spread on a new node ends its group.
func (s *arithmetic) Estimate(template predicates.Node, _ string, groups [][]*v1.Pod, limit int) (int, []*v1.Pod) {
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
	return used, e.placed
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

// tally is a hard topology spread constraint with the pods it counts, as pods of one shape see it.
type tally struct {
	topologyspread.Constraint
	pod    *v1.Pod // of the shape
	rules  podfit.Rules
	keys   []string       // a node without one of them takes no part
	counts map[string]int // pods by domain, 0 included
}

// tallies returns the constraints of a pod, counted over the machines, or nil if it has none. They
// are made for the first pod of a shape and kept up to date from then on.
func (s *arithmetic) tallies(pod *v1.Pod) []*tally {
	if len(pod.Spec.TopologySpreadConstraints) == 0 {
		return nil
	}
	shape := s.shape(pod)
	if known, ok := s.spreads[shape]; ok {
		return known
	}
	constraints, _ := topologyspread.Hard(pod) // no API server takes a selector that cannot be parsed
	out := make([]*tally, len(constraints))
	var keys []string
	for i, c := range constraints {
		keys = append(keys, c.Key)
		out[i] = &tally{Constraint: c, pod: pod, rules: podfit.RulesOf(pod), counts: map[string]int{}}
	}
	for _, t := range out {
		t.keys = keys
		for i := range s.machines {
			t.open(&s.machines[i])
			for _, p := range s.machines[i].pods {
				t.take(&s.machines[i], p)
			}
		}
	}
	if s.spreads == nil {
		s.spreads = map[string][]*tally{}
	}
	s.spreads[shape] = out
	return out
}

// shape is the same for pods that see the same counts.
func (s *arithmetic) shape(pod *v1.Pod) string {
	shape, ok := s.known.shapes[pod]
	if !ok {
		spec := v1.PodSpec{TopologySpreadConstraints: pod.Spec.TopologySpreadConstraints, NodeSelector: pod.Spec.NodeSelector,
			Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations}
		shape = pod.Namespace + " " + labels.Set(pod.Labels).String() + " " + spec.String()
		s.known.shapes[pod] = shape
	}
	return shape
}

func (t *tally) participates(m *machine) bool {
	for _, key := range t.keys {
		if _, ok := m.domain(key); !ok {
			return false
		}
	}
	return t.Includes(t.rules, m.node)
}

// open has the machine's domain exist.
func (t *tally) open(m *machine) {
	if t.participates(m) {
		domain, _ := m.domain(t.Key)
		t.counts[domain] += 0
	}
}

// take counts a pod on a machine.
func (t *tally) take(m *machine, pod *v1.Pod) {
	if t.Counts(pod) && t.participates(m) {
		domain, _ := m.domain(t.Key)
		t.counts[domain]++
	}
}

// admits reports whether one more pod on the machine keeps to the constraint.
func (t *tally) admits(m *machine) bool {
	domain, ok := m.domain(t.Key)
	if !ok {
		return false
	}
	least := math.MaxInt
	for _, n := range t.counts {
		least = min(least, n)
	}
	if len(t.counts) < max(1, t.MinDomains) {
		least = 0
	}
	return t.counts[domain]+t.Self-least <= t.MaxSkew
}

// domain is the machine's value of a topology key. Every machine is its own host.
func (m *machine) domain(key string) (string, bool) {
	if key == v1.LabelHostname && m.host != "" {
		return m.host, true
	}
	value, ok := m.node.Labels[key]
	return value, ok
}

// spreadable reports whether the pod keeps to its constraints on the machine.
func (s *arithmetic) spreadable(m *machine, pod *v1.Pod) bool {
	for _, t := range s.tallies(pod) {
		if !t.admits(m) {
			return false
		}
	}
	return true
}

// bind puts a pod on a machine.
func (s *arithmetic) bind(m *machine, pod *v1.Pod) {
	m.take(s.need(pod))
	m.pods = append(m.pods, pod)
	for _, tallies := range s.spreads {
		for _, t := range tallies {
			t.take(m, pod)
		}
	}
}

// opened adds a machine to the domains.
func (s *arithmetic) opened(m *machine) {
	for _, tallies := range s.spreads {
		for _, t := range tallies {
			t.open(m)
		}
	}
}

// fork copies the counts, which are all that an estimate changes.
func (s *arithmetic) fork(groups [][]*v1.Pod) *arithmetic {
	for _, group := range groups {
		s.tallies(group[0])
	}
	out := &arithmetic{machines: s.machines, known: s.known}
	if s.spreads != nil {
		out.spreads = make(map[string][]*tally, len(s.spreads))
	}
	for shape, tallies := range s.spreads {
		for _, t := range tallies {
			copied := *t
			copied.counts = maps.Clone(t.counts)
			out.spreads[shape] = append(out.spreads[shape], &copied)
		}
		if len(tallies) == 0 {
			out.spreads[shape] = nil
		}
	}
	return out
}
