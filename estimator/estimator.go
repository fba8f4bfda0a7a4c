package estimator

import (
	"encoding/binary"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/predicates"
)

// Estimator estimates many options on one cluster and works out only once what
// equals for several of them. It must not be used from several goroutines at once.
type Estimator struct {
	cluster *predicates.Cluster
	pods    map[*v1.Pod]uint64 // pods seen, numbered
	answers map[string][]answer
	layouts map[string]layout // of separable demands
	packed  int               // estimates that were computed, not remembered
}

// answer is an estimation and the bounds it was made under.
type answer struct {
	Estimation
	bounds []int // the limit, then MaxNodes of every phase
}

// New makes an Estimator on a cluster that stays as it is meanwhile.
func New(cluster *predicates.Cluster) *Estimator {
	return &Estimator{
		cluster: cluster,
		pods:    make(map[*v1.Pod]uint64),
		answers: make(map[string][]answer),
		layouts: make(map[string]layout),
	}
}

// Estimate packs the pods of the phases, one phase after the other, on at most
// limit new nodes in all: first fit, the largest pods first. It does not change
// the cluster. Phases whose templates all have a Shape are remembered: the same shapes, the same pods (the same
// pointers) and counts are packed once, in most cases also under different
// bounds. The answer may be shared; it is not to be changed.
func (e *Estimator) Estimate(phases []Phase, limit int) (Estimation, error) {
	if err := validate(phases); err != nil {
		return Estimation{}, err
	}
	key, ok := e.key(phases)
	if !ok {
		l, err := e.pack(phases, limit)
		return l.Estimation, err
	}
	if l, known := e.layouts[key]; known {
		return e.fromLayout(key, l, phases, limit)
	}
	bounds := boundsOf(phases, limit)
	for _, a := range e.answers[key] {
		if a.holds(bounds) {
			return a.Estimation, nil
		}
	}
	l, err := e.pack(phases, limit)
	if err != nil {
		return Estimation{}, err
	}
	if len(phases) == 1 && separable(phases[0]) {
		e.layouts[key] = l
	} else {
		e.answers[key] = append(e.answers[key], answer{l.Estimation, bounds})
	}
	return l.Estimation, nil
}

// fromLayout cuts the known layout down to the bound. One that is too small is
// made at least twice as large, so that many bounds take few packings.
func (e *Estimator) fromLayout(key string, l layout, phases []Phase, limit int) (Estimation, error) {
	bound := boundOf(phases[0], limit)
	if bound > l.bound && l.Limited() {
		larger := []Phase{phases[0]}
		larger[0].MaxNodes = max(bound, min(l.bound, NoLimit/2)*2)
		var err error
		if l, err = e.pack(larger, NoLimit); err != nil {
			return Estimation{}, err
		}
		e.layouts[key] = l
	}
	return l.cut(bound), nil
}

func (e *Estimator) pack(phases []Phase, limit int) (layout, error) {
	e.packed++
	return pack(e.cluster, phases, limit)
}

func boundsOf(phases []Phase, limit int) []int {
	bounds := []int{limit}
	for _, phase := range phases {
		bounds = append(bounds, phase.MaxNodes)
	}
	return bounds
}

// boundOf is the number of nodes a single phase may open.
func boundOf(phase Phase, limit int) int { return max(0, min(limit, phase.MaxNodes)) }

// holds reports whether the answer is the same under other bounds. Packing looks
// at a bound only when it runs into it: an answer that no bound has shaped
// holds wherever its nodes have room.
func (a answer) holds(bounds []int) bool {
	same, room := true, a.NodeCount <= bounds[0]
	for i, b := range bounds {
		same = same && b == a.bounds[i]
		room = room && (i == 0 || a.Phases[i-1].NodeCount <= b)
	}
	return same || room && !a.Limited()
}

// key spells out everything but the bounds that an answer depends on.
func (e *Estimator) key(phases []Phase) (string, bool) {
	var key []byte
	number := func(n int) { key = binary.AppendVarint(key, int64(n)) }
	for _, phase := range phases {
		if phase.Shape == "" {
			return "", false
		}
		number(len(phase.Shape))
		key = append(key, phase.Shape...)
		number(len(phase.Reuse))
		for _, earlier := range phase.Reuse {
			number(earlier)
		}
		number(len(phase.Demands))
		for _, d := range phase.Demands {
			id, seen := e.pods[d.Pod]
			if !seen {
				id = uint64(len(e.pods))
				e.pods[d.Pod] = id
			}
			key = binary.AppendUvarint(key, id)
			number(d.Count)
		}
	}
	return string(key), true
}
