package apportion

import (
	"fmt"
	"slices"
	"testing"
)

// loop is a controller with its cluster: each target can truly run so many, and the controller
// learns of it only while something hangs.
type loop struct {
	request Request
	truly   []int64
	written []int64
	probe   int64
}

// round observes, plans and writes.
func (l *loop) round() {
	r := changed(l.request, func(r *Request) {
		for i := range r.Targets {
			runs := min(l.written[i], l.truly[i])
			r.Targets[i].Current = runs
			r.Targets[i].Capacity = nil
			if l.written[i] > runs {
				r.Targets[i].Capacity = new(runs)
			}
		}
	})
	for i, a := range must(r).Targets {
		l.written[i] = a.Replicas
		if a.Reason == ReasonCapacity && a.Pending == 0 {
			l.written[i] = min(a.Replicas+l.probe, maxOf(r.Targets[i]))
		}
	}
}

// Plan, let the cluster answer, plan again: with relief Any and a probe where a capacity holds a
// target, what is written settles soon.
func TestClosedLoopSettles(t *testing.T) {
	forAll(t, propertyCases, func(d dice) error {
		l := loop{request: d.request(40), probe: int64(1 + d(2))}
		l.request.Relief = Any
		blocked := 0
		for _, target := range l.request.Targets {
			truly := MaxReplicas
			if d(2) == 0 {
				truly = int64(d(16))
				blocked++
			}
			l.truly = append(l.truly, truly)
			l.written = append(l.written, min(target.Current, truly))
		}
		limit := blocked + 1
		if stays(l.request) {
			limit++
		}
		var history [][]int64
		for range limit + 1 {
			l.round()
			history = append(history, slices.Clone(l.written))
		}
		for range 2 {
			l.round()
			if !slices.Equal(l.written, history[limit]) {
				return fmt.Errorf("%s, truly %v: %v, then %v", describe(l.request), l.truly, history, l.written)
			}
		}
		return nil
	})
}
