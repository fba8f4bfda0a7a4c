package predicates

import (
	"math"

	v1 "k8s.io/api/core/v1"
	corev1 "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/evenkeel/evenkeel/topologyspread"
)

// Weights of the scores in the default profile; the two of resources count once.
const (
	taintWeight    = 3
	affinityWeight = 2
	spreadWeight   = 2
	podsWeight     = 2
)

// weigh works out which buckets are candidates, and their scores. It reports
// whether there is one.
func (t *table) weigh() bool {
	t.round++
	candidates := 0
	for i := range t.buckets {
		t.totals[i] = rejected
		if st := &t.buckets[i]; st.fit > 0 && t.passes(st) {
			t.totals[i] = 0
			candidates++
		}
	}
	if candidates == 0 {
		return false
	}
	if !t.f.u.scored() {
		return true
	}
	t.scoreNode()
	t.scoreSpread()
	t.scorePods()
	for i := range t.buckets {
		if st := &t.buckets[i]; t.totals[i] != rejected {
			t.totals[i] = int32(taintWeight*st.taints + affinityWeight*st.affinity + spreadWeight*st.spread + podsWeight*st.pods)
		}
	}
	return true
}

// passes reports whether nodes of a bucket pass the filters that look at the
// pods around them.
func (t *table) passes(st *bucket) bool {
	for i, c := range t.counters {
		if c.role != isSought && t.refuses(st, i) {
			return false
		}
	}
	return t.satisfies(st)
}

// refuses reports whether a rule keeps the pod from nodes of a bucket.
func (t *table) refuses(st *bucket, i int) bool {
	switch c := t.counters[i]; c.role {
	case mustSpread:
		return !st.class.has[i] || !c.Allows(t.around(st, i))
	case avoids, repelled:
		return st.class.has[i] && t.around(st, i) > 0
	case isSought, shouldSpread, isPreferred:
	}
	return false
}

// satisfies reports whether the required affinity of the pod lets it onto nodes of a bucket.
func (t *table) satisfies(st *bucket) bool {
	satisfied, seekers := true, 0
	for i, c := range t.counters {
		if c.role != isSought {
			continue
		}
		if !st.class.has[i] {
			return false
		}
		satisfied = satisfied && t.around(st, i) > 0
		seekers += c.total
	}
	// The first of pods that look for each other may go anywhere.
	return satisfied || seekers == 0 && t.k.seeks(t.k.info.Pod)
}

// around is a counter's count in the domain of a bucket.
func (t *table) around(st *bucket, i int) int {
	if c := t.counters[i]; c.host < 0 {
		return c.Pods(st.class.domain[i])
	}
	return st.host[t.counters[i].host]
}

// scoreNode scores taints and preferred node affinity.
func (t *table) scoreNode() {
	var taints, preferred int64
	for i := range t.buckets {
		if t.totals[i] != rejected {
			taints = max(taints, t.buckets[i].class.taints)
			preferred = max(preferred, t.buckets[i].class.preferred)
		}
	}
	for i := range t.buckets {
		st := &t.buckets[i]
		st.taints, st.affinity = fwk.MaxScore, 0
		if taints > 0 {
			st.taints = fwk.MaxScore - fwk.MaxScore*st.class.taints/taints
		}
		if preferred > 0 {
			st.affinity = fwk.MaxScore * st.class.preferred / preferred
		}
	}
}

// scoreSpread scores the soft spread constraints.
func (t *table) scoreSpread() {
	var soft []int
	for ci, c := range t.counters {
		if c.role == shouldSpread {
			soft = append(soft, ci)
		}
	}
	if len(soft) == 0 {
		return
	}
	weights := t.spreadWeights(soft)
	var scale topologyspread.Scale
	for i := range t.buckets {
		st := &t.buckets[i]
		if t.totals[i] == rejected || st.class.ignored {
			continue
		}
		sum := 0.0
		for j, ci := range soft {
			if st.class.has[ci] {
				sum += t.counters[ci].constraint.Cost(t.around(st, ci), weights[j])
			}
		}
		st.raw = int64(math.Round(sum))
		scale.Note(st.raw)
	}
	for i := range t.buckets {
		st := &t.buckets[i]
		switch {
		case t.totals[i] == rejected:
		case st.class.ignored:
			st.spread = 0
		default:
			st.spread = scale.Score(st.raw)
		}
	}
}

