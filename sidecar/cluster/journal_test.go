package cluster

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/sidecar"
)

// After a process has loaded, no other changes the text before it loads as well, whatever is
// paused, lost or late on the way; an older leader does not load after a newer one; and what was
// loaded is what is stored.
func TestPropertyOnlyTheLastToLoadWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{T: t, server: newServer()}
		w.server.applied = func(process string) {
			if process != w.loaded {
				t.Fatalf("%s has written, but %q was the last to load", process, w.loaded)
			}
		}
		for range 3 {
			w.replicas = append(w.replicas, nil)
			w.restart(len(w.replicas) - 1)
		}
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			w.step(2)
		}
	})
}

// A world has replicas of an autoscaler, each with a sidecar that starts anew at times.
type world struct {
	*rapid.T
	server    *server
	replicas  []*replica
	processes int
	texts     int
	loaded    string // the process that was the last to load
	term      int    // of its leadership
	lines     []*line
}

type replica struct {
	name, process string
	line          *line
	journal       *Journal
	busy          bool // a call is on its way; another would wait for it
}

func (w *world) restart(i int) {
	w.processes++
	r := &replica{name: fmt.Sprint("ca-", i), process: fmt.Sprint("process-", w.processes)}
	r.line = w.server.line(r.process)
	r.journal = w.server.journal(w, r.line, r.process, r.name, DefaultLease)
	w.replicas[i] = r
	w.lines = append(w.lines, r.line)
}

// step does one thing at random; while a write is on its way, up to depth deep, other things
// happen.
func (w *world) step(depth int) {
	i := rapid.IntRange(0, len(w.replicas)-1).Draw(w.T, "replica")
	r := w.replicas[i]
	if depth > 0 && r.line.before == nil && rapid.IntRange(0, 3).Draw(w.T, "pause") == 0 {
		r.line.after = rapid.IntRange(0, 2).Draw(w.T, "at request")
		r.line.before = func() {
			for range rapid.IntRange(1, 4).Draw(w.T, "meanwhile") {
				w.step(depth - 1)
			}
		}
	}
	if !r.busy {
		r.line.lose = rapid.IntRange(0, 7).Draw(w.T, "lose") == 0
	}
	switch do := rapid.IntRange(0, 12).Draw(w.T, "do"); do {
	case 0, 1, 2, 3, 4, 5, 6, 7:
		if r.busy {
			return
		}
		r.busy = true
		if do < 3 {
			w.load(r)
		} else {
			w.save(r)
		}
		r.busy = false
	case 8:
		w.server.lead(r.name)
	case 9:
		w.server.recreateLease(r.name)
	case 10:
		w.server.clock.Step(10 * time.Second)
	case 11:
		w.restart(i)
	case 12:
		for _, l := range w.lines {
			late := l.late
			l.late = nil
			for _, arrive := range late {
				arrive()
			}
		}
	}
}

func (w *world) load(r *replica) {
	text, err := r.journal.Load(w.T.Context())
	if err != nil {
		w.judge(err)
		return
	}
	if string(text) != w.server.stored() {
		w.Fatalf("%s has loaded %q, stored is %q", r.process, text, w.server.stored())
	}
	if r.line.term < w.term {
		w.Fatalf("%s has loaded in term %d, after another had in term %d", r.process, r.line.term, w.term)
	}
	w.loaded, w.term = r.process, r.line.term
}

func (w *world) save(r *replica) {
	w.texts++
	text := fmt.Sprint("text-", w.texts)
	err := r.journal.Save(w.T.Context(), []byte(text))
	w.judge(err)
	if err == nil && w.server.stored() != text {
		w.Fatalf("%s has saved %q, stored is %q", r.process, text, w.server.stored())
	}
}

func (w *world) judge(err error) {
	if err != nil && !errors.Is(err, sidecar.ErrNotLeader) && !errors.Is(err, ErrStale) && !errors.Is(err, errLostLine) &&
		!strings.Contains(err.Error(), "there is no Lease") {
		w.Fatal(err)
	}
}

