package zonalshift_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/zonalshift"
)

var zones = []string{"za", "zb", "zc", "zd"}

// fleet is any number of sets and lone groups over four zones.
var fleet = rapid.Custom(func(t *rapid.T) []zonalshift.Group {
	var out []zonalshift.Group
	sets := map[string]int{}
	for i := range rapid.IntRange(1, 8).Draw(t, "groups") {
		set := rapid.SampledFrom([]string{"", "s", "t"}).Draw(t, "set")
		g := group(fmt.Sprintf("g%d", i), set, rapid.SampledFrom(zones).Draw(t, "zone"), rapid.IntRange(0, 9).Draw(t, "size"))
		g.NotReady = rapid.IntRange(0, g.Size).Draw(t, "not ready")
		g.Ready -= g.NotReady
		g.Refuses = rapid.Bool().Draw(t, "refuses")
		sets[set]++
		out = append(out, g)
	}
	for i := range out {
		if sets[out[i].Set] == 1 {
			out[i].Set = "" // one group is not a set
		}
	}
	return out
})

var someMarks = rapid.SliceOfN(rapid.Custom(func(t *rapid.T) zonalshift.Mark {
	m := zone(rapid.SampledFrom(append([]string{"zx"}, zones...)).Draw(t, "zone"))
	m.Since = start.Add(time.Duration(rapid.IntRange(-3, 3).Draw(t, "since")) * time.Minute)
	if rapid.Bool().Draw(t, "ends") {
		m.Until = m.Since.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "lasts")) * time.Minute)
	}
	return m
}), 0, 5)

func TestPropertyNoSetAndNoFleetStarves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newShifts(t, zonalshift.Options{Detect: zonalshift.Detect{UnreadyPercentage: 30, Refusals: true, After: 1, Calm: 1}})
		for now := start; now.Before(start.Add(5 * time.Minute)); now = now.Add(time.Minute) {
			groups := fleet.Draw(t, "groups")
			d := s.Advance(now, someMarks.Draw(t, "marks"), groups)
			open, anywhere := map[string]bool{}, false
			for i := range groups {
				if d.Away[groups[i].Name] == "" {
					open[groups[i].Set], anywhere = true, true
				}
			}
			for i := range groups {
				if g := &groups[i]; !anywhere || g.Set != "" && !open[g.Set] {
					t.Fatalf("nothing is left of the set %q: %+v", g.Set, d)
				}
			}
		}
	})
}

func TestPropertyHeldAreTheSetsOfTheAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups := fleet.Draw(t, "groups")
		d := newShifts(t, zonalshift.Options{}).Advance(start, someMarks.Draw(t, "marks"), groups)
		for i := range groups {
			g := &groups[i]
			want := slices.ContainsFunc(groups, func(o zonalshift.Group) bool {
				return d.Away[o.Name] != "" && (o.Name == g.Name || o.Set != "" && o.Set == g.Set)
			})
			if held := d.Held[g.Name] != ""; held != want {
				t.Fatalf("%s held: %v, want %v", g.Name, held, want)
			}
		}
	})
}

func TestPropertySameAnswerForShuffledInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		o := zonalshift.Options{Detect: zonalshift.Detect{UnreadyPercentage: 30, After: 1, Calm: 1}}
		one, other := newShifts(t, o), newShifts(t, o)
		for i := range 3 {
			groups, marks := fleet.Draw(t, "groups"), someMarks.Draw(t, "marks")
			now := start.Add(time.Duration(i) * time.Minute)
			d := one.Advance(now, marks, groups)
			groups, marks = slices.Clone(groups), slices.Clone(marks)
			random.Shuffle(len(groups), func(i, j int) { groups[i], groups[j] = groups[j], groups[i] })
			random.Shuffle(len(marks), func(i, j int) { marks[i], marks[j] = marks[j], marks[i] })
			if again := other.Advance(now, marks, groups); !reflect.DeepEqual(d, again) {
				t.Fatalf("%+v\n%+v", d, again)
			}
		}
	})
}

