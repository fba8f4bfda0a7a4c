package sidecar_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/sidecar"
)

// Where Cluster Autoscaler does not hear the expander it increases a group by chance. It gets what
// the split has for that group and no more, whichever of the questions it is, and also where nobody
// waits any longer when the question is worked out.
func TestTheExpanderIsNotHeard(t *testing.T) {
	for _, question := range []int{1, 2, 3} {
		for seed := range uint64(6) {
			s := ten()
			s.seed = seed
			asked := 0
			s.fault = func(_ *harness, c caCall) callFault {
				if c.Method == autoscaler.MethodBestOptions {
					asked++
				}
				return callFault{Lost: c.Method == autoscaler.MethodBestOptions && asked == question}
			}
			w := newHarness(t, s)
			state := w.settle(time.Hour)
			if !slices.Equal(state.Sizes(), []int{10, 10, 10}) || state.Increases > 4 {
				t.Errorf("question %d, seed %d: sizes %v after %d increases\n%s", question, seed, state.Sizes(), state.Increases, w.log())
			}
		}
	}
}

// No answer of the expander ever arrives: the split is kept all the same.
func TestTheExpanderIsNeverHeard(t *testing.T) {
	for seed := range uint64(6) {
		s := ten()
		s.seed = seed
		s.fault = func(_ *harness, c caCall) callFault {
			return callFault{Lost: c.Method == autoscaler.MethodBestOptions}
		}
		w := newHarness(t, s)
		if state := w.settle(time.Hour); !slices.Equal(state.Sizes(), []int{10, 10, 10}) {
			t.Errorf("seed %d: sizes %v\n%s", seed, state.Sizes(), w.log())
		}
	}
}

// frozen is a chooser that gets its questions when their deadline is over, as a process that was
// stopped does.
type frozen struct {
	sidecar *sidecar.Sidecar
	when    func() bool
}

