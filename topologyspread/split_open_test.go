package topologyspread

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestSplitOpensWhatLevellingWould(t *testing.T) {
	type list = []int64
	tests := map[string]struct {
		request       SplitRequest
		fewest, nodes list
	}{
		"an even number of pods for two zones is odd in nodes": {zonesToSplit(30, 1, 2, list{0, 0}, list{0, 0}, list{30, 30}, "ab"), list{15, 0},
			list{8, 8}},
		"three zones": {zonesToSplit(10, 1, 2, list{0, 0, 0}, list{0, 0, 0}, list{9, 9, 9}, "abc"), list{5, 0, 0},
			list{2, 2, 2}},
		"no more nodes than zones": {zonesToSplit(4, 1, 2, list{0, 0, 0}, list{0, 0, 0}, list{9, 9, 9}, "abc"), list{1, 1, 0},
			list{1, 1, 0}},
		"one node opens one zone": {zonesToSplit(2, 1, 2, list{0, 0, 0}, list{0, 0, 0}, list{9, 9, 9}, "abc"), list{1, 0, 0},
			list{1, 0, 0}},
		"a zone that would hold the others back": {zonesToSplit(12, 1, 4, list{5, 5, 0}, list{2, 2, 0}, list{9, 9, 1}, "c"), list{2, 2, 0},
			list{2, 2, 0}},
		"one of two zones would hold others back": {zonesToSplit(14, 1, 2, list{0, 0, 0}, list{0, 0, 0}, list{9, 9, 1}, "abc"), list{7, 0, 0},
			list{4, 4, 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			for level, want := range map[bool]list{false: test.fewest, true: test.nodes} {
				r := test.request
				r.OpenLevel = level
				got, err := Split(r)
				if err != nil {
					t.Fatal(err)
				}
				var nodes list
				for _, g := range got.Groups {
					nodes = append(nodes, g.NewSize-g.Size)
				}
				if !slices.Equal(nodes, want) || got.Unplaced > 0 {
					t.Errorf("open %t: nodes %v, %d unplaced; want %v", level, nodes, got.Unplaced, want)
				}
			}
		})
	}

	// Room that is free in a zone is not given up for a zone that costs more than a node.
	r := zonesToSplit(60, 1, 2, list{0, 0}, list{30, 0}, list{60, 60}, "b")
	r.Domains[0].FreeSlots, r.OpenLevel = 50, true
	if got, err := Split(r); err != nil || got.Groups[0].NewSize != 35 || got.Groups[1].NewSize != 0 {
		t.Errorf("%+v, %v: want five nodes in a", got, err)
	}
}

// As many pods are placed as without, on a node more for each opened domain at most, and no domain
// has nodes that had none before for nothing.
func TestSplitThatOpensPlacesAsManyPods(t *testing.T) {
	most := sizes{pods: 40, skew: 4, perNode: 4, domains: 5, count: 6, free: 5, size: 2, room: 6}
	rapid.Check(t, func(t *rapid.T) {
		r := drawSplit(t, most)
		r.ExtraNodes = 0
		fewest, err := Split(r)
		if err != nil {
			t.Fatal(err)
		}
		r.OpenLevel = true
		level, err := Split(r)
		if err != nil {
			t.Fatal(err)
		}
		o := newOracle(t, &r, placeableByRule)
		var sizes []int64
		for _, g := range o.groups {
			i := slices.IndexFunc(level.Groups, func(other GroupSize) bool { return other.Name == g.Name })
			sizes = append(sizes, level.Groups[i].NewSize)
		}
		if placed := min(r.Pods, o.placeable(sizes)); level.Placed != fewest.Placed || placed != fewest.Placed {
			t.Fatalf("%+v: %d pods placed, said %d; %d without", r, placed, level.Placed, fewest.Placed)
		}
		opened := map[string]bool{}
		nodes := func(s SplitResult) (n int64) {
			for i, g := range s.Groups {
				n += g.NewSize - g.Size
				if j := slices.IndexFunc(r.Domains, func(d SplitDomain) bool { return d.Name == r.Groups[i].Domain }); !r.Domains[j].Active {
					opened[r.Domains[j].Name] = true
				}
			}
			return n
		}
		if more := nodes(level) - nodes(fewest); more < 0 || more > int64(len(opened)) {
			t.Fatalf("%+v: %d nodes more", r, more)
		}
	})
}
