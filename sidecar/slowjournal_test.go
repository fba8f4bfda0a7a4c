package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/sidecar"
)

// slowJournal is a journal behind an API server that takes its time, with the requests of the real
// one: the lease is read before the text is written, and what is stored must be known.
type slowJournal struct {
	memoryJournal
	takes    func(request int) time.Duration
	requests int
	unknown  bool // what is stored
}

// request waits for an answer. What was sent has effect even if nobody waits any longer.
func (j *slowJournal) request(ctx context.Context) error {
	j.requests++
	timer := clock.RealClock{}.NewTimer(j.takes(j.requests))
	defer timer.Stop()
	select {
	case <-timer.C():
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (j *slowJournal) Load(ctx context.Context) ([]byte, error) {
	j.unknown = true
	for range 3 {
		if err := j.request(ctx); err != nil {
			return nil, err
		}
	}
	j.unknown = false
	return j.memoryJournal.Load(ctx)
}

func (j *slowJournal) Save(ctx context.Context, text []byte) error {
	if err := j.request(ctx); err != nil {
		return err
	}
	if j.unknown {
		return errors.New("what is stored is not known")
	}
	err := j.request(ctx)
	j.unknown = err != nil
	return errors.Join(err, j.memoryJournal.Save(ctx, text))
}

// playSlowly plays a world in which calls take time, and returns the sizes at the end, how many
// nodes were ordered in all, and when it came to rest.
func playSlowly(t *testing.T, s setup, journal sidecar.Journal) (sizes []int, ordered int, took time.Duration) {
	t.Helper()
	cloud, err := fake.New(s.cloud, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	front, err := sidecar.New(cloud, sidecar.Options{Journal: journal, Nodes: nodesOf{cloud}})
	if err != nil {
		t.Fatal(err)
	}
	ca := newCluster(t, clusterConfig{
		clock: clock.RealClock{}, cloud: cloud, batches: append([]batch{fill(s.cloud.Groups)}, s.batches...), ca: s.ca,
		connect: always(autoscaler.Connection{Provider: front, Expander: front}),
	})
	began := clock.RealClock{}.Now()
	ca.Settle(time.Hour)
	took = clock.RealClock{}.Since(began)
	if err := front.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
	state := ca.State()
	if state.Pending > 0 {
		t.Errorf("%d pods are pending\n%v", state.Pending, ca.changes)
	}
	for _, c := range cloud.Calls() {
		if c.Method == fake.MethodIncreaseSize && c.Error == "" {
			ordered += c.Delta
		}
	}
	if t.Failed() {
		t.Log(front.Status().Decisions)
	}
	return state.Sizes(), ordered, took
}

// A journal that is slow, or cannot be written for a while, costs a loop or two and no balance.
func TestTheJournalIsSlow(t *testing.T) {
	const ms = time.Millisecond
	always := func(d time.Duration) func(int) time.Duration { return func(int) time.Duration { return d } }
	once := func(at int, d time.Duration) func(int) time.Duration {
		return func(request int) time.Duration {
			if request == at {
				return d
			}
			return 20 * ms
		}
	}
	tests := map[string]func(int) time.Duration{
		"0.6 s a request": always(600 * ms),
		"0.8 s a request": always(800 * ms),
		"every third request 1.6 s": func(request int) time.Duration {
			if request%3 == 0 {
				return 1600 * ms
			}
			return 20 * ms
		},
	}
	for request := range 12 {
		tests[fmt.Sprintf("request %d is not answered", request+1)] = once(request+1, time.Minute)
	}
	for name, takes := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if sizes, ordered, _ := playSlowly(t, ten(), &slowJournal{takes: takes}); !slices.Equal(sizes, []int{10, 10, 10}) || ordered != 30 {
					t.Errorf("sizes %v, %d nodes ordered", sizes, ordered)
				}
			})
			synctest.Test(t, func(t *testing.T) {
				s := setup{cloud: fake.Config{Groups: zones(0, 0, 0)}, batches: []batch{{At: 3 * time.Second, Pods: spreadPods("p", 30)}}}
				if sizes, ordered, _ := playSlowly(t, s, &slowJournal{takes: takes}); !slices.Equal(sizes, []int{5, 5, 5}) || ordered != 15 {
					t.Errorf("spread pods: sizes %v, %d nodes ordered", sizes, ordered)
				}
			})
		})
	}
}

// Without an answer of the API server the pods get their nodes all the same, a few loops later.
func TestTheJournalIsNeverWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := &slowJournal{takes: func(int) time.Duration { return time.Hour }}
		if sizes, ordered, took := playSlowly(t, ten(), journal); ordered != 30 || took > 3*time.Minute {
			t.Errorf("sizes %v, %d nodes ordered, at rest after %s", sizes, ordered, took)
		}
	})
}
