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
	known   map[string][]layout
	packed  int // estimates that were computed, not remembered
}

// New makes an Estimator on a cluster that stays as it is meanwhile.
func New(cluster *predicates.Cluster) *Estimator {
	return &Estimator{cluster: cluster, pods: make(map[*v1.Pod]uint64), known: make(map[string][]layout)}
}

// Estimate packs the pods of a request on at most limit new nodes: first fit, the largest pods first.
// It does not change the cluster. Answers to requests with a Class are remembered: the same class, the
// same pods (the same pointers) and counts are packed once, in most cases also under different limits.
// The answer may be shared; it is not to be changed.
func (e *Estimator) Estimate(r Request, limit int) (Estimation, error) {
	if err := r.validate(); err != nil {
		return Estimation{}, err
	}
	limit = max(limit, 0)
	key := e.key(r)
	for _, l := range e.known[key] {
		if answer, holds := l.under(limit); holds {
			return answer, nil
		}
	}
	bound, cuts := limit, separable(r)
	if last := len(e.known[key]) - 1; cuts && last >= 0 {
		bound = max(limit, min(e.known[key][last].bound, NoLimit/2)*2) // many limits take few packings
	}
	e.packed++
	l, err := pack(e.cluster, r, bound)
	if err != nil {
		return Estimation{}, err
	}
	if l.cuts = cuts; r.Class != "" {
		e.known[key] = append(e.known[key], l)
	}
	answer, _ := l.under(limit)
	return answer, nil
}

// key spells out everything but the limit that an answer depends on.
func (e *Estimator) key(r Request) string {
	if r.Class == "" {
		return ""
	}
	key := append(binary.AppendUvarint(nil, uint64(len(r.Class))), r.Class...)
	for _, d := range r.Demands {
		id, seen := e.pods[d.Pod]
		if !seen {
			id = uint64(len(e.pods))
			e.pods[d.Pod] = id
		}
		key = binary.AppendVarint(binary.AppendUvarint(key, id), int64(d.Count))
	}
	return string(key)
}
