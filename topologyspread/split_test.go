package topologyspread

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/apportion"
)

// zonesToSplit is a request with one group of up to max nodes in each zone; the zones are active
// where anything is, except those named in closed.
func zonesToSplit(pods, skew, perNode int64, counts, sizes, most []int64, closed string) SplitRequest {
	r := SplitRequest{Pods: pods, MaxSkew: skew, PodsPerNode: perNode}
	for i := range counts {
		zone := string(rune('a' + i))
		r.Domains = append(r.Domains, SplitDomain{Name: zone, MatchingPods: counts[i], Active: !strings.Contains(closed, zone)})
		r.Groups = append(r.Groups, SplitGroup{Name: "ng-" + zone, Domain: zone, Size: sizes[i], Max: most[i]})
	}
	return r
}

func TestSplitExamples(t *testing.T) {
	type list = []int64
	tests := map[string]struct {
		request  SplitRequest
		nodes    list
		unplaced int64
		binding  string
	}{
		"three zones without pods": {request: zonesToSplit(9, 1, 2, list{0, 0, 0}, list{3, 3, 3}, list{9, 9, 9}, ""), nodes: list{2, 2, 2}},
		"the lowest first":         {request: zonesToSplit(6, 1, 2, list{3, 1, 0}, list{2, 1, 0}, list{9, 9, 9}, "c"), nodes: list{0, 1, 2}},
		"all at once":              {request: zonesToSplit(30, 1, 2, list{2, 2, 2}, list{1, 1, 1}, list{20, 20, 20}, ""), nodes: list{5, 5, 5}},
		"a zone is opened because that takes fewer nodes": {request: zonesToSplit(4, 1, 4, list{5, 5, 0}, list{2, 2, 0}, list{9, 9, 1}, "c"),
			nodes: list{0, 0, 1}},
		"an active zone at its maximum binds": {request: zonesToSplit(12, 1, 4, list{5, 5, 0}, list{2, 2, 0}, list{9, 9, 1}, ""),
			nodes: list{0, 0, 1}, unplaced: 8, binding: "c"},
		"a zone that would hold the others back stays closed": {request: zonesToSplit(12, 1, 4, list{5, 5, 0}, list{2, 2, 0}, list{9, 9, 1}, "c"),
			nodes: list{2, 2, 0}},
		"pods are counted, not nodes": {request: zonesToSplit(2, 2, 1, list{0, 1, 1}, list{5, 3, 5}, list{9, 9, 9}, ""),
			nodes: list{1, 1, 0}},
		"no pods": {request: zonesToSplit(0, 1, 1, list{0, 0}, list{1, 1}, list{9, 9}, ""), nodes: list{0, 0}},
		"more than all groups have room for": {request: zonesToSplit(9, 1, 1, list{0, 0}, list{1, 1}, list{2, 3}, ""), nodes: list{1, 2},
			unplaced: 6, binding: "a"},
		"a group over its maximum is left alone": {request: zonesToSplit(4, 4, 1, list{0, 0}, list{5, 1}, list{3, 9}, ""), nodes: list{0, 4}},
		"numbers as large as can be": {request: zonesToSplit(MaxCount, MaxCount, 1, list{MaxCount, 0}, list{0, 0}, list{MaxCount, MaxCount}, ""),
			nodes: list{MaxCount / 2, MaxCount/2 + 1}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Split(test.request)
			if err != nil {
				t.Fatal(err)
			}
			var nodes []int64
			for _, g := range got.Groups {
				nodes = append(nodes, g.NewSize-g.Size)
			}
			if !slices.Equal(nodes, test.nodes) || got.Unplaced != test.unplaced || strings.Join(got.Binding, "") != test.binding {
				t.Errorf("nodes %v, %d unplaced, binding %v; want %v, %d, %s", nodes, got.Unplaced, got.Binding, test.nodes, test.unplaced,
					test.binding)
			}
		})
	}
}

// With a domain too few, as many pods as maxSkew go to each, and none of them binds for want of room.
func TestSplitOpensDomainsForMinDomains(t *testing.T) {
	r := zonesToSplit(8, 1, 4, []int64{2, 2, 0}, []int64{1, 1, 0}, []int64{9, 9, 9}, "c")
	r.MinDomains = 3
	got, err := Split(r)
	if err != nil || got.Placed != 8 || got.Groups[2].NewSize == 0 {
		t.Errorf("%+v, %v: want all 8 placed and c opened", got, err)
	}
	r.MinDomains = 4
	if got, err = Split(r); err != nil || got.Placed != 1 || len(got.Binding) > 0 {
		t.Errorf("%+v, %v: want one pod in c, which no slot can change", got, err)
	}
}

func TestSplitRefuses(t *testing.T) {
	good := zonesToSplit(9, 1, 2, []int64{0, 0}, []int64{3, 3}, []int64{9, 9}, "")
	tests := map[string]func(r *SplitRequest){
		"pods: Invalid value: -1: must be at least 0":                                         func(r *SplitRequest) { r.Pods = -1 },
		"maxSkew: Invalid value: 0: must be at least 1":                                       func(r *SplitRequest) { r.MaxSkew = 0 },
		"podsPerNode: Invalid value: 0: must be at least 1":                                   func(r *SplitRequest) { r.PodsPerNode = 0 },
		"extraNodes: Invalid value: 2147483648: must be at most 2147483647":                   func(r *SplitRequest) { r.ExtraNodes = MaxCount + 1 },
		`domains[1].name: Invalid value: "a": is listed twice`:                                func(r *SplitRequest) { r.Domains[1].Name = "a" },
		"domains[0].matchingPods: Invalid value: 2: must be 0 in a domain that is not active": func(r *SplitRequest) { r.Domains[0] = SplitDomain{Name: "a", MatchingPods: 2} },
		"domains[0].freeSlots: Invalid value: 3: must be 0 in a domain that is not active":    func(r *SplitRequest) { r.Domains[0] = SplitDomain{Name: "a", FreeSlots: 3} },
		`groups[1].name: Invalid value: "ng-a": is listed twice`:                              func(r *SplitRequest) { r.Groups[1].Name = "ng-a" },
		`groups[1].domain: Invalid value: "x": is none of the domains`:                        func(r *SplitRequest) { r.Groups[1].Domain = "x" },
		"groups[0].size: Invalid value: -1: must be at least 0":                               func(r *SplitRequest) { r.Groups[0].Size = -1 },
	}
	for want, change := range tests {
		r := good
		r.Domains, r.Groups = slices.Clone(good.Domains), slices.Clone(good.Groups)
		change(&r)
		_, err := Split(r)
		var invalid *apportion.InvalidError
		if !errors.As(err, &invalid) || err.Error() != "spread split: "+want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// The order of the lists does not matter, and the request stays as it was.
func TestSplitIgnoresTheOrderOfTheLists(t *testing.T) {
	r := zonesToSplit(17, 2, 3, []int64{4, 0, 1, 0}, []int64{2, 0, 1, 0}, []int64{9, 3, 2, 9}, "bd")
	r.ExtraNodes = 2
	want, err := Split(r)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(r.Domains)
	slices.Reverse(r.Groups)
	before := fmt.Sprint(r)
	got, err := Split(r)
	if err != nil || fmt.Sprint(r) != before {
		t.Fatalf("%v; the request was %s and is %v", err, before, r)
	}
	slices.Reverse(got.Groups)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
