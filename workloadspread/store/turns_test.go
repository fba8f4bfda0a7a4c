package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// A process with many clients that write all the time lets others have their turn.
func TestABusyProcessLetsOthersWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		busy, other := New(s, s, nil), New(s, s, nil)
		ctx, stop := context.WithCancel(t.Context())
		var clients sync.WaitGroup
		for range 50 {
			clients.Go(func() {
				for ctx.Err() == nil {
					_, err := busy.Update(ctx, key, increment)
					if err != nil && ctx.Err() == nil {
						t.Error(err)
					}
				}
			})
		}
		var slowest time.Duration
		for range 200 {
			begin := time.Now()
			if _, err := other.Update(ctx, key, increment); err != nil {
				t.Error(err)
			}
			slowest = max(slowest, time.Since(begin))
		}
		stop()
		clients.Wait()
		time.Sleep(time.Second) //nolint:forbidigo // in the bubble's time: the store notices that they have left
		if slowest > 3*time.Second {
			t.Errorf("the slowest took %s", slowest)
		}
		t.Log("the slowest took", slowest)
	})
}

// Processes that have something to write all the time, and read something first, let each other have their turn however slow the
// API server is.
func TestNoProcessIsStarved(t *testing.T) {
	for _, mean := range []time.Duration{time.Millisecond, 10 * time.Millisecond, 100 * time.Millisecond} {
		t.Run(mean.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, dice := newServer(t), &dice{Rand: rand.New(rand.NewPCG(0, 0))}
				s.latency = func() time.Duration { return time.Duration(dice.exponential() * float64(mean) / 2) }
				waits := make([][]time.Duration, 2)
				var processes sync.WaitGroup
				for i := range waits {
					client := &reader{Client: s, server: s}
					store := New(s, client, nil)
					processes.Go(func() {
						for range 1000 {
							begin := time.Now()
							if _, err := store.Update(t.Context(), key, client.increment); err != nil {
								t.Error(err)
							}
							waits[i] = append(waits[i], time.Since(begin))
						}
					})
				}
				processes.Wait()
				all := slices.Sorted(slices.Values(slices.Concat(waits...)))
				if got := all[len(all)*99/100]; got > 18*mean {
					t.Errorf("one of a hundred took more than %s", got)
				}
			})
		})
	}
}

// A round that is repeated after a conflict has what was read for it, and leaves what has come since to the next one, which
// reads again.
func TestFactsAreReadAfterTheRequestsOfARound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		store := New(s, s, nil)
		var rounds []string
		decide := func(id string) Decide {
			return func(o *v1alpha1.WorkloadSpread, round *Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
				if round.Facts == nil {
					round.Facts = id
				}
				rounds = append(rounds, fmt.Sprintf("%s by %s, live %t", id, round.Facts, round.Live))
				return increment(o, round)
			}
		}
		var done sync.WaitGroup
		update := func(id string) {
			done.Go(func() {
				if _, err := store.Update(t.Context(), key, decide(id)); err != nil {
					t.Error(err)
				}
			})
		}
		conflicts := []error{errConflict, errConflict}
		s.before = func() (err error) {
			if len(conflicts) > 0 {
				if err, conflicts = conflicts[0], conflicts[1:]; len(conflicts) == 0 {
					update("b")
				}
			}
			return err
		}
		update("a")
		done.Wait()
		want := []string{"a by a, live false", "a by a, live true", "a by a, live true", "b by b, live false"}
		if !slices.Equal(rounds, want) {
			t.Errorf("%q", rounds)
		}
	})
}

// reader is the client of a process whose decisions read something, once in a round. That passes the time when the status is
// written: a decision holds a lock, which stops the time of the bubble.
type reader struct {
	client.Client
	server *server
	read   atomic.Bool
}

func (r *reader) increment(o *v1alpha1.WorkloadSpread, round *Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
	if round.Facts == nil {
		round.Facts = true
		r.read.Store(true)
	}
	return increment(o, round)
}

func (r *reader) Status() client.SubResourceWriter {
	if r.read.Swap(false) {
		time.Sleep(r.server.latency() + r.server.latency()) //nolint:forbidigo // in the bubble's time
	}
	return r.Client.Status()
}
