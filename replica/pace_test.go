package replica

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func TestWalk(t *testing.T) {
	// Steps are current, desired, runnable, running, leaving.
	tests := map[string]struct {
		pace  Pace
		steps []Step
		want  string
		held  int64
	}{
		"nothing to do":                     {Pace{Shrink: 0}, []Step{{3, 3, 3, 3, 0}}, "[3]", 0},
		"grows at once":                     {Pace{Shrink: 0}, []Step{{3, 9, 9, 3, 0}, {0, 5, 5, 0, 0}}, "[9 5]", 0},
		"shrinks at once":                   {Pace{Shrink: 10}, []Step{{10, 5, 5, 10, 0}, {10, 5, 5, 6, 0}}, "[5 5]", 0},
		"shrinks to what runs":              {Pace{Shrink: 10}, []Step{{10, 5, 5, 10, 0}, {10, 5, 5, 2, 0}}, "[8 5]", 3},
		"waits for the new ones":            {Pace{Shrink: 0}, []Step{{10, 0, 0, 10, 0}, {0, 10, 10, 0, 0}}, "[10 10]", 10},
		"follows the new ones":              {Pace{Shrink: 0}, []Step{{10, 0, 0, 10, 0}, {10, 10, 10, 4, 0}}, "[6 10]", 6},
		"leaves what does not run":          {Pace{Shrink: 0}, []Step{{10, 0, 0, 3, 0}, {0, 10, 10, 0, 0}}, "[3 10]", 3},
		"shrinks and moves":                 {Pace{Shrink: 10}, []Step{{100, 45, 45, 100, 0}, {0, 45, 45, 0, 0}}, "[90 45]", 45},
		"in proportion":                     {Pace{Shrink: 0}, []Step{{10, 4, 4, 10, 0}, {10, 7, 7, 10, 0}, {9, 9, 9, 3, 0}}, "[8 9 9]", 6},
		"a few ahead":                       {Pace{Shrink: 0, Limit: 3, Budget: 3}, []Step{{10, 0, 0, 10, 0}, {0, 10, 10, 0, 0}}, "[10 3]", 10},
		"a few ahead already":               {Pace{Shrink: 0, Limit: 3, Budget: 3}, []Step{{10, 0, 0, 10, 0}, {3, 10, 10, 0, 0}}, "[10 3]", 10},
		"a few leave":                       {Pace{Shrink: 0, Limit: 3, Budget: 3}, []Step{{10, 0, 0, 10, 0}, {3, 10, 10, 3, 0}}, "[7 6]", 7},
		"none may leave now":                {Pace{Shrink: 0, Limit: 3, Budget: 0}, []Step{{10, 0, 0, 10, 0}, {3, 10, 10, 3, 0}}, "[10 3]", 10},
		"growth is no move":                 {Pace{Shrink: 0, Limit: 1, Budget: 1}, []Step{{10, 5, 5, 10, 0}, {0, 15, 15, 0, 0}}, "[10 11]", 5},
		"shrinking is no move":              {Pace{Shrink: 6, Limit: 1, Budget: 0}, []Step{{10, 4, 4, 10, 0}}, "[4]", 0},
		"stays for what cannot start":       {Pace{Stuck: 6, Limit: 99, Budget: 99}, []Step{{10, 0, 0, 10, 0}, {10, 10, 4, 4, 0}}, "[6 10]", 6},
		"not for those that are leaving":    {Pace{}, []Step{{10, 5, 5, 10, 4}, {10, 10, 10, 10, 0}}, "[9 10]", 4},
		"they go first if fewer are asked":  {Pace{Shrink: 3}, []Step{{10, 9, 9, 10, 0}, {10, 8, 8, 10, 10}}, "[10 8]", 1},
		"a pending share is not waited for": {Pace{Shrink: 0}, []Step{{10, 5, 5, 10, 0}, {5, 9, 5, 5, 0}}, "[5 9]", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := tt.pace.Walk(tt.steps)
			if fmt.Sprint(got.Sizes) != tt.want || got.Held != tt.held {
				t.Errorf("%v, %d held; want %s, %d held", got.Sizes, got.Held, tt.want, tt.held)
			}
		})
	}
}

// However far the steps are taken: no size passes what is desired; no more than the budget moves;
// what is held and what is done make the whole; a second walk from there does nothing; and what is
// held never exceeds what is missing elsewhere.
func TestWalkInvariants(t *testing.T) {
	property := func(t *rapid.T) {
		number := rapid.Int64Range(0, 50)
		steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Step {
			s := Step{Size: number.Draw(t, "current"), Desired: number.Draw(t, "desired")}
			s.Runnable = rapid.Int64Range(0, s.Desired).Draw(t, "runnable")
			s.Running = rapid.Int64Range(0, s.Size).Draw(t, "running")
			return s
		}), 1, 6).Draw(t, "steps")
		p := Pace{Shrink: rapid.Int64Range(0, 60).Draw(t, "shrink")}
		p.Stuck = rapid.Int64Range(0, 20).Draw(t, "stuck")
		if rapid.Bool().Draw(t, "limited") {
			p.Limit = rapid.Int64Range(1, 20).Draw(t, "limit")
			p.Budget = rapid.Int64Range(0, p.Limit).Draw(t, "budget")
		}
		got := p.Walk(steps)
		if p.Limit > 0 && got.Moved > p.Budget || got.Moved < 0 {
			t.Fatalf("%d moved, budget %d", got.Moved, p.Budget)
		}
		var held, runs, up, down int64
		runnable := p.Stuck
		next := make([]Step, len(steps))
		for i, s := range steps {
			to := got.Sizes[i]
			if to < min(s.Size, s.Desired) || to > max(s.Size, s.Desired) {
				t.Fatalf("%+v to %d", s, to)
			}
			held += max(0, to-max(s.Desired, 0))
			runs += min(s.Running, to)
			runnable += s.Runnable
			up += s.up()
			down += s.down()
			next[i] = s
			next[i].Size, next[i].Running = to, min(s.Running, to)
		}
		for i, s := range steps {
			if s.up() > 0 {
				held -= max(0, got.Sizes[i]-s.Desired)
			}
		}
		if held != got.Held {
			t.Fatalf("%d wait, %d said to be held: %+v %+v", held, got.Held, steps, got)
		}
		var before int64
		for _, s := range steps {
			before += s.Running
		}
		if runs < min(before, runnable) {
			t.Fatalf("%d run of %d, %d are to", runs, before, runnable)
		}
		if got.Held > 0 && (p.Limit == 0 || p.Budget > got.Moved) && runs > runnable {
			t.Fatalf("%d held though %d run and %d have to", got.Held, runs, runnable)
		}
		p.Shrink, p.Budget = 0, p.Budget-got.Moved
		if again := p.Walk(next); fmt.Sprint(again.Sizes) != fmt.Sprint(got.Sizes) {
			t.Fatalf("%+v: %v, then %v", steps, got.Sizes, again.Sizes)
		}
	}
	for range 50 { // a hundred cases each
		rapid.Check(t, property)
	}
}