func (f frozen) BestOptions(ctx context.Context, request expander.Question) ([]string, error) {
	if !f.when() {
		return f.sidecar.BestOptions(ctx, request)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, _ = f.sidecar.BestOptions(ended, request)
	return nil, context.DeadlineExceeded
}

// The sidecar is stopped right after a question and goes on when Cluster Autoscaler has chosen by
// chance.
func TestTheSidecarIsFrozenDuringAQuestion(t *testing.T) {
	for _, question := range []int{1, 2, 3} {
		for seed := range uint64(6) {
			s := ten()
			s.seed = seed
			w := newHarness(t, s)
			asked := 0
			w.connect(s, func(process int) autoscaler.Connection {
				c := w.unasked(process)
				c.Expander = frozen{w.front.Sidecar, func() bool { asked++; return asked == question }}
				return c
			})
			if state := w.settle(time.Hour); !slices.Equal(state.Sizes(), []int{10, 10, 10}) {
				t.Errorf("question %d, seed %d: sizes %v\n%s", question, seed, state.Sizes(), w.log())
			}
		}
	}
}

// A question that never arrives at all leaves what the split that is under way has for the group.
func TestAQuestionDoesNotArrive(t *testing.T) {
	for _, question := range []int{2, 3} {
		for seed := range uint64(6) {
			s := ten()
			s.seed = seed
			asked := 0
			s.fault = func(_ *harness, c caCall) callFault {
				if c.Method == autoscaler.MethodBestOptions {
					asked++
				}
				return callFault{Unsent: c.Method == autoscaler.MethodBestOptions && asked == question}
			}
			w := newHarness(t, s)
			if state := w.settle(time.Hour); !slices.Equal(state.Sizes(), []int{10, 10, 10}) {
				t.Errorf("question %d, seed %d: sizes %v\n%s", question, seed, state.Sizes(), w.log())
			}
		}
	}
}

// An increase for which nobody waits any longer orders nothing: Cluster Autoscaler takes it for
// failed.
func TestAnIncreaseNobodyWaitsFor(t *testing.T) {
	w := newHarness(t, ten())
	if err := w.front.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := w.front.IncreaseSize(ended, "a", 30); err == nil {
		t.Error("no error")
	}
	if size, err := w.cloud.TargetSize(t.Context(), "a"); err != nil || size != 0 {
		t.Errorf("target size %d, %v", size, err)
	}
}

// deserted is a journal during whose writing the caller stops waiting.
type deserted struct {
	memoryJournal
	leave func()
}

func (j *deserted) Save(ctx context.Context, text []byte) error {
	j.leave()
	return j.memoryJournal.Save(ctx, text)
}

// So it is with one for which nobody waits any longer when the journal is written, also where a
// frozen process has only now come to it. The next question finds the whole need.
func TestAnIncreaseNobodyWaitsForAfterTheJournal(t *testing.T) {
	s := setup{cloud: fake.Config{Groups: zones(0, 0, 0)}}
	journal := &deserted{leave: func() {}}
	s.sidecar.Journal = journal
	w := newHarness(t, s)
	ctx := t.Context()
	ask := func() string {
		t.Helper()
		if err := w.front.Refresh(ctx); err != nil {
			t.Fatal(err)
		}
		picked, err := w.front.Sidecar.BestOptions(ctx, threeOptions(podsOf("p", 9, 1)))
		if err != nil || len(picked) != 1 {
			t.Fatalf("picked %v, error %v", picked, err)
		}
		return picked[0]
	}
	group := ask()
	ended, cancel := context.WithCancel(ctx)
	journal.leave = cancel
	_ = w.front.IncreaseSize(ended, group, 9) // nobody hears the answer
	if sizes := w.sizes(); total(sizes) != 0 {
		t.Fatalf("sizes %v after an increase nobody waits for\n%s", sizes, w.log())
	}
	journal.leave = func() {}
	if err := w.front.IncreaseSize(ctx, ask(), 9); err != nil {
		t.Fatal(err)
	}
	if sizes := w.sizes(); !slices.Equal(sorted(sizes), []int{0, 0, 3}) {
		t.Errorf("sizes %v, want 3 nodes in one group\n%s", sizes, w.log())
	}
}

// What is known of nodes on their way without a journal is what the cloud's target sizes tell. That
// is enough.
func TestTheJournalIsDeleted(t *testing.T) {
	for name, restart := range map[string]bool{"the sidecar runs on": false, "and the sidecar restarts": true} {
		t.Run(name, func(t *testing.T) {
			for grants := 1; grants <= 3; grants++ {
				s := ten()
				s.fault = after(grants, func(w *harness) {
					w.journal.text, w.journal.stale = nil, true
					if restart {
						w.restartSidecar()
					}
				})
				w := newHarness(t, s)
				if state := w.settle(time.Hour); !slices.Equal(state.Sizes(), []int{10, 10, 10}) || state.Pending > 0 {
					t.Errorf("after %d grants: sizes %v\n%s", grants, state.Sizes(), w.log())
				}
			}
		})
	}
}

// Before Cluster Autoscaler counts what it has asked for, it asks for the group's options. Where it
// does not hear those, it counts nothing, and the group is full: nothing else shows it.
func TestTheOptionsAfterAnIncreaseAreNotHeard(t *testing.T) {
	for _, full := range []string{"a", "b", "c"} {
		s := ten()
		for i := range s.cloud.Groups {
			if g := &s.cloud.Groups[i]; g.ID == full {
				g.MaxSize = 10
			}
		}
		increased, lost := false, false
		s.fault = func(_ *harness, c caCall) callFault {
			lose := increased && !lost && c.Method == fake.MethodOptions && c.Group == full
			increased = c.Method == fake.MethodIncreaseSize && c.Group == full
			lost = lost || lose
			return callFault{Lost: lose}
		}
		w := newHarness(t, s)
		if state := w.settle(time.Hour); !lost || !slices.Equal(state.Sizes(), []int{10, 10, 10}) {
			t.Errorf("%s is full: sizes %v, an answer was lost: %t\n%s", full, state.Sizes(), lost, w.log())
		}
	}
}

// Where Cluster Autoscaler does not hear the answer to an increase it backs the group off. Releases
// before 1.36 count the nodes on their way all the same, so the others get no fewer for them: pods
// run within the time-out of the call, and a loop per member, of when they do without a fault.
func TestBefore136WhatIsNotHeardIsCounted(t *testing.T) {
	for _, ca := range []autoscaler.Options{{Before136: true}, {Before136: true, Before135: true}} {
		undisturbed := ten()
		undisturbed.ca = ca
		least := newHarness(t, undisturbed).observe(10 * time.Minute)
		for n := range 3 {
			for _, restarts := range []bool{false, true} {
				s := ten()
				s.ca = ca
				increases, lost := 0, false
				s.fault = func(w *harness, c caCall) callFault {
					if lost && restarts {
						restarts = false
						w.restartSidecar()
					}
					if c.Method != fake.MethodIncreaseSize {
						return callFault{}
					}
					lost = increases == n
					increases++
					return callFault{Lost: lost}
				}
				o := newHarness(t, s).observe(10 * time.Minute)
				if !slices.Equal(o.sizes, []int{10, 10, 10}) || o.running == 0 || o.running > least.running+5*time.Second+3*aLoop {
					t.Errorf("%+v, increase %d: %s, undisturbed %s\n%s", ca, n, o, least, o.w.log())
				}
			}
		}
	}
}
