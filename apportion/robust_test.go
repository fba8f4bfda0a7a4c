package apportion

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// anyRequest is a request that need not make sense.
func (d dice) anyRequest() Request {
	r := d.request(pick(d, 0, 1, 30, math.MaxInt32))
	number := func() int64 {
		return pick(d, 0, 1, -1, 7, MaxReplicas-1, MaxReplicas, MaxReplicas+1, math.MinInt64, math.MaxInt64)
	}
	if d(3) == 0 {
		r.Replicas = number()
	}
	if d(8) == 0 {
		r.Policy = pick(d, "", "priority", Priority, "\xff")
	}
	if d(8) == 0 {
		r.Relief, r.Rounding = pick(d, "Nobody", LaterOnly, Any), pick(d, "", "Hamilton", Webster)
	}
	for i := range r.Targets {
		target := &r.Targets[i]
		switch d(8) {
		case 0:
			target.Min = number()
		case 1:
			target.Max = new(number())
		case 2:
			target.Capacity = new(number())
		case 3:
			target.Current = number()
		case 4:
			target.Weight = new(number())
		case 5:
			target.Name = pick(d, "", "a", "\x00", r.Targets[0].Name)
		}
	}
	return r
}

// Any request gets an answer with as many targets, or an error: never a panic. What is answered
// keeps the sum and the bounds, however large the numbers are.
func TestNeverPanics(t *testing.T) {
	if got, err := Distribute(Request{}); err != nil || len(got.Targets) != 0 {
		t.Errorf("the empty request: %+v, %v", got, err)
	}
	answers, refusals := 0, 0
	forAll(t, 2*propertyCases, func(d dice) error {
		r := d.anyRequest()
		got, err := Distribute(r)
		if err != nil {
			refusals++
			return nil
		}
		answers++
		var runs int64
		for i, a := range got.Targets {
			target := r.Targets[i]
			runs += a.Replicas - a.Pending
			if a.Name != target.Name || a.Replicas > maxOf(target) || a.Replicas < a.Pending || a.Pending < 0 ||
				a.Replicas-a.Pending > capacityOf(target) {
				return fmt.Errorf("%s: %+v", describe(r), got)
			}
		}
		if runs+got.Unplaced != r.Replicas+got.Excess {
			return fmt.Errorf("%s: %+v", describe(r), got)
		}
		return nil
	})
	if answers < propertyCases/4 || refusals < propertyCases/4 {
		t.Errorf("%d answers, %d refusals: too few of one kind", answers, refusals)
	}
}

func TestNeverPanicsOnClaims(t *testing.T) {
	forAll(t, 2*propertyCases, func(d dice) error {
		number := func() int64 {
			return pick(d, 0, 1, -1, 9, int64(d(1000)), math.MinInt64, math.MaxInt64, math.MaxInt64-1, math.MaxInt64/2)
		}
		claims := make([]Claim, d(6))
		for i := range claims {
			claims[i] = Claim{number(), number(), number(), number()}
		}
		total := number()
		for _, values := range [][]int64{
			Spread(total, claims, pick(d, "", LargestRemainder, Webster, DHondt, "Hamilton")),
			Fill(total, claims),
		} {
			for i, c := range claims {
				if c = c.normal(); values[i] < c.Low || values[i] > c.High {
					return fmt.Errorf("%d over %+v: %v", total, claims, values)
				}
			}
		}
		return nil
	})
}

// hashOrder is the order in which replicas that cannot be shared are given out.
func hashOrder(t *testing.T, key string, names []string) []string {
	t.Helper()
	left := slices.Clone(names)
	var order []string
	for len(left) > 0 {
		r := Request{Replicas: 1, TieBreak: Hash, Key: key}
		for _, name := range left {
			r.Targets = append(r.Targets, Target{Name: name})
		}
		got, err := Distribute(r)
		if err != nil {
			t.Fatal(err)
		}
		first := slices.IndexFunc(got.Targets, func(a TargetResult) bool { return a.Replicas == 1 })
		order = append(order, left[first])
		left = slices.Delete(left, first, first+1)
	}
	return order
}

// Over many keys each of the targets comes first, second, ... equally often.
func TestTieFairness(t *testing.T) {
	const keys = 12_000
	names := []string{"cluster-0", "cluster-1", "cluster-2", "cluster-3", "cluster-4"}
	places := map[string][]int{}
	for _, name := range names {
		places[name] = make([]int, len(names))
	}
	for i := range keys {
		for place, name := range hashOrder(t, fmt.Sprintf("default/web-%d", i), names) {
			places[name][place]++
		}
	}
	// chi-square with 4 degrees of freedom: above 18.47 once in a thousand
	expected := float64(keys) / float64(len(names))
	for place := range names {
		var square float64
		for _, name := range names {
			gap := float64(places[name][place]) - expected
			square += gap * gap / expected
		}
		if square > 18.47 {
			t.Errorf("place %d: chi-square %.1f over %v", place, square, places)
		}
	}
}

func TestTieFairnessRemovingATargetKeepsTheOrder(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	for i := range 300 {
		key := fmt.Sprint(i)
		order := hashOrder(t, key, names)
		gone := i % len(names)
		rest := slices.Delete(slices.Clone(names), gone, gone+1)
		want := slices.DeleteFunc(order, func(name string) bool { return name == names[gone] })
		if got := hashOrder(t, key, rest); !slices.Equal(got, want) {
			t.Errorf("key %s without %s: %v; want %v", key, names[gone], got, want)
		}
	}
}