// spreadWeights are the weights of soft spread constraints by the number of
// their domains that have candidates.
func (t *table) spreadWeights(soft []int) []float64 {
	sizes := make([]int, len(soft))
	for i := range t.buckets {
		st := &t.buckets[i]
		if t.totals[i] == rejected || st.class.ignored {
			continue
		}
		for j, ci := range soft {
			c := t.counters[ci]
			if c.host >= 0 {
				sizes[j] += st.fit
			} else if c.newIn(st.class.domain[ci], t.round) {
				sizes[j]++
			}
		}
	}
	weights := make([]float64, len(soft))
	for j, size := range sizes {
		weights[j] = topologyspread.Weight(size)
	}
	return weights
}

// scorePods scores preferences for other pods.
func (t *table) scorePods() {
	var over []int
	for ci, c := range t.counters {
		if c.role == isPreferred {
			over = append(over, ci)
		}
	}
	if len(over) == 0 {
		return
	}
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range t.buckets {
		if t.totals[i] == rejected {
			continue
		}
		st := &t.buckets[i]
		st.pods = 0
		for _, ci := range over {
			if st.class.has[ci] {
				st.pods += int64(t.around(st, ci))
			}
		}
		least, most = min(least, st.pods), max(most, st.pods)
	}
	for i := range t.buckets {
		if t.totals[i] == rejected {
			continue
		}
		st := &t.buckets[i]
		if most > least {
			st.pods = int64(float64(fwk.MaxScore) * (float64(st.pods-least) / float64(most-least)))
		} else {
			st.pods = 0
		}
	}
}

// newIn reports whether no candidate of this round was in the domain before.
func (c *counter) newIn(domain, round int) bool {
	if missing := domain + 1 - len(c.stamp); missing > 0 {
		c.stamp = append(c.stamp, make([]int, missing)...)
	}
	before := c.stamp[domain]
	c.stamp[domain] = round
	return before != round
}

// resources returns the scores of NodeResourcesFit (least allocated) and of
// NodeResourcesBalancedAllocation, 0 to 100 each.
func (k *kind) resources(st *state) (least, balanced int64) {
	cpu, memory := st.all.MilliCPU, st.all.Memory
	sum, resources := int64(0), int64(0)
	for _, of := range [2][2]int64{{st.used.scoredCPU + k.asks.scoredCPU, cpu}, {st.used.scoredMemory + k.asks.scoredMemory, memory}} {
		if used, all := of[0], of[1]; all > 0 {
			resources++
			if used <= all {
				sum += (all - used) * fwk.MaxScore / all
			}
		}
	}
	if resources > 0 {
		least = sum / resources
	}
	if k.placed.need.MilliCPU == 0 && k.placed.need.Memory == 0 {
		return least, 0 // not scored
	}
	with := balance(st.used.MilliCPU+k.placed.need.MilliCPU, cpu, st.used.Memory+k.placed.need.Memory, memory)
	without := balance(st.used.MilliCPU, cpu, st.used.Memory, memory)
	const half = fwk.MaxScore / 2
	return least, half + (half+with-without)/2
}

// balance says how close the used shares of cpu and memory are: 100 where they
// are the same, 50 where one is full and the other free.
func balance(usedCPU, cpu, usedMemory, memory int64) int64 {
	apart := 0.0
	if cpu > 0 && memory > 0 {
		shareCPU := min(float64(usedCPU)/float64(cpu), 1)
		apart = math.Abs((shareCPU - min(float64(usedMemory)/float64(memory), 1)) / 2)
	}
	return int64((1 - apart) * float64(fwk.MaxScore))
}

// untolerated counts the taints that a pod would rather keep away from.
func untolerated(p *v1.Pod, n *v1.Node) int64 {
	count := int64(0)
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Effect == v1.TaintEffectPreferNoSchedule {
			if !corev1.TolerationsTolerateTaint(klog.Logger{}, p.Spec.Tolerations, t, false) {
				count++
			}
		}
	}
	return count
}
