package balancer

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestWalk(t *testing.T) {
	// Steps are current, desired, runnable, running.
	tests := map[string]struct {
		pace  pace
		steps []step
		want  string
		held  int64
	}{
		"nothing to do":                     {unhurried(0), []step{{3, 3, 3, 3}}, "[3]", 0},
		"grows at once":                     {unhurried(0), []step{{3, 9, 9, 3}, {0, 5, 5, 0}}, "[9 5]", 0},
		"shrinks at once":                   {unhurried(10), []step{{10, 5, 5, 10}, {10, 5, 5, 2}}, "[5 5]", 0},
		"waits for the new ones":            {unhurried(0), []step{{10, 0, 0, 10}, {0, 10, 10, 0}}, "[10 10]", 10},
		"follows the new ones":              {unhurried(0), []step{{10, 0, 0, 10}, {10, 10, 10, 4}}, "[6 10]", 6},
		"leaves what does not run":          {unhurried(0), []step{{10, 0, 0, 3}, {0, 10, 10, 0}}, "[3 10]", 3},
		"shrinks and moves":                 {unhurried(10), []step{{100, 45, 45, 100}, {0, 45, 45, 0}}, "[90 45]", 45},
		"in proportion":                     {unhurried(0), []step{{10, 4, 4, 10}, {10, 7, 7, 10}, {9, 9, 9, 3}}, "[8 9 9]", 6},
		"a few ahead":                       {pace{0, 3, 3}, []step{{10, 0, 0, 10}, {0, 10, 10, 0}}, "[10 3]", 10},
		"a few ahead already":               {pace{0, 3, 3}, []step{{10, 0, 0, 10}, {3, 10, 10, 0}}, "[10 3]", 10},
		"a few leave":                       {pace{0, 3, 3}, []step{{10, 0, 0, 10}, {3, 10, 10, 3}}, "[7 6]", 7},
		"none may leave now":                {pace{0, 3, 0}, []step{{10, 0, 0, 10}, {3, 10, 10, 3}}, "[10 3]", 10},
		"growth is no move":                 {pace{0, 1, 1}, []step{{10, 5, 5, 10}, {0, 15, 15, 0}}, "[10 11]", 5},
		"shrinking is no move":              {pace{6, 1, 0}, []step{{10, 4, 4, 10}}, "[4]", 0},
		"a pending share is not waited for": {unhurried(0), []step{{10, 5, 5, 10}, {5, 9, 5, 5}}, "[5 9]", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.pace.walk(tt.steps)
			if fmt.Sprint(got.sizes) != tt.want || got.held != tt.held {
				t.Errorf("%v, %d held; want %s, %d held", got.sizes, got.held, tt.want, tt.held)
			}
		})
	}
}

// However far the steps are taken: no size passes what is desired; no more than the budget moves; what is held and what
// is done make the whole; a second walk from there does nothing; and what is held never exceeds what is missing elsewhere.
func TestWalkInvariants(t *testing.T) {
	property := func(t *rapid.T) {
		number := rapid.Int64Range(0, 50)
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
			s := step{current: number.Draw(t, "current"), desired: number.Draw(t, "desired")}
			s.runnable = rapid.Int64Range(0, s.desired).Draw(t, "runnable")
			s.running = rapid.Int64Range(0, s.current).Draw(t, "running")
			return s
		}), 1, 6).Draw(t, "steps")
		p := unhurried(rapid.Int64Range(0, 60).Draw(t, "shrink"))
		if rapid.Bool().Draw(t, "limited") {
			p.limit = rapid.Int64Range(1, 20).Draw(t, "limit")
			p.budget = rapid.Int64Range(0, p.limit).Draw(t, "budget")
		}
		got := p.walk(steps)
		if got.moved > p.budget || got.moved < 0 {
			t.Fatalf("%d moved, budget %d", got.moved, p.budget)
		}
		var held, runs, runnable, up, down int64
		next := make([]step, len(steps))
		for i, s := range steps {
			to := got.sizes[i]
			if to < min(s.current, s.desired) || to > max(s.current, s.desired) {
				t.Fatalf("%+v to %d", s, to)
			}
			held += max(0, to-max(s.desired, 0))
			runs += min(s.running, to)
			runnable += s.runnable
			up += s.up()
			down += s.down()
			next[i] = s
			next[i].current, next[i].running = to, min(s.running, to)
		}
		for i, s := range steps {
			if s.up() > 0 {
				held -= max(0, got.sizes[i]-s.desired)
			}
		}
		if held != got.held {
			t.Fatalf("%d wait, %d said to be held: %+v %+v", held, got.held, steps, got)
		}
		var before int64
		for _, s := range steps {
			before += s.running
		}
		if floor := min(before, runnable) - min(p.shrink, max(0, down-up)); runs < floor {
			t.Fatalf("%d run of %d, %d are to", runs, before, runnable)
		}
		if got.held > 0 && p.budget > got.moved && runs > runnable {
			t.Fatalf("%d held though %d run and %d have to", got.held, runs, runnable)
		}
		p.shrink, p.budget = 0, p.budget-got.moved
		if p.budget > 1<<40 {
			p.budget = got.moved + p.budget
		}
		if again := p.walk(next); fmt.Sprint(again.sizes) != fmt.Sprint(got.sizes) {
			t.Fatalf("%+v: %v, then %v", steps, got.sizes, again.sizes)
		}
	}
	for range 50 { // a hundred cases each
		rapid.Check(t, property)
	}
}

// A flip of the order moves no more replicas per minute than allowed, nothing that runs is lost on the way, and all arrive.
func TestMovesPerMinute(t *testing.T) {
	w := newWorld(specOf(100, priority("a", "b"), targetOf("a", -1, -1), targetOf("b", -1, -1)), 100, 0)
	must(t, w.settle())
	w.in.Spec.Policy = priority("b", "a")
	w.in.Spec.Policy.MaxMovesPerMinute = new(int32(10))
	for minutes := range 10 {
		for range 6 {
			must(t, w.settle())
			if want := fmt.Sprintf("[%d %d]", 90-10*minutes, min(100, 20+10*minutes)); fmt.Sprint(w.sizes) != want {
				t.Fatalf("minute %d: %v, want %s", minutes, w.sizes, want)
			}
			if d, err := w.pass(); err != nil || minutes < 9 && !d.Next.Equal(noon.Add(time.Duration(minutes+1)*time.Minute)) {
				t.Fatalf("minute %d: next is %v: %v", minutes, d.Next, err)
			}
			w.in.Now = w.in.Now.Add(10 * time.Second)
		}
	}
	must(t, w.settle())
	if fmt.Sprint(w.sizes) != "[0 100]" {
		t.Errorf("%v", w.sizes)
	}
}

// Pods that have yet to go after a write are not taken for ones that may go.
func TestPodsThatAreGoingCountOnce(t *testing.T) {
	w := newWorld(specOf(10, priority("a", "b"), targetOf("a", -1, -1), targetOf("b", -1, -1)), 10, 0)
	must(t, w.settle())
	w.in.Spec.Policy = priority("b", "a")
	w.able[1] = 4
	_, err := w.pass()
	must(t, err)
	w.run()
	for range 2 {
		_, err = w.pass() // and the pods of a stay
		must(t, err)
		if fmt.Sprint(w.sizes) != "[6 10]" {
			t.Errorf("sizes %v", w.sizes)
		}
	}
}
