package estimator

import (
	"slices"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/predicates"
)

// Workload is the pending pods by kind, with what a pod of each kind requests.
type Workload struct {
	kinds    []predicates.Kind
	requests []expander.Requests
}

// NewWorkload measures the kinds once for all options.
func NewWorkload(kinds []predicates.Kind) Workload {
	w := Workload{kinds: kinds, requests: make([]expander.Requests, len(kinds))}
	for i, k := range kinds {
		w.requests[i] = expander.RequestsOf(k.Pod)
	}
	return w
}

// Demands asks for places for all pods of the given kinds.
func (w Workload) Demands(kinds ...int) []Demand {
	demands := make([]Demand, len(kinds))
	for i, k := range kinds {
		demands[i] = Demand{Kind: k, Pod: w.kinds[k].Pod, Count: len(w.kinds[k].Pods), requests: &w.requests[k]}
	}
	return demands
}

// Option makes the option of a group from what was estimated for it: NodeCount,
// Pods and Requested. The rest is left to the caller. Of a kind of which only
// some pods found a place, the first ones in pending order are taken.
func (w Workload) Option(group string, phases []Phase, e Estimation) expander.Option {
	placed := make(map[int]int)
	for i, phase := range phases {
		for j, d := range phase.Demands {
			placed[d.Kind] += e.Phases[i].Placed[j].Count
		}
	}
	o := expander.Option{Group: group, Members: []string{group}, NodeCount: e.NodeCount}
	for k := range w.kinds {
		n := min(placed[k], len(w.kinds[k].Pods))
		if n == 0 {
			continue
		}
		o.Pods = append(o.Pods, expander.Share{Kind: k, Pods: slices.Clip(w.kinds[k].Pods[:n])})
		o.Requested = o.Requested.Plus(n, w.requests[k])
	}
	return o
}
