package nodegroupset

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSplit(t *testing.T) {
	row := func(name string, size, newSize int64, reason ...string) GroupSplit {
		out := GroupSplit{Name: name, Size: size, NewSize: newSize}
		if len(reason) > 0 {
			out.Reason = Reason(reason[0])
		}
		if len(reason) > 1 {
			out.Detail = reason[1]
		}
		return out
	}
	group := func(name string, size, minimum, maximum int64) Group {
		return Group{Name: name, Size: size, Min: minimum, Max: maximum, Weight: 1}
	}
	weighted := func(name string, size, minimum, maximum, weight int64) Group {
		return Group{Name: name, Size: size, Min: minimum, Max: maximum, Weight: weight}
	}
	tests := map[string]struct {
		request SplitRequest
		want    SplitResult
	}{
		"the example of the proposal": {
			SplitRequest{Nodes: 4, Chosen: "c", Groups: []Group{group("a", 1, 0, 10), group("b", 3, 0, 10), group("c", 6, 0, 10)}},
			SplitResult{Groups: []GroupSplit{row("a", 1, 4), row("b", 3, 4), row("c", 6, 6)}},
		},
		"room for all": {
			SplitRequest{Nodes: 10, Groups: []Group{group("a", 1, 0, 20), group("b", 3, 0, 20), group("c", 5, 0, 20), group("d", 5, 0, 20)}},
			SplitResult{Groups: []GroupSplit{row("a", 1, 6), row("b", 3, 6), row("c", 5, 6), row("d", 5, 6)}},
		},
		"the first and the last fill up": {
			SplitRequest{Nodes: 9, Groups: []Group{group("a", 1, 0, 3), group("b", 3, 0, 10), group("c", 5, 0, 7)}},
			SplitResult{Groups: []GroupSplit{row("a", 1, 3, "max"), row("b", 3, 8), row("c", 5, 7, "max")}},
		},
		"an over-full group is left alone": {
			SplitRequest{Nodes: 1, Groups: []Group{group("a", 1, 0, 3), group("b", 6, 0, 3)}},
			SplitResult{Groups: []GroupSplit{row("a", 1, 2), row("b", 6, 6, "overMax")}},
		},
		"levelling 10/5/2": {
			SplitRequest{Nodes: 16, Groups: []Group{group("a", 10, 0, 99), group("b", 5, 0, 99), group("c", 2, 0, 99)}},
			SplitResult{Groups: []GroupSplit{row("a", 10, 11), row("b", 5, 11), row("c", 2, 11)}},
		},
		"the remainder goes to the chosen group, then by name": {
			SplitRequest{Nodes: 11, Chosen: "c", Groups: []Group{group("c", 0, 0, 99), group("b", 0, 0, 99), group("a", 0, 0, 99)}},
			SplitResult{Groups: []GroupSplit{row("c", 0, 4), row("b", 0, 3), row("a", 0, 4)}},
		},
		"what has no room is said": {
			SplitRequest{Nodes: 10, Groups: []Group{group("a", 5, 0, 6), group("b", 4, 0, 6)}},
			SplitResult{Groups: []GroupSplit{row("a", 5, 6, "max"), row("b", 4, 6, "max")}, Unplaced: 7},
		},
		"nothing to add": {
			SplitRequest{Groups: []Group{group("a", 5, 7, 9), group("b", 4, 0, 4)}},
			SplitResult{Groups: []GroupSplit{row("a", 5, 5), row("b", 4, 4, "max")}},
		},
		"mins first, the smallest before others": {
			SplitRequest{Nodes: 4, Groups: []Group{group("a", 4, 6, 9), group("b", 1, 3, 9), group("c", 0, 0, 9)}},
			SplitResult{Groups: []GroupSplit{row("a", 4, 6, "min"), row("b", 1, 3, "min"), row("c", 0, 0)}},
		},
		"mins as far as the nodes last": {
			SplitRequest{Nodes: 3, Groups: []Group{group("a", 4, 6, 9), group("b", 1, 3, 9)}},
			SplitResult{Groups: []GroupSplit{row("a", 4, 5, "min"), row("b", 1, 3, "min")}},
		},
		"raised to its min, then levelled": {
			SplitRequest{Nodes: 5, Groups: []Group{group("a", 0, 2, 9), group("b", 1, 0, 9)}},
			SplitResult{Groups: []GroupSplit{row("a", 0, 3), row("b", 1, 3)}},
		},
		"proportional to weights": {
			SplitRequest{Nodes: 10, Policy: Proportional, Groups: []Group{weighted("a", 0, 0, 99, 2), weighted("b", 0, 0, 99, 1),
				weighted("c", 0, 0, 99, 0)}},
			SplitResult{Groups: []GroupSplit{row("a", 0, 7), row("b", 0, 3), row("c", 0, 0)}},
		},
		"proportional counts final sizes and takes nothing away": {
			SplitRequest{Nodes: 4, Policy: Proportional, Groups: []Group{weighted("a", 6, 0, 99, 1), weighted("b", 0, 0, 99, 1),
				weighted("c", 0, 1, 99, 0)}},
			SplitResult{Groups: []GroupSplit{row("a", 6, 6), row("b", 0, 3), row("c", 0, 1, "min")}},
		},
		"proportional gives the remainder to the chosen group": {
			SplitRequest{Nodes: 3, Policy: Proportional, Chosen: "b", Groups: []Group{weighted("a", 0, 0, 99, 5), weighted("b", 0, 0, 99, 5)}},
			SplitResult{Groups: []GroupSplit{row("a", 0, 1), row("b", 0, 2)}},
		},
		"priority fills in list order": {
			SplitRequest{Nodes: 8, Policy: Priority, Chosen: "a", Groups: []Group{group("c", 2, 0, 5), group("b", 9, 0, 4), group("a", 0, 0, 99)}},
			SplitResult{Groups: []GroupSplit{row("c", 2, 5, "max"), row("b", 9, 9, "overMax"), row("a", 0, 5)}},
		},
		"priority raises mins first": {
			SplitRequest{Nodes: 4, Policy: Priority, Groups: []Group{group("b", 0, 0, 9), group("a", 0, 3, 9)}},
			SplitResult{Groups: []GroupSplit{row("b", 0, 1), row("a", 0, 3, "min")}},
		},
		"priority knows no weights": {
			SplitRequest{Nodes: 4, Policy: Priority, Groups: []Group{weighted("a", 0, 0, 9, 0)}},
			SplitResult{Groups: []GroupSplit{row("a", 0, 4)}},
		},
		"headroom 5/1/1 and a need of 9": {
			SplitRequest{Nodes: 9, Chosen: "b", Groups: []Group{group("a", 0, 0, 99), group("b", 0, 0, 99), group("c", 0, 0, 99)}, Quotas: []Quota{
				{Name: "zone-a", Groups: []string{"a"}, Limit: 5}, {Name: "zone-b", Groups: []string{"b"}, Limit: 1},
				{Name: "zone-c", Groups: []string{"c"}, Limit: 1},
			}},
			SplitResult{Groups: []GroupSplit{row("a", 0, 5, "quota", "zone-a"), row("b", 0, 1, "quota", "zone-b"),
				row("c", 0, 1, "quota", "zone-c")}, Unplaced: 2},
		},
		"a quota counts what is there": {
			SplitRequest{Nodes: 9, Policy: Priority, Groups: []Group{group("a", 3, 0, 99), group("b", 3, 0, 99)}, Quotas: []Quota{
				{Name: "cores", Groups: []string{"b", "a"}, Units: []int64{2, 4}, Limit: 30},
			}},
			SplitResult{Groups: []GroupSplit{row("a", 3, 6, "quota", "cores"), row("b", 3, 3, "quota", "cores")}, Unplaced: 6},
		},
		"what a quota keeps away goes to others, in proportion": {
			SplitRequest{Nodes: 12, Policy: Proportional, Groups: []Group{weighted("a", 0, 0, 99, 4), weighted("b", 0, 0, 99, 1),
				weighted("c", 0, 0, 99, 1)}, Quotas: []Quota{
				{Name: "two", Groups: []string{"a", "b"}, Limit: 7}, {Name: "one", Groups: []string{"a"}, Limit: 5},
			}},
			SplitResult{Groups: []GroupSplit{row("a", 0, 5, "quota", "one"), row("b", 0, 2, "quota", "two"), row("c", 0, 5)}},
		},
		"an exceeded quota is no error": {
			SplitRequest{Nodes: 2, Policy: Proportional, Groups: []Group{group("a", 5, 0, 9), group("b", 5, 0, 9)},
				Quotas: []Quota{{Name: "q", Groups: []string{"a"}, Limit: 3}}},
			SplitResult{Groups: []GroupSplit{row("a", 5, 5, "quota", "q"), row("b", 5, 7)}},
		},
		"sums beyond 32 bits": {
			SplitRequest{Nodes: math.MaxInt64, Groups: []Group{group("a", MaxSize-1, 0, MaxSize), group("b", 5, 0, MaxSize),
				group("c", 5, 0, MaxSize)}},
			SplitResult{
				Groups:   []GroupSplit{row("a", MaxSize-1, MaxSize, "max"), row("b", 5, MaxSize, "max"), row("c", 5, MaxSize, "max")},
				Unplaced: math.MaxInt64 - 1 - 2*(MaxSize-5),
			},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Split(test.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("split (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSplitIsTheSameWhoeverIsChosen(t *testing.T) {
	for _, chosen := range []string{"", "a", "b", "c"} {
		for _, policy := range []Policy{Even, Proportional, Priority} {
			got, err := Split(SplitRequest{Nodes: 9, Policy: policy, Chosen: chosen, Groups: []Group{
				{Name: "a", Max: 5, Weight: 1}, {Name: "b", Max: 1, Weight: 1}, {Name: "c", Max: 1, Weight: 1},
			}})
			if err != nil || got.Groups[0].NewSize != 5 || got.Groups[1].NewSize != 1 || got.Groups[2].NewSize != 1 || got.Unplaced != 2 {
				t.Errorf("%s, %q chosen: %+v, %v, want 5/1/1 and 2 unplaced", policy, chosen, got, err)
			}
		}
	}
}

func TestSplitHoldsGroupsOfAUsedUpQuota(t *testing.T) {
	for _, policy := range []Policy{Even, Proportional, Priority} {
		for _, limit := range []int64{-7, 0, 3} {
			got, err := Split(SplitRequest{
				Nodes: 4, Policy: policy,
				Groups: []Group{{Name: "a", Size: 3, Max: 9, Weight: 1}, {Name: "b", Size: 2, Max: 9, Weight: 1}},
				Quotas: []Quota{{Name: "cores", Groups: []string{"a"}, Limit: limit}, {Name: "cores", Groups: []string{"b"}, Limit: 99}, {}},
			})
			want := []GroupSplit{{"a", 3, 3, ReasonQuota, "cores"}, {"b", 2, 6, ReasonNone, ""}}
			if diff := cmp.Diff(want, got.Groups); err != nil || diff != "" {
				t.Errorf("%s, limit %d: %v (-want +got):\n%s", policy, limit, err, diff)
			}
		}
	}
}

func TestSplitRefuses(t *testing.T) {
	ok := Group{Name: "a", Max: 5}
	for path, request := range map[string]SplitRequest{
		"nodes":               {Nodes: -1, Groups: []Group{ok}},
		"policy":              {Policy: "even", Groups: []Group{ok}},
		"groups":              {Nodes: 1},
		"chosen":              {Chosen: "b", Groups: []Group{ok}},
		"groups[0].name":      {Groups: []Group{{Max: 1}}},
		"groups[1].name":      {Groups: []Group{ok, ok}},
		"groups[0].size":      {Groups: []Group{{Name: "a", Size: -1}}},
		"groups[0].min":       {Groups: []Group{{Name: "a", Min: 6, Max: 5}}},
		"groups[0].max":       {Groups: []Group{{Name: "a", Max: MaxSize + 1}}},
		"groups[0].weight":    {Groups: []Group{{Name: "a", Weight: -1}}},
		"quotas[0].units":     {Groups: []Group{ok}, Quotas: []Quota{{Name: "q", Groups: []string{"a"}, Units: []int64{}}}},
		"quotas[0].units[0]":  {Groups: []Group{ok}, Quotas: []Quota{{Name: "q", Groups: []string{"a"}, Units: []int64{-1}}}},
		"quotas[0].groups[0]": {Groups: []Group{ok}, Quotas: []Quota{{Name: "q", Groups: []string{"b"}}}},
		"quotas[0].groups[1]": {Groups: []Group{ok}, Quotas: []Quota{{Name: "q", Groups: []string{"a", "a"}}}},
	} {
		_, err := Split(request)
		wantInvalid(t, err, path)
	}
	_, err := Split(SplitRequest{Groups: []Group{{Name: "a", Max: 1}, {Name: "b", Max: -1}}})
	if want := "groups[1].max: Invalid value: -1: must not be negative"; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}
