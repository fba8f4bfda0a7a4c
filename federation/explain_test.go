package federation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/apportion"
)

// Whatever happens: an explanation is the decision that is made, its last numbers are those of the
// status, and every step shares what the one before has given it.
func TestExplainIsTheDecision(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 13))
		names := []string{"a", "b", "c", "d", "e"}[:2+r.IntN(4)]
		w := newFakeFleet(t, randomSpec(r, names))
		for _, name := range names {
			p := w.join(name, map[string]string{"region": []string{"eu", "us"}[r.IntN(2)]})
			p.able = r.Int32N(30)
		}
		for range 6 {
			w.run()
			w.in.Spec.Replicas = new(r.Int32N(60))
			if p := w.places[r.IntN(len(w.places))]; r.IntN(3) == 0 {
				p.NoSchedule, p.Reach = r.IntN(2) == 0, Reach(r.IntN(3))
			}
			w.observe()
			checkExplanation(t, seed, w.in)
			w.pass()
			w.in.Now = w.in.Now.Add(time.Duration(r.Int64N(int64(2 * act))))
		}
	}
}

func checkExplanation(t *testing.T, seed uint64, in Input) {
	t.Helper()
	d, err := Decide(in)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Explain(in)
	if err != nil {
		t.Fatal(err)
	}
	if !equalJSON(t, d, e.Decision) {
		t.Fatalf("seed %d: explained is another decision", seed)
	}
	able, given := map[string]int64{}, map[string]int64{"": int64(*in.Spec.Replicas)}
	for _, s := range e.Steps {
		if total, ok := given[s.Name]; !ok || total != s.Replicas {
			t.Fatalf("seed %d: step %q shares %d of %d", seed, s.Name, s.Replicas, total)
		}
		var sums [4]int64
		for _, p := range s.Parts {
			for i, n := range []int64{p.ByWeight, p.WithinBounds, p.Staying, p.Able} {
				sums[i] += n
			}
			if p.Shared {
				given[p.Name] = p.given
			} else {
				able[p.Name] = p.Able
			}
		}
		for _, sum := range sums {
			if sum > s.Replicas {
				t.Fatalf("seed %d: %v of %d replicas in step %+v", seed, sums, s.Replicas, s)
			}
		}
	}
	for _, c := range d.Status.Clusters {
		if n, ok := able[c.Name]; ok && c.Reachable && n != int64(c.Desired-c.Pending) {
			t.Fatalf("seed %d: %s runs %d by the steps and %d by the status", seed, c.Name, n, c.Desired-c.Pending)
		}
	}
}

// The arithmetic of a share: exact, rounded, within bounds, staying, and what the clusters are able
// to run.
func TestExplainedArithmetic(t *testing.T) {
	p := weighted(map[string]int32{"a": 2, "b": 1, "c": 1})
	p.Clusters["b"] = entry(-1, 10, 1)
	w := newFakeFleet(t, specOf(50, p), "a", "b", "c")
	w.converge()
	w.place("c").able = 6
	w.wait(act + 1e9)
	w.wait(act + 1e9)
	w.observe()
	e, err := Explain(w.in)
	if err != nil {
		t.Fatal(err)
	}
	got := ""
	for _, part := range e.Steps[0].Parts {
		got += fmt.Sprintln(part.Name, part.Exact, part.ByWeight, part.WithinBounds, part.Able, part.Reason)
	}
	if want := "a 25 25 27 34 Weight\nb 12.50 13 10 10 Max\nc 12.50 12 13 6 Capacity\n"; got != want || len(e.Steps) != 1 ||
		e.Steps[0].Policy == apportion.Priority {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// What is awaited is said with its time.
func TestExplainedTimes(t *testing.T) {
	w := newFakeFleet(t, specOf(10, everywhere(entry(-1, -1, 1))), "a", "b")
	w.converge()
	awaited := func() string {
		t.Helper()
		w.observe()
		e, err := Explain(w.in)
		if err != nil {
			t.Fatal(err)
		}
		return e.Clusters[0].Awaited
	}
	if text := awaited(); text != "" {
		t.Errorf("settled: %q", text)
	}
	w.place("a").able = 2
	w.converge()
	if text := awaited(); text != "3 replicas not running yet: what does not run by 2026-07-01T12:05:00Z is started elsewhere" {
		t.Errorf("starting: %q", text)
	}
	w.wait(act + 1e9)
	w.place("a").able = 20
	w.converge()
	if text := awaited(); !strings.HasPrefix(text, "if it stays as it is until 2026-07-01T12:10:01Z") {
		t.Errorf("recovered: %q", text)
	}
	w = newFakeFleet(t, specOf(10, everywhere(entry(-1, -1, 1))), "a", "b")
	w.place("a").refuses = "no"
	w.pass()
	if text := awaited(); text != "the write that failed is tried again at 2026-07-01T12:00:01Z" {
		t.Errorf("refused: %q", text)
	}
}
