package replica

import (
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/podhealth"
)

// A smaller size counts until all is known to be done for it, and has been for so long that the pods show it; or for
// as long as that does not show.
func TestSmallerSizesCountUntilTheyAreActedOn(t *testing.T) {
	type step struct {
		after time.Duration
		size  int32
		acted int32 // on all sizes of so many replicas at least
		want  int32 // that stay; 0 for all
		left  time.Duration
	}
	const all, none = 0, 100
	for name, steps := range map[string][]step{
		"at the beginning": {{size: 5, acted: none}},
		"more":             {{size: 5}, {size: 9, acted: none}},
		"fewer":            {{size: 9}, {size: 5, acted: none}},
		"more again": {{size: 9}, {size: 5, acted: none}, {after: patience - 2, size: 9, acted: none, want: 5, left: 2},
			{after: 2, size: 9, acted: none}},
		"it is acted on": {{size: 9}, {size: 5, acted: none}, {after: 1, size: 5, acted: all}, {after: lag, size: 5, acted: all},
			{size: 9, acted: all}},
		"that may be old": {
			{size: 9}, {size: 5, acted: none}, {after: lag, size: 5, acted: all}, {size: 9, acted: all, want: 5, left: lag},
			{after: lag - 1, size: 9, acted: all, want: 5, left: 1}, {after: 1, size: 9, acted: all},
		},
		"and then it is not": {
			{size: 9}, {size: 5, acted: all}, {after: lag - 1, size: 9, acted: none, want: 5, left: patience - lag + 1},
			{after: 1, size: 9, acted: all, want: 5, left: lag}, {after: lag, size: 9, acted: all},
		},
		"more than once": {
			{size: 9}, {size: 5, acted: none}, {after: 1, size: 8, acted: none, want: 5, left: patience - 1},
			{after: 1, size: 7, acted: none, want: 5, left: patience - 2},
			{size: 9, acted: none, want: 5, left: patience - 2}, {after: patience - 2, size: 9, acted: none, want: 7, left: 2},
			{after: 2, size: 9, acted: none},
		},
		"one of them is": {
			{size: 9}, {size: 7, acted: none}, {size: 5, acted: none}, {size: 9, acted: 7, want: 5, left: lag},
			{after: lag, size: 9, acted: 7, want: 5, left: patience - lag},
		},
	} {
		var s Sizes
		timer := podhealth.Timer{Now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
		for i, step := range steps {
			timer = podhealth.Timer{Now: timer.Now.Add(step.after)}
			s.Read(step.size, func(smaller int32) bool { return smaller >= step.acted }, timer.Now)
			staying := ptr.Deref(s.Staying(&timer), 0)
			left := time.Duration(0)
			if !timer.Next.IsZero() {
				left = timer.Next.Sub(timer.Now)
			}
			if staying != step.want || left != step.left {
				t.Errorf("%s: step %d: %d stay for %v, want %d for %v", name, i, staying, left, step.want, step.left)
			}
		}
	}
}
