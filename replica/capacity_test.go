package replica

import (
	"fmt"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/podhealth"
)

// story is a health in the words of a test: times are given by how long ago they are.
type story struct {
	size, running, notStarted int32
	capacity                  int32 // negative for none
	fine                      *time.Duration
}

func (s story) health() Health {
	h := Health{Size: s.size, Running: s.running, NotStarted: s.notStarted}
	if s.capacity >= 0 {
		h.Capacity, h.BlockedSince = &s.capacity, podhealth.Stamp(noon.Add(-time.Hour))
	}
	if s.fine != nil {
		h.FineSince = podhealth.Stamp(noon.Add(-*s.fine))
	}
	return h
}

func TestLearn(t *testing.T) {
	starting := &Target{Now: Health{Size: 5, Running: 3}}
	failing := &Target{Now: Health{Size: 5, Running: 3, NotStarted: 2}}
	for name, c := range map[string]struct {
		before, now story
		other       *Target
		want        string        // capacity, and for how long it has been fine
		next        time.Duration // after noon; 0 for never
	}{
		"nothing to learn":        {before: story{10, 10, 0, -1, nil}, now: story{10, 10, 0, -1, nil}, want: "none"},
		"some are starting":       {before: story{10, 10, 0, -1, nil}, now: story{10, 6, 0, -1, nil}, want: "none"},
		"some have not started":   {before: story{10, 10, 0, -1, nil}, now: story{10, 6, 4, -1, nil}, want: "6"},
		"more have not started":   {before: story{10, 6, 4, 6, nil}, now: story{10, 4, 6, -1, nil}, want: "4"},
		"some are starting again": {before: story{10, 6, 4, 6, nil}, now: story{10, 6, 0, -1, nil}, want: "6"},
		"all run":                 {before: story{10, 6, 4, 6, nil}, now: story{10, 10, 0, -1, nil}, want: "6, fine for 0s", next: stable},
		"all have run": {before: story{10, 10, 0, 6, new(time.Minute)}, now: story{10, 10, 0, -1, nil}, want: "6, fine for 1m0s",
			next: stable - time.Minute},
		"all have run for long": {before: story{10, 10, 0, 6, new(stable)}, now: story{10, 10, 0, -1, nil}, want: "none"},
		"one failed meanwhile":  {before: story{10, 10, 0, 6, new(stable)}, now: story{10, 9, 0, -1, nil}, want: "6"},
		"one is added":          {before: story{10, 10, 0, 6, new(stable)}, now: story{11, 11, 0, -1, nil}, want: "none"},
		"some more run":         {before: story{10, 6, 4, 6, nil}, now: story{10, 8, 2, -1, nil}, want: "6, fine for 0s", next: stable},
		"some more have run":    {before: story{10, 8, 2, 6, new(stable)}, now: story{10, 8, 2, -1, nil}, want: "8"},
		"scaled to zero":        {before: story{10, 6, 4, 6, new(stable)}, now: story{0, 0, 0, -1, nil}, want: "6, fine for 0s", next: stable},
		"another is starting": {before: story{10, 10, 0, 6, new(stable)}, now: story{10, 10, 0, -1, nil}, other: starting,
			want: "6, fine for 5m0s"},
		"another has not started": {before: story{10, 10, 0, 6, new(stable)}, now: story{10, 10, 0, -1, nil}, other: failing,
			want: "6, fine for 5m0s", next: 1},
		"a pinned one is starting": {
			before: story{10, 10, 0, 6, new(stable)}, now: story{10, 10, 0, -1, nil}, other: &Target{Now: starting.Now, Pinned: true}, want: "none",
		},
	} {
		t.Run(name, func(t *testing.T) {
			timer := podhealth.Timer{Now: noon}
			target := &Target{Before: c.before.health(), Now: c.now.health()}
			targets := []*Target{target}
			if c.other != nil {
				other := *c.other
				targets = append(targets, &other)
			}
			Learn(targets, stable, &timer)
			if got := told(target.Now); got != c.want {
				t.Errorf("capacity %s, want %s", got, c.want)
			}
			if c.next == 0 && !timer.Next.IsZero() || c.next > 0 && timer.Next.Sub(noon) != c.next {
				t.Errorf("next %v, want %v", timer.Next.Sub(noon), c.next)
			}
		})
	}
}

// told is what is known of a capacity, in words.
func told(h Health) string {
	switch {
	case h.Capacity == nil && h.BlockedSince == nil && h.FineSince == nil:
		return "none"
	case h.FineSince != nil:
		return fmt.Sprintf("%d, fine for %s", *h.Capacity, noon.Sub(h.FineSince.Time))
	}
	return fmt.Sprint(*h.Capacity)
}

