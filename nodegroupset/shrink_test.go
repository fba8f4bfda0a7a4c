package nodegroupset

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShrink(t *testing.T) {
	group := func(name, set string, size, minimum int64) ShrinkGroup { return ShrinkGroup{name, set, size, minimum} }
	three := func(a, b, c int64) []ShrinkGroup {
		return []ShrinkGroup{group("a", "s", a, 0), group("b", "s", b, 0), group("c", "s", c, 0)}
	}
	free := func(names ...string) []ShrinkCandidate {
		var out []ShrinkCandidate
		for _, name := range names {
			out = append(out, ShrinkCandidate{Group: name})
		}
		return out
	}
	level := func(i int, behind string) ShrinkWait { return ShrinkWait{i, ReasonWaitsForLevel, behind} }
	limit := func(i int) ShrinkWait { return ShrinkWait{i, ReasonWaitsForLimit, ""} }
	held := func(i int) ShrinkWait { return ShrinkWait{i, ReasonAtMin, ""} }
	tests := map[string]struct {
		request ShrinkRequest
		want    ShrinkResult
	}{
		"nothing asked": {},
		"10/10/10 with candidates everywhere": {
			ShrinkRequest{three(10, 10, 10), free("a", "a", "b", "b", "c", "c"), 4, Unlimited, nil},
			ShrinkResult{[]int{4, 2, 0, 5}, []ShrinkWait{limit(1), limit(3)}},
		},
		"the last names first, so that sizes stay those of an even split": {
			ShrinkRequest{three(4, 4, 4), free("a", "b", "c"), 2, Unlimited, nil},
			ShrinkResult{[]int{2, 1}, []ShrinkWait{limit(0)}},
		},
		"only one group has candidates": {
			ShrinkRequest{three(10, 10, 10), free("b", "b", "b"), Unlimited, Unlimited, nil},
			ShrinkResult{[]int{0}, []ShrinkWait{level(1, "c"), level(2, "c")}},
		},
		"only a smaller group has": {
			ShrinkRequest{three(10, 9, 10), free("b"), Unlimited, Unlimited, nil},
			ShrinkResult{nil, []ShrinkWait{level(0, "c")}},
		},
		"the largest comes down first": {
			ShrinkRequest{three(7, 10, 6), free("a", "b", "b", "b", "b", "c"), Unlimited, Unlimited, nil},
			ShrinkResult{[]int{1, 2, 3, 4, 0, 5}, nil},
		},
		"overdue although it becomes uneven": {
			ShrinkRequest{three(10, 10, 10), []ShrinkCandidate{{"b", false, true}, {"b", false, true}, {"b", false, false}}, Unlimited, Unlimited,
				nil},
			ShrinkResult{[]int{0, 1}, []ShrinkWait{level(2, "c")}},
		},
		"overdue of the largest group first": {
			ShrinkRequest{three(10, 5, 6), []ShrinkCandidate{{"b", false, true}, {"c", false, true}, {"c", false, true}}, 2, Unlimited, nil},
			ShrinkResult{[]int{1, 2}, []ShrinkWait{limit(0)}},
		},
		"by level before overdue": {
			ShrinkRequest{three(3, 9, 3), []ShrinkCandidate{{"a", false, true}, {"b", true, false}}, 1, Unlimited, nil},
			ShrinkResult{[]int{1}, []ShrinkWait{limit(0)}},
		},
		"without pods before with, overdue before not": {
			ShrinkRequest{three(5, 5, 5), []ShrinkCandidate{{"c", true, true}, {"b", false, false}, {"a", false, true}}, Unlimited, Unlimited, nil},
			ShrinkResult{[]int{2, 1, 0}, nil},
		},
		"a group at its min does not count": {
			ShrinkRequest{[]ShrinkGroup{group("a", "s", 12, 12), group("b", "s", 5, 0), group("c", "s", 4, 6)}, free("a", "b", "b", "c"), Unlimited,
				Unlimited, nil},
			ShrinkResult{[]int{1, 2}, []ShrinkWait{held(0), held(3)}},
		},
		"a group counts until it is at its min": {
			ShrinkRequest{[]ShrinkGroup{group("a", "s", 6, 5), group("b", "s", 4, 0)}, free("b", "a", "a"), Unlimited, Unlimited, nil},
			ShrinkResult{[]int{1, 0}, []ShrinkWait{held(2)}},
		},
		"drains used up: those without pods go on": {
			ShrinkRequest{three(3, 3, 3), []ShrinkCandidate{{"c", true, false}, {"c", true, false}, {"c", false, false}, {"b", true, false},
				{"a", false, false}}, Unlimited, 1, nil},
			ShrinkResult{[]int{4, 0}, []ShrinkWait{level(1, "b"), level(2, "b"), limit(3)}},
		},
		"no drains at all": {
			ShrinkRequest{three(2, 2, 2), []ShrinkCandidate{{"c", true, false}, {"c", false, false}}, Unlimited, 0, nil},
			ShrinkResult{[]int{1}, []ShrinkWait{level(0, "b")}},
		},
		"two sets share the limit in the order of candidates": {
			ShrinkRequest{
				[]ShrinkGroup{group("a", "s", 5, 0), group("b", "s", 5, 0), group("x", "t", 9, 0), group("y", "t", 9, 0)},
				free("x", "b", "y", "a"), 3, Unlimited, nil,
			},
			ShrinkResult{[]int{1, 2, 0}, []ShrinkWait{limit(3)}},
		},
		"groups without a set never wait for each other": {
			ShrinkRequest{[]ShrinkGroup{group("a", "", 3, 1), group("b", "", 9, 0)}, free("a", "a", "a", "b"), Unlimited, Unlimited, nil},
			ShrinkResult{[]int{0, 1, 3}, []ShrinkWait{held(2)}},
		},
		"no nodes may go": {
			ShrinkRequest{three(3, 2, 0), free("a", "b", "c"), 0, Unlimited, nil},
			ShrinkResult{nil, []ShrinkWait{limit(0), level(1, "a"), held(2)}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Shrink(test.request)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("shrink (-want +got):\n%s", diff)
			}
		})
	}
}

func TestShrinkRefuses(t *testing.T) {
	ok := ShrinkGroup{Name: "a", Size: 5}
	for path, request := range map[string]ShrinkRequest{
		"nodes":               {Nodes: -1},
		"drains":              {Drains: -1},
		"groups[0].name":      {Groups: []ShrinkGroup{{Name: " "}}},
		"groups[1].name":      {Groups: []ShrinkGroup{ok, ok}},
		"groups[0].size":      {Groups: []ShrinkGroup{{Name: "a", Size: -1}}},
		"groups[1].min":       {Groups: []ShrinkGroup{ok, {Name: "b", Min: MaxSize + 1}}},
		"candidates[1].group": {Groups: []ShrinkGroup{ok}, Candidates: []ShrinkCandidate{{Group: "a"}, {Group: "b"}}},
	} {
		_, err := Shrink(request)
		wantInvalid(t, err, path)
	}
	_, err := Shrink(ShrinkRequest{Groups: []ShrinkGroup{ok}, Candidates: []ShrinkCandidate{{Group: "b"}}})
	if want := `candidates[0].group: Invalid value: "b": is none of the groups`; err == nil || err.Error() != want {
		t.Errorf("error %q, want %q", err, want)
	}
}