// A process in its turn may always go on, once with a Load.
func TestJournalGoesOn(t *testing.T) {
	s := newServer()
	s.lead("ca-0")
	l := s.line("one")
	j := s.journal(t, l, "one", "ca-0", DefaultLease)
	load := func(want string) {
		t.Helper()
		if got, err := j.Load(t.Context()); err != nil || string(got) != want {
			t.Fatalf("loaded %q, %v; want %q", got, err, want)
		}
	}
	save := func(text string) {
		t.Helper()
		if err := j.Save(t.Context(), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Save(t.Context(), []byte("too early")); !errors.Is(err, ErrStale) {
		t.Errorf("saved before the first load: %v", err)
	}
	load("")
	save("a")
	load("a")
	l.requests = nil
	save("b")
	save("c")
	load("c")
	if got, want := strings.Join(l.requests, ", "),
		"get leases, update configmaps, get leases, update configmaps, get configmaps, get leases, update configmaps"; got != want {
		t.Errorf("requests: %s\nwant: %s", got, want)
	}
	l.lose = true
	if err := j.Save(t.Context(), []byte("late")); !errors.Is(err, errLostLine) {
		t.Fatal(err)
	}
	if err := j.Save(t.Context(), []byte("blind")); !errors.Is(err, ErrStale) {
		t.Errorf("saved without knowing what is stored: %v", err)
	}
	load("c")
	l.late[0]()
	load("c") // it came too late
	save("d")
	s.text = nil // somebody deletes it
	if err := j.Save(t.Context(), []byte("e")); !errors.Is(err, ErrStale) {
		t.Errorf("saved to what is not there: %v", err)
	}
	load("")
	save("f")
	if got := s.text.Labels["app.kubernetes.io/managed-by"]; got != "evenkeel" {
		t.Errorf("managed by %q", got)
	}
	s.lead("ca-1")
	s.lead("ca-0")
	if err := j.Save(t.Context(), []byte("g")); !errors.Is(err, ErrStale) {
		t.Errorf("saved in another term: %v", err)
	}
	load("f")
}

func TestJournalOfAFollower(t *testing.T) {
	tests := map[string]struct {
		lease func(s *server)
		want  string
	}{
		"another leads": {func(s *server) { s.lead("ca-1") },
			"not the leading replica: ca-1 holds the Lease cluster-autoscaler, and we are ca-0"},
		"released": {func(s *server) { s.lead("ca-0"); s.lead("") }, "not the leading replica: nobody holds the Lease cluster-autoscaler"},
		"expired": {func(s *server) { s.lead("ca-0"); s.clock.Step(15 * time.Second) },
			"not the leading replica: the Lease cluster-autoscaler has expired"},
		"never renewed": {func(s *server) { s.lead("ca-0"); s.lease.Spec.RenewTime = nil },
			"not the leading replica: the Lease cluster-autoscaler has expired"},
		"without a term": {func(s *server) { s.lead("ca-0"); s.lease.Spec.LeaseDurationSeconds = nil },
			"not the leading replica: the Lease cluster-autoscaler has expired"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newServer()
			test.lease(s)
			j := s.journal(t, s.line("one"), "one", "ca-0", DefaultLease)
			_, err := j.Load(t.Context())
			if !errors.Is(err, sidecar.ErrNotLeader) || err.Error() != "loading the journal: "+test.want {
				t.Errorf("load: %v\nwant %s", err, test.want)
			}
			err = j.Save(t.Context(), nil)
			if !errors.Is(err, sidecar.ErrNotLeader) || err.Error() != "saving the journal: "+test.want {
				t.Errorf("save: %v\nwant %s", err, test.want)
			}
			if s.text != nil {
				t.Errorf("written: %v", s.text)
			}
		})
	}
}

// A lease that nobody has ever made is a mistake in the flags and no other leader.
func TestJournalWithoutLease(t *testing.T) {
	s := newServer()
	_, err := s.journal(t, s.line("one"), "one", "ca-0", DefaultLease).Load(t.Context())
	if err == nil || errors.Is(err, sidecar.ErrNotLeader) || !strings.Contains(err.Error(), "there is no Lease cluster-autoscaler") ||
		s.text != nil {
		t.Errorf("load: %v, written: %v", err, s.text)
	}
}

// Without an election the last process to load is the only one that saves.
func TestJournalWithoutElection(t *testing.T) {
	s := newServer()
	one := s.journal(t, s.line("one"), "one", "ca-0", "")
	two := s.journal(t, s.line("two"), "two", "ca-0", "")
	if _, err := one.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := one.Save(t.Context(), []byte("a")); err != nil {
		t.Fatal(err)
	}
	if got, err := two.Load(t.Context()); err != nil || string(got) != "a" {
		t.Fatalf("loaded %q, %v", got, err)
	}
	if err := one.Save(t.Context(), []byte("b")); !errors.Is(err, ErrStale) {
		t.Errorf("the older process has saved: %v", err)
	}
	if err := two.Save(t.Context(), []byte("c")); err != nil {
		t.Error(err)
	}
}

func TestJournalRefusesTexts(t *testing.T) {
	s := newServer()
	l := s.line("one")
	j := s.journal(t, l, "one", "ca-0", "")
	for text, want := range map[string]string{
		strings.Repeat("x", MaxText): "saving the journal: a text of 524288 bytes is too long: it must stay below 524288",
		"\xff":                       "saving the journal: the text is not valid UTF-8",
	} {
		if err := j.Save(t.Context(), []byte(text)); err == nil || err.Error() != want {
			t.Errorf("%v\nwant %s", err, want)
		}
	}
	if len(l.requests) > 0 {
		t.Errorf("sent %q", l.requests)
	}
	if _, err := j.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	long := []byte(strings.Repeat("x", MaxText-1))
	if err := j.Save(t.Context(), long); err != nil {
		t.Error(err)
	}
}

func TestJournalSaysWhichRightIsMissing(t *testing.T) {
	s := newServer()
	l := s.line("one")
	l.denied = true
	_, err := s.journal(t, l, "one", "ca-0", "").Load(t.Context())
	want := "loading the journal: no right to get ConfigMap kube-system/evenkeel-sidecar: apply configs/sidecar/rbac or grant it"
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v\nwant %s…", err, want)
	}
}

// A call that waits for another one ends with its context.
func TestJournalCallsEndWithTheirContext(t *testing.T) {
	s := newServer()
	l := s.line("one")
	j := s.journal(t, l, "one", "ca-0", "")
	l.before = func() {
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("the caller has gone")
		cancel(gone)
		if _, err := j.Load(ctx); !errors.Is(err, gone) {
			t.Errorf("waiting: %v", err)
		}
	}
	if _, err := j.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if l.before != nil {
		t.Error("nothing was asked for")
	}
}
