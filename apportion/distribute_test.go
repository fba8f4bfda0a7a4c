package apportion

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"
)

func TestDistributeEqualsSpecification(t *testing.T) {
	forAll(t, 60_000, func(d dice) error {
		return distributeEqualsOracle(d.request(pick(d, 6, 20, 60)))
	})
}

func distributeEqualsOracle(r Request) error {
	before := describe(r)
	got, err := Distribute(r)
	if err != nil {
		return fmt.Errorf("%s: %w", before, err)
	}
	for i := range got.Targets {
		if got.Targets[i].Reason == "" {
			return fmt.Errorf("%s: no reason for %s", before, got.Targets[i].Name)
		}
		got.Targets[i].Reason = ""
	}
	if want := oracleDistribute(r); !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s:\n got %+v\nwant %+v", before, got, want)
	}
	if after := describe(r); after != before {
		return fmt.Errorf("input changed from %s to %s", before, after)
	}
	return nil
}

func TestDistributeRefuses(t *testing.T) {
	one := func(t Target) Request { return Request{Replicas: 1, Targets: []Target{{Name: "x"}, t}} }
	tests := []struct {
		request Request
		path    string
	}{
		{Request{Replicas: -1}, "replicas"},
		{Request{Replicas: 1 << 31}, "replicas"},
		{Request{Policy: "priority"}, "policy"},
		{Request{Rounding: "Hamilton"}, "rounding"},
		{Request{MinMode: "floor"}, "minMode"},
		{Request{Shortage: "None"}, "shortage"},
		{Request{Pending: "keep"}, "pending"},
		{Request{Relief: "Nobody"}, "relief"},
		{Request{Relief: LaterOnly}, "relief"},
		{Request{Relief: LaterOnly, Policy: Proportional}, "relief"},
		{Request{TieBreak: "Random"}, "tieBreak"},
		{one(Target{}), "targets[1].name"},
		{one(Target{Name: "x"}), "targets[1].name"},
		{one(Target{Name: "y", Weight: new(int64(-1))}), "targets[1].weight"},
		{one(Target{Name: "y", Min: -1}), "targets[1].min"},
		{one(Target{Name: "y", Min: 1 << 31}), "targets[1].min"},
		{one(Target{Name: "y", Max: new(int64(-1))}), "targets[1].max"},
		{one(Target{Name: "y", Max: new(int64(1 << 31))}), "targets[1].max"},
		{one(Target{Name: "y", Capacity: new(int64(-1))}), "targets[1].capacity"},
		{one(Target{Name: "y", Current: -1}), "targets[1].current"},
		{one(Target{Name: "y", Min: 5, Max: new(int64(4))}), "targets[1].min"},
		{one(Target{Name: "y", Min: 5, Max: new(int64(4)), Weight: new(int64(-2))}), "targets[1].weight"},
	}
	for _, test := range tests {
		_, err := Distribute(test.request)
		var typed *InvalidError
		if !errors.As(err, &typed) || typed.Path != test.path {
			t.Errorf("%s: got %v; want an error at %s", describe(test.request), err, test.path)
		}
	}
	_, err := Distribute(one(Target{Name: "y", Min: 5, Max: new(int64(4))}))
	if want := "targets[1].min: Invalid value: 5: must not be greater than max"; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
	_, err = Distribute(Request{Policy: "priority"})
	if want := `policy: Invalid value: "priority": must be one of Proportional, Priority`; err == nil || err.Error() != want {
		t.Errorf("got %v; want %s", err, want)
	}
}

func TestDistributeAccepts(t *testing.T) {
	for _, r := range []Request{
		{},
		{Replicas: 7},
		{Replicas: 5, Targets: []Target{{Name: "a", Weight: new(int64(0))}, {Name: "b", Weight: new(int64(0))}}},
		{Replicas: 5, Policy: Priority, Rounding: Webster, MinMode: Additive, TieBreak: Hash, Targets: []Target{{Name: "a"}}},
		{Replicas: 5, Rebalance: new(false), Targets: []Target{{Name: "a", Current: 9, Max: new(int64(3))}}},
		{Replicas: 5, Targets: []Target{{Name: "a", Min: 4, Capacity: new(int64(1))}}},
	} {
		if err := distributeEqualsOracle(r); err != nil {
			t.Error(err)
		}
	}
}

// The numbers at the end of their ranges, checked by what must hold of them.
func TestDistributeAtTheEndOfTheRanges(t *testing.T) {
	for _, rounding := range roundings {
		r := Request{Replicas: MaxReplicas, Rounding: rounding, Targets: []Target{
			{Name: "a", Weight: new(int64(math.MaxInt64))},
			{Name: "b", Weight: new(int64(math.MaxInt64))},
			{Name: "c", Weight: new(int64(math.MaxInt64)), Capacity: new(int64(0))},
			{Name: "d", Weight: new(int64(1))},
		}}
		want := []int64{1073741824, 1073741823, 715827882, 0}
		got, err := Distribute(r)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(replicas(got), want) || got.Targets[2].Pending != 715827882 || got.Unplaced != 0 {
			t.Errorf("%s: got %+v; want %v", rounding, got, want)
		}
	}
	full := Target{Min: MaxReplicas}
	r := Request{Replicas: 1}
	for i := range 5 {
		full.Name = fmt.Sprint(i)
		r.Targets = append(r.Targets, full)
	}
	got, err := Distribute(r)
	if err != nil || got.Excess != 5*MaxReplicas-1 || got.Unplaced != 0 {
		t.Errorf("minimums beyond 32 bits: %+v, %v", got, err)
	}
}

func replicas(r Result) []int64 {
	values := make([]int64, len(r.Targets))
	for i, t := range r.Targets {
		values[i] = t.Replicas
	}
	return values
}

func pendings(r Result) []int64 {
	values := make([]int64, len(r.Targets))
	for i, t := range r.Targets {
		values[i] = t.Pending
	}
	return values
}
