package linked

import (
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestOrderOfCandidates(t *testing.T) {
	for name, test := range map[string]struct {
		groups []downGroup
		busy   []string
		want   string
	}{
		"nodes in no set keep their places": {
			groups: []downGroup{{name: "b", set: "b", size: 2}, {name: "c", size: 2}, {name: "d", set: "b", size: 2}},
			want:   "d-0 b-0 c-0 c-1 d-1 b-1"},
		"the largest group first": {
			groups: []downGroup{{name: "a", set: "a", size: 4}, {name: "b", set: "a", size: 2}}, want: "a-0 a-1 b-0 a-2 b-1 a-3"},
		"empty nodes first": {
			groups: []downGroup{{name: "a", set: "a", size: 3}, {name: "b", set: "a", size: 3}}, busy: []string{"a-0", "a-1", "a-2", "b-1"},
			want: "b-0 b-2 a-0 a-1 b-1 a-2"},
		"nodes on their way out are not counted twice": {
			groups: []downGroup{{name: "a", set: "a", size: 3, going: 1}, {name: "b", set: "a", size: 3}}, want: "b-0 b-1 a-2 a-0 b-2 a-1"},
		"sets apart": {
			groups: []downGroup{{name: "a", set: "a", size: 1}, {name: "b", set: "b", size: 1}, {name: "c", set: "a", size: 1},
				{name: "d", set: "b", size: 1}},
			want: "c-0 d-0 a-0 b-0"},
		"groups that are all or nothing, and those whose size is not known, keep theirs": {
			groups: []downGroup{{name: "a", set: "a", size: 1, whole: true}, {name: "b", set: "a", size: 2}, {name: "c", set: "a", size: 2}},
			want:   "a-0 c-0 b-0 c-1 b-1"},
		"a group that reaches its min counts no more": {
			groups: []downGroup{{name: "a", set: "a", size: 4, min: 3}, {name: "b", set: "a", size: 2}}, want: "a-0 b-0 b-1 a-1 a-2 a-3"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := strings.Join(newDownCluster(time.Hour, test.groups...).order(0, test.busy...), " "); got != test.want {
				t.Errorf("order %s, want %s", got, test.want)
			}
		})
	}
}

func TestOrderOfCandidatesProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		drawn := drawDownCase(t)
		order := drawn.cluster().order(0)
		if again := drawn.cluster().order(rapid.Uint64().Draw(t, "seed")); !slices.Equal(order, again) {
			t.Fatalf("order %v, of the same nodes in another order %v", order, again)
		}
		byName := slices.Sorted(slices.Values(order)) // what the next processor answers
		byGroup := map[string][]string{}
		for i, node := range order {
			group := drawn.groups[slices.IndexFunc(drawn.groups, func(g downGroup) bool { return g.name == node[:1] })]
			byGroup[group.name] = append(byGroup[group.name], node)
			at := drawn.groups[slices.IndexFunc(drawn.groups, func(g downGroup) bool { return g.name == byName[i][:1] })]
			if group.set != at.set {
				t.Fatalf("%s has the place of %s, which is not of its set", node, byName[i])
			}
		}
		for group, of := range byGroup {
			if !slices.IsSorted(of) {
				t.Fatalf("nodes of group %s have changed places: %v", group, of)
			}
		}
	})
}
