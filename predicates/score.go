package predicates

import (
	"math"

	v1 "k8s.io/api/core/v1"
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

// best returns the open node with the highest score that passes the filters, or
// -1.
func (r *ranking) best(hash uint64) int {
	if !r.weigh() {
		return -1
	}
	best, most := -1, int32(rejected)
	var rank uint64
	for i, score := range r.score {
		if score == rejected {
			continue
		}
		total := r.totals[r.standing[i]]
		if total == rejected {
			continue
		}
		if total += int32(score); total < most {
			continue
		}
		at := mix(r.s.slots[i].hash, hash)
		if total > most || at < rank || at == rank && r.s.slots[i].name < r.s.slots[best].name {
			best, most, rank = i, total, at
		}
	}
	return best
}

// weigh works out which standings are candidates, and their scores. It reports
// whether there is one.
func (r *ranking) weigh() bool {
	r.look++
	r.leastCounts()
	candidates := 0
	for i := range r.standings {
		r.totals[i] = rejected
		if st := &r.standings[i]; st.fit > 0 && r.passes(st) {
			r.totals[i] = 0
			candidates++
		}
	}
	if candidates == 0 {
		return false
	}
	r.scoreNode()
	r.scoreSpread()
	r.scorePods()
	for i := range r.standings {
		if st := &r.standings[i]; r.totals[i] != rejected {
			r.totals[i] = int32(taintWeight*st.taints + affinityWeight*st.affinity + spreadWeight*st.spread + podsWeight*st.pods)
		}
	}
	return true
}

// leastCounts finds the least count of every hard spread constraint.
func (r *ranking) leastCounts() {
	for ci, c := range r.censuses {
		if c.role != mustSpread {
			continue
		}
		c.constraint.least, c.constraint.domains = math.MaxInt, 0
		if c.host < 0 {
			for d, nodes := range c.members {
				c.constraint.note(c.count[d], min(nodes, 1))
			}
			continue
		}
		for i := range r.standings {
			if st := &r.standings[i]; st.class.counts[ci] {
				c.constraint.note(st.host[c.host], st.nodes)
			}
		}
	}
}

// passes reports whether nodes of a standing pass the filters that look at the
// pods around them.
func (r *ranking) passes(st *standing) bool {
	cl, satisfied, seekers := st.class, true, 0
	for ci, c := range r.censuses {
		n := r.around(st, ci)
		switch c.role {
		case mustSpread:
			if !cl.has[ci] || n+c.constraint.Self-c.constraint.leastOf() > c.constraint.MaxSkew {
				return false
			}
		case keepsAway:
			if cl.has[ci] && n > 0 {
				return false
			}
		case isSought:
			if !cl.has[ci] {
				return false
			}
			satisfied = satisfied && n > 0
			seekers += c.total
		case shouldSpread, isPreferred:
		}
	}
	// The first of pods that look for each other may go anywhere.
	return satisfied || seekers == 0 && r.seeksItself
}

// around is a census's count in the domain of a standing.
func (r *ranking) around(st *standing, ci int) int {
	if c := r.censuses[ci]; c.host < 0 {
		return c.count[st.class.domain[ci]]
	}
	return st.host[r.censuses[ci].host]
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// scoreNode scores taints and preferred node affinity.
func (r *ranking) scoreNode() {
	var taints, preferred int64
	for i := range r.standings {
		if r.totals[i] != rejected {
			taints = max(taints, r.standings[i].class.taints)
			preferred = max(preferred, r.standings[i].class.preferred)
		}
	}
	for i := range r.standings {
		st := &r.standings[i]
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
func (r *ranking) scoreSpread() {
	var soft []int
	for ci, c := range r.censuses {
		if c.role == shouldSpread {
			soft = append(soft, ci)
		}
	}
	if len(soft) == 0 {
		return
	}
	weights := r.spreadWeights(soft)
	var scale topologyspread.Scale
	for i := range r.standings {
		st := &r.standings[i]
		if r.totals[i] == rejected || st.class.ignored {
			continue
		}
		sum := 0.0
		for j, ci := range soft {
			if st.class.has[ci] {
				sum += r.censuses[ci].constraint.Cost(r.around(st, ci), weights[j])
			}
		}
		st.raw = int64(math.Round(sum))
		scale.Note(st.raw)
	}
	for i := range r.standings {
		st := &r.standings[i]
		switch {
		case r.totals[i] == rejected:
		case st.class.ignored:
			st.spread = 0
		default:
			st.spread = scale.Score(st.raw)
		}
	}
}

// spreadWeights are the weights of soft spread constraints by the number of
// their domains that have candidates.
func (r *ranking) spreadWeights(soft []int) []float64 {
	sizes := make([]int, len(soft))
	for i := range r.standings {
		st := &r.standings[i]
		if r.totals[i] == rejected || st.class.ignored {
			continue
		}
		for j, ci := range soft {
			c := r.censuses[ci]
			if c.host >= 0 {
				sizes[j] += st.fit
			} else if d := st.class.domain[ci]; c.stamp[d] != r.look {
				c.stamp[d] = r.look
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
func (r *ranking) scorePods() {
	var over []int
	for ci, c := range r.censuses {
		if c.role == isPreferred {
			over = append(over, ci)
		}
	}
	if len(over) == 0 {
		return
	}
	least, most := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range r.standings {
		if r.totals[i] == rejected {
			continue
		}
		st := &r.standings[i]
		st.pods = 0
		for _, ci := range over {
			if st.class.has[ci] {
				st.pods += int64(r.around(st, ci))
			}
		}
		least, most = min(least, st.pods), max(most, st.pods)
	}
	for i := range r.standings {
		if r.totals[i] == rejected {
			continue
		}
		st := &r.standings[i]
		if most > least {
			st.pods = int64(float64(fwk.MaxScore) * (float64(st.pods-least) / float64(most-least)))
		} else {
			st.pods = 0
		}
	}
}

// askPlugins returns the node that the plugins of the profile score highest for
// the pod, or -1.
func (s *Scheduler) askPlugins(t *tenant, hash uint64) int {
	nodes := make([]fwk.NodeInfo, len(s.slots))
	for i, sl := range s.slots {
		nodes[i] = sl.nodeInfo()
	}
	p := t.info.Pod
	cy := s.c.begin(p, nodes)
	var passed []fwk.NodeInfo
	for i, sl := range s.slots {
		full := s.c.rules.resources && room(sl.allocatable, sl.pods, &sl.used, &t.asks, s.c.rules.ignoreScalars) == 0
		if !sl.closed && !full && cy.filter(nodes[i]) == nil && s.attaches(sl, p) {
			passed = append(passed, nodes[i])
		}
	}
	if len(passed) == 0 {
		return -1
	}
	scored := s.c.scores(cy.state, p, passed)
	best := -1
	var most int64
	var rank uint64
	for _, n := range scored {
		i := s.position[n.Name]
		at := mix(s.slots[i].hash, hash)
		if best < 0 || n.TotalScore > most || n.TotalScore == most && (at < rank || at == rank && n.Name < s.slots[best].name) {
			best, most, rank = i, n.TotalScore, at
		}
	}
	return best
}

// scores runs the plugins that score; where one fails, there are none.
func (c *Checker) scores(state fwk.CycleState, p *v1.Pod, nodes []fwk.NodeInfo) []fwk.NodePluginScores {
	if status := c.fw.RunPreScorePlugins(c.quiet, state, p, nodes); !status.IsSuccess() {
		return nil
	}
	scored, status := c.fw.RunScorePlugins(c.quiet, state, p, nodes)
	if !status.IsSuccess() {
		return nil
	}
	return scored
}