// What is known about a pinned target stays, without a fallback everything is forgotten.
func TestLearnNothing(t *testing.T) {
	before := story{10, 6, 4, 6, new(time.Minute)}.health()
	target := &Target{Before: before, Now: Health{Size: 10, Running: 10}, Pinned: true}
	Learn([]*Target{target}, stable, &podhealth.Timer{Now: noon})
	if got := told(target.Now); got != "6, fine for 1m0s" {
		t.Errorf("pinned: %s", got)
	}
	target.Now.NotStarted = 3
	Learn([]*Target{target}, 0, &podhealth.Timer{Now: noon})
	if got := told(target.Now); got != "none" || target.Now.NotStarted != 0 {
		t.Errorf("without a fallback: %s, %+v", got, target.Now)
	}
}

// Times in the future are those of a clock that was set back.
func TestLearnWithTimesInTheFuture(t *testing.T) {
	before := story{10, 10, 0, 6, new(-time.Hour)}.health()
	target := &Target{Before: before, Now: Health{Size: 10, Running: 10}}
	Learn([]*Target{target}, stable, &podhealth.Timer{Now: noon})
	if got := told(target.Now); got != "6, fine for 0s" {
		t.Error(got)
	}
}

func TestLimit(t *testing.T) {
	for name, c := range map[string]struct {
		health story
		want   string // capacity, current, taken
	}{
		"nothing known":      {story{10, 10, 0, -1, nil}, "- 10 -"},
		"all that it has":    {story{10, 6, 4, 6, nil}, "6 6 6"},
		"more than it has":   {story{4, 4, 0, 6, nil}, "6 4 4"},
		"nothing runs there": {story{4, 0, 4, 0, nil}, "0 0 0"},
	} {
		var target apportion.Target
		(&Target{Now: c.health.health()}).Limit(&target)
		text := func(n *int64) string {
			if n == nil {
				return "-"
			}
			return fmt.Sprint(*n)
		}
		if got := fmt.Sprintf("%s %d %s", text(target.Capacity), target.Current, text(target.Taken)); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func TestPending(t *testing.T) {
	blocked := story{10, 6, 4, 6, nil}.health()
	held := func(replicas, pending int64) apportion.TargetResult {
		return apportion.TargetResult{Replicas: replicas, Pending: pending, Reason: apportion.ReasonCapacity}
	}
	for name, c := range map[string]struct {
		health   Health
		target   apportion.Target
		result   apportion.TargetResult
		unplaced int64
		want     int64
	}{
		"nothing is limited": {Health{Size: 10}, apportion.Target{},
			apportion.TargetResult{Replicas: 10, Reason: apportion.ReasonWeight}, 0, 0},
		"its share is pending":        {blocked, apportion.Target{}, held(10, 4), 0, 4},
		"a probe":                     {blocked, apportion.Target{}, held(6, 0), 0, 1},
		"no probe beyond the maximum": {blocked, apportion.Target{Max: new(int64(6))}, held(6, 0), 0, 0},
		"no probe at the maximum": {blocked, apportion.Target{Max: new(int64(6))},
			apportion.TargetResult{Replicas: 6, Reason: apportion.ReasonMax}, 0, 0},
		"those without another place":  {blocked, apportion.Target{}, held(6, 0), 3, 3},
		"no more than it has":          {blocked, apportion.Target{}, held(6, 0), 9, 4},
		"no more than its maximum":     {blocked, apportion.Target{Max: new(int64(8))}, held(6, 0), 9, 2},
		"none of a target of weight 0": {blocked, apportion.Target{Weight: new(int64(0))}, held(6, 0), 9, 1},
	} {
		if got := waiting(c.health, c.target, c.result, c.unplaced, 1); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// A larger probe waits as far as the maximum allows, and no longer than the capacity holds the
// target back.
func TestProbe(t *testing.T) {
	h := Health{Size: 10, Running: 6, Capacity: new(int32(6))}
	held := apportion.TargetResult{Replicas: 6, Reason: apportion.ReasonCapacity}
	for name, c := range map[string]struct {
		result     apportion.TargetResult
		max        int64
		probe      int64
		want, lost int64
	}{
		"one":                   {held, 50, 1, 1, 0},
		"a couple":              {held, 50, 2, 2, 0},
		"the maximum":           {held, 7, 2, 1, 0},
		"nothing holds it":      {apportion.TargetResult{Replicas: 6, Reason: apportion.ReasonWeight}, 50, 2, 0, 0},
		"more is pending":       {apportion.TargetResult{Replicas: 9, Pending: 3, Reason: apportion.ReasonCapacity}, 50, 2, 3, 0},
		"no place elsewhere":    {held, 50, 2, 4, 7},
		"a part has no place":   {held, 50, 2, 3, 3},
		"not above the maximum": {held, 8, 2, 2, 7},
	} {
		if got := waiting(h, apportion.Target{Max: &c.max}, c.result, c.lost, c.probe); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}

// waiting is how many replicas wait on a target that is assigned a result.
func waiting(h Health, in apportion.Target, r apportion.TargetResult, unplaced, probe int64) int64 {
	target := Target{Now: h}
	target.Assign(in, r, r, unplaced, probe)
	return int64(target.Pending)
}