// A zone whose state changes from moment to moment is shifted away and comes back at most once in
// the time that all must be well.
func TestPropertyDetectionDoesNotFlap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newShifts(t, zonalshift.Options{Detect: zonalshift.Detect{UnreadyPercentage: 50, Refusals: true}})
		var changed []time.Time
		away := false
		for now := start; now.Before(start.Add(90 * time.Minute)); now = now.Add(20 * time.Second) {
			groups := threeZones(10, 10, 10)
			groups[0].NotReady = rapid.SampledFrom([]int{0, 0, 2, 4, 6, 10, 10}).Draw(t, "not ready")
			groups[0].Ready = 10 - groups[0].NotReady
			groups[0].Refuses = rapid.Bool().Draw(t, "refuses")
			d := s.Advance(now, nil, groups)
			if is := d.Away["a"] != ""; is != away {
				changed, away = append(changed, now), is
			}
		}
		for i := range changed {
			if i > 1 && changed[i].Sub(changed[i-2]) < zonalshift.DefaultDetectCalm+zonalshift.DefaultDetectAfter {
				t.Fatalf("changes at %v", changed)
			}
		}
	})
}

// Demand that comes and goes levels the set again after a return. In no interval is the difference
// closed faster than the pace allows, and while the zone is shifted away it gets nothing.
func TestPropertySetsAreLevelAgainAtTheBoundedPace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pace := zonalshift.Pace{Interval: 5 * time.Minute, Nodes: rapid.IntRange(1, 4).Draw(t, "nodes"),
			Percentage: rapid.IntRange(0, 60).Draw(t, "percentage")}
		s := newShifts(t, zonalshift.Options{Pace: &pace})
		sizes := []int{rapid.IntRange(0, 5).Draw(t, "a"), rapid.IntRange(5, 30).Draw(t, "b"), 0}
		sizes[2] = sizes[1]
		grow := func(now time.Time, marks []zonalshift.Mark, demand int) {
			groups := threeZones(sizes[0], sizes[1], sizes[2])
			d := s.Advance(now, marks, groups)
			request := nodegroupset.SplitRequest{Nodes: int64(demand)}
			for i := range groups {
				if d.Away[groups[i].Name] == "" {
					lag := int64(d.Lag[groups[i].Name])
					request.Groups = append(request.Groups, nodegroupset.Group{Name: groups[i].Name, Size: int64(sizes[i]) + lag, Max: 1000 + lag})
				}
			}
			result, err := nodegroupset.Split(request)
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range result.Groups {
				sizes[g.Name[0]-'a'] += int(g.NewSize - g.Size)
			}
		}
		small := sizes[0]
		now := start
		for range 5 {
			now = now.Add(time.Minute)
			grow(now, []zonalshift.Mark{zone("za")}, rapid.IntRange(0, 9).Draw(t, "demand"))
		}
		if sizes[0] != small {
			t.Fatalf("a got nodes while it was shifted away: %v", sizes)
		}
		lacks := func() int { return (sizes[1]+sizes[2]+1)/2 - sizes[0] }
		for range 200 {
			before := lacks()
			allowed := max(pace.Nodes, (before*pace.Percentage+99)/100)
			for range 5 {
				now = now.Add(time.Minute)
				grow(now, nil, rapid.IntRange(0, 6).Draw(t, "demand"))
			}
			if closed := before - lacks(); before > 0 && closed > allowed+1 { // what cannot be divided by two and three
				t.Fatalf("%d of %d were made up for in one interval, %d are allowed: %v", closed, before, allowed, sizes)
			}
			if slices.Max(sizes)-slices.Min(sizes) <= 1 {
				return
			}
		}
		t.Fatalf("not level after 200 intervals: %v", sizes)
	})
}

func TestPropertyInputsStayAsTheyWere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		groups, marks := fleet.Draw(t, "groups"), someMarks.Draw(t, "marks")
		before, marksBefore := slices.Clone(groups), slices.Clone(marks)
		for i := range before {
			before[i].Labels = maps.Clone(before[i].Labels)
		}
		newShifts(t, zonalshift.Options{}).Advance(start, marks, groups)
		if !reflect.DeepEqual(groups, before) || !reflect.DeepEqual(marks, marksBefore) {
			t.Fatal("changed")
		}
	})
}
