package autoscaler

import (
	"maps"
	"math"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// tally is a hard topology spread constraint with the pods it counts, as pods of one shape see it.
type tally struct {
	topologyspread.Constraint
	pod      *v1.Pod // of the shape
	affinity nodeaffinity.RequiredNodeAffinity
	keys     []string       // a node without one of them takes no part
	counts   map[string]int // pods by domain, 0 included
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
		out[i] = &tally{Constraint: c, pod: pod, affinity: nodeaffinity.GetRequiredNodeAffinity(pod), counts: map[string]int{}}
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
		spec := v1.PodSpec{TopologySpreadConstraints: pod.Spec.TopologySpreadConstraints, NodeSelector: pod.Spec.NodeSelector, Affinity: pod.Spec.Affinity, Tolerations: pod.Spec.Tolerations}
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
	return t.Includes(t.pod, t.affinity, m.node)
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
