package deferral_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/deferral"
)

const limit = 10 * time.Minute

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func Example() {
	waits := deferral.New(10 * time.Minute)
	now := time.Date(2026, 1, 1, 8, 0, 0, 0, time.UTC)
	waits.Offer([]string{"node-1"}, now)
	fmt.Println("begins:", waits.Defer("node-1", now, now))

	// For nine minutes others are offered.
	now = now.Add(9 * time.Minute)
	waits.Offer([]string{"node-2"}, now)
	now = now.Add(time.Minute)
	waits.Offer([]string{"node-1"}, now)
	fmt.Println("overdue:", waits.Overdue("node-1", now))
	// Output:
	// begins: true
	// overdue: true
}

func TestWaits(t *testing.T) {
	w := deferral.New(limit)
	at := start.Add
	if w.Overdue("a", at(time.Hour)) || !w.Since("a").IsZero() {
		t.Error("a node that was never deferred waits")
	}
	if !w.Defer("a", at(0), at(0)) || w.Defer("a", at(time.Minute), at(time.Minute)) {
		t.Error("a wait does not begin exactly once")
	}
	if w.Overdue("a", at(limit-1)) || !w.Overdue("a", at(limit)) {
		t.Error("the limit does not end the wait")
	}
	w.Offer([]string{"b"}, at(limit))
	if w.Since("a") != at(0) {
		t.Error("a node that was not offered for exactly the limit is forgotten")
	}
	w.Offer([]string{"a"}, at(limit))
	w.Offer(nil, at(2*limit))
	if w.Since("a") != at(0) {
		t.Error("an offer does not renew the memory of a node")
	}
	w.Offer([]string{"b"}, at(2*limit+1))
	if !w.Since("a").IsZero() {
		t.Error("a node is remembered longer than the limit")
	}
}

// Where an autoscaler looks less often than the limit, a node that it offers each time waits once.
func TestALoopMayTakeLongerThanTheLimit(t *testing.T) {
	w := deferral.New(limit)
	for i := range 3 {
		now := start.Add(time.Duration(i) * (limit + time.Minute))
		w.Offer([]string{"a"}, now)
		if got, want := w.Overdue("a", now), i > 0; got != want {
			t.Errorf("overdue at the offer %d: %t, want %t", i, got, want)
		}
		if i == 0 {
			w.Defer("a", now, now)
		}
	}
	w.Offer([]string{"b"}, start.Add(4*limit))
	w.Offer([]string{"a"}, start.Add(5*limit))
	if !w.Since("a").IsZero() {
		t.Error("a node that was passed over is remembered longer than the limit")
	}
}

func TestANodeThatIsNeededIsForgotten(t *testing.T) {
	w := deferral.New(limit)
	w.Defer("a", start, start)
	w.Forget("a")
	if !w.Since("a").IsZero() || w.Overdue("a", start.Add(time.Hour)) {
		t.Error("a node that is needed again still waits")
	}
}

func TestAWaitMayHaveBegunBefore(t *testing.T) {
	w := deferral.New(limit)
	w.Defer("a", start.Add(-time.Hour), start)
	if !w.Overdue("a", start) {
		t.Error("a wait that began an hour ago is not overdue")
	}
	w.Offer(nil, start.Add(limit))
	if w.Since("a").IsZero() {
		t.Error("memory counts from the beginning of the wait, not from when the node was offered last")
	}
}

func TestWithoutALimitNothingWaits(t *testing.T) {
	if !deferral.New(0).Overdue("a", start) {
		t.Error("a node waits")
	}
}

func TestLimit(t *testing.T) {
	for name, c := range map[string]struct {
		given *time.Duration
		want  time.Duration
		fails bool
	}{
		"nothing is the default": {nil, deferral.Default, false},
		"0 is no deferral":       {new(time.Duration), 0, false},
		"a minute":               {ptrTo(time.Minute), time.Minute, false},
		"less than nothing":      {ptrTo(-time.Second), 0, true},
	} {
		if got, err := deferral.Limit(c.given); got != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func ptrTo(d time.Duration) *time.Duration { return &d }

// TestEveryOfferedNodeIsOverdueInTime hands in another random share of the idle nodes in every
// loop, as an autoscaler does whose group must keep some of them. Whatever the order, a node that
// is offered again within the limit goes no later than with the first offer after its limit.
func TestEveryOfferedNodeIsOverdueInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := deferral.New(limit)
		nodes := []string{"a", "b", "c", "d"}
		since, last := map[string]time.Time{}, map[string]time.Time{}
		now := start
		for range rapid.IntRange(1, 200).Draw(t, "loops") {
			now = now.Add(time.Duration(rapid.IntRange(1, 300).Draw(t, "seconds")) * time.Second)
			offered := rapid.SliceOfNDistinct(rapid.SampledFrom(nodes), 0, len(nodes), rapid.ID[string]).Draw(t, "offered")
			w.Offer(offered, now)
			for _, name := range offered {
				if at, seen := last[name]; seen && now.Sub(at) > limit {
					delete(since, name) // it was forgotten
				}
				last[name] = now
				_, waits := since[name]
				if got, want := w.Overdue(name, now), waits && now.Sub(since[name]) >= limit; got != want {
					t.Fatalf("%s overdue %t at %s, want %t: it waits since %s", name, got, now, want, since[name])
				}
				if began := w.Defer(name, now, now); began != !waits {
					t.Fatalf("the wait of %s begins: %t, want %t", name, began, !waits)
				}
				if !waits {
					since[name] = now
				}
			}
		}
	})
}
