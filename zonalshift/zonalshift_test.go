package zonalshift_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/zonalshift"
)

var start = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// group returns a group of a set in a zone, with a size.
func group(name, set, zone string, size int) zonalshift.Group {
	return zonalshift.Group{Name: name, Set: set, Labels: map[string]string{v1.LabelTopologyZone: zone}, Size: size, Max: 1000, Ready: size}
}

// threeZones is a set of a group in each of three zones.
func threeZones(a, b, c int) []zonalshift.Group {
	return []zonalshift.Group{group("a", "a", "za", a), group("b", "a", "zb", b), group("c", "a", "zc", c)}
}

func zone(name string) zonalshift.Mark { return zonalshift.Mark{Domain: zonalshift.Zone(name)} }

func newShifts(t rapid.TB, o zonalshift.Options) *zonalshift.Shifts {
	t.Helper()
	s, err := zonalshift.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func Example() {
	shifts, err := zonalshift.New(zonalshift.Options{})
	if err != nil {
		panic(err)
	}
	groups := []zonalshift.Group{group("a", "a", "eu-west-1a", 2), group("b", "a", "eu-west-1b", 10), group("c", "a", "eu-west-1c", 10)}
	power := zonalshift.Mark{Domain: zonalshift.Zone("eu-west-1a"), Reason: "power failure", Since: start}
	d := shifts.Advance(start, []zonalshift.Mark{power}, groups)
	fmt.Println("a does not grow:", d.Away["a"])
	fmt.Println("b does not shrink:", d.Held["b"])
	d = shifts.Advance(start.Add(time.Hour), nil, groups)
	fmt.Printf("%s is back: %s; a counts as larger by %d\n", d.Ended[0].Domain, d.Ended[0].Reason, d.Lag["a"])
	// Output:
	// a does not grow: zone eu-west-1a is shifted away: power failure
	// b does not shrink: zone eu-west-1a is shifted away: power failure
	// zone eu-west-1a is back: it was returned; a counts as larger by 6
}

func TestWhatAShiftKeepsFromGrowingAndShrinking(t *testing.T) {
	rack := func(g zonalshift.Group, rack string) zonalshift.Group {
		g.Labels = maps.Clone(g.Labels)
		g.Labels["example.com/rack"] = rack
		return g
	}
	old := group("b", "a", "", 1)
	old.Labels = map[string]string{v1.LabelFailureDomainBetaZone: "zb"}
	since := func(m zonalshift.Mark, after time.Duration) zonalshift.Mark { m.Since = start.Add(after); return m }
	until := func(m zonalshift.Mark, after time.Duration) zonalshift.Mark { m.Until = start.Add(after); return m }
	alone := group("x", "", "za", 3)
	tests := map[string]struct {
		marks      []zonalshift.Mark
		groups     []zonalshift.Group
		away, held string
		ignored    string
	}{
		"nothing is marked":  {nil, threeZones(1, 2, 3), "", "", ""},
		"one of three zones": {[]zonalshift.Mark{zone("za")}, threeZones(1, 2, 3), "a", "a b c", ""},
		"two of three zones": {[]zonalshift.Mark{zone("za"), zone("zc")}, threeZones(1, 2, 3), "a c", "a b c", ""},
		"a set elsewhere is left alone": {[]zonalshift.Mark{zone("za")},
			append(threeZones(1, 2, 3), group("p", "p", "zb", 1), group("q", "p", "zc", 1)), "a", "a b c", ""},
		"a group that is alone": {[]zonalshift.Mark{zone("za")}, append(threeZones(1, 2, 3), alone), "a x", "a b c x", ""},
		"another label": {[]zonalshift.Mark{{Domain: zonalshift.Domain{Key: "example.com/rack", Value: "r1"}}},
			[]zonalshift.Group{rack(group("a", "a", "za", 1), "r1"), rack(group("b", "a", "za", 1), "r2")}, "a", "a b", ""},
		"the older label of a zone": {[]zonalshift.Mark{zone("zb")}, []zonalshift.Group{group("a", "a", "za", 1), old}, "b", "a b", ""},
		"not begun":                 {[]zonalshift.Mark{since(zone("za"), time.Minute)}, threeZones(1, 2, 3), "", "", ""},
		"its time is over":          {[]zonalshift.Mark{until(zone("za"), 0)}, threeZones(1, 2, 3), "", "", ""},
		"an unknown zone":           {[]zonalshift.Mark{zone("zx")}, threeZones(1, 2, 3), "", "", "zone zx: no node group is there"},
		"all zones, the last is ignored": {[]zonalshift.Mark{since(zone("za"), -1), since(zone("zb"), -3), since(zone("zc"), -2)},
			threeZones(1, 2, 3),
			"b c", "a b c", "zone za: no node group elsewhere could grow in its stead"},
		"all zones of one set": {[]zonalshift.Mark{zone("za"), zone("zb")},
			append(threeZones(1, 2, 3), group("p", "p", "za", 1), group("q", "p", "zb", 1)),
			"a b p", "a b c p q", "zone zb, set p: no member of the set elsewhere could grow in its stead"},
		"a set in one zone": {[]zonalshift.Mark{zone("za")}, append(threeZones(1, 2, 3), group("p", "p", "za", 1), group("q", "p", "za", 1)),
			"a", "a b c", "zone za, set p: no member of the set elsewhere could grow in its stead"},
		"the whole fleet is in one zone": {[]zonalshift.Mark{zone("za")}, []zonalshift.Group{alone}, "", "",
			"zone za: no node group elsewhere could grow in its stead"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			d := newShifts(t, zonalshift.Options{}).Advance(start, test.marks, test.groups)
			if got := strings.Join(slices.Sorted(maps.Keys(d.Away)), " "); got != test.away {
				t.Errorf("away: %q, want %q", got, test.away)
			}
			if got := strings.Join(slices.Sorted(maps.Keys(d.Held)), " "); got != test.held {
				t.Errorf("held: %q, want %q", got, test.held)
			}
			var ignored []string
			for _, i := range d.Ignored {
				text := i.Domain.String()
				if i.Set != "" {
					text += ", set " + i.Set
				}
				ignored = append(ignored, text+": "+i.Reason)
			}
			if got := strings.Join(ignored, "; "); got != test.ignored {
				t.Errorf("ignored: %q, want %q", got, test.ignored)
			}
		})
	}
}

func TestAShiftEndsByItself(t *testing.T) {
	s := newShifts(t, zonalshift.Options{})
	m := zone("za")
	m.Since, m.Until = start, start.Add(2*time.Hour)
	d := s.Advance(start, []zonalshift.Mark{m}, threeZones(3, 3, 3))
	if len(d.Began) != 1 || !d.Next.Equal(m.Until) || d.Away["a"] != "zone za is shifted away" {
		t.Errorf("at its beginning: %+v", d)
	}
	if d = s.Advance(m.Until.Add(-1), []zonalshift.Mark{m}, threeZones(3, 3, 3)); len(d.Began)+len(d.Ended) > 0 || len(d.Shifted) != 1 {
		t.Errorf("just before its end: %+v", d)
	}
	d = s.Advance(m.Until, []zonalshift.Mark{m}, threeZones(3, 3, 3))
	if len(d.Shifted) > 0 || len(d.Ended) != 1 || d.Ended[0].Reason != "its time is over" || len(d.Away)+len(d.Held) > 0 {
		t.Errorf("at its end: %+v", d)
	}
}

// Each step is one interval later; demand makes the groups level as far as the lag allows.
func TestReturnAtTheDefaultPace(t *testing.T) {
	s := newShifts(t, zonalshift.Options{})
	s.Advance(start, []zonalshift.Mark{zone("za")}, threeZones(0, 20, 20))
	var got []int
	size, now := 0, start
	for range 12 {
		now = now.Add(zonalshift.DefaultReturnInterval)
		d := s.Advance(now, nil, threeZones(size, 20, 20))
		again := s.Advance(now.Add(time.Minute), nil, threeZones(20-d.Lag["a"], 20, 20))
		if again.Lag["a"] != d.Lag["a"] {
			t.Errorf("within an interval the lag goes from %d to %d", d.Lag["a"], again.Lag["a"])
		}
		size = 20 - d.Lag["a"]
		got = append(got, size)
	}
	if want := []int{5, 9, 12, 14, 16, 17, 18, 19, 20, 20, 20, 20}; !slices.Equal(got, want) {
		t.Errorf("sizes %v, want %v", got, want)
	}
}

func TestTimeAloneDoesNotRaiseThePace(t *testing.T) {
	s := newShifts(t, zonalshift.Options{})
	s.Advance(start, []zonalshift.Mark{zone("za")}, threeZones(0, 20, 20))
	for _, after := range []time.Duration{time.Minute, time.Hour, 24 * time.Hour} {
		if d := s.Advance(start.Add(after), nil, threeZones(0, 20, 20)); d.Lag["a"] != 15 {
			t.Errorf("after %s: lag %d, want 15", after, d.Lag["a"])
		}
	}
}

func TestAMaximumDoesNotRaiseThePace(t *testing.T) {
	s := newShifts(t, zonalshift.Options{})
	s.Advance(start, []zonalshift.Mark{zone("za")}, threeZones(0, 20, 20))
	groups := threeZones(0, 20, 20)
	groups[0].Max = 8
	if d := s.Advance(start, nil, groups); d.Lag["a"] != 15 {
		t.Errorf("lag %v", d.Lag)
	}
	groups[0].Size = 8
	if d := s.Advance(start.Add(zonalshift.DefaultReturnInterval), nil, groups); len(d.Lag) > 0 {
		t.Errorf("at its maximum: lag %v", d.Lag)
	}
}

func TestReturnAtOnceWithoutAnInterval(t *testing.T) {
	s := newShifts(t, zonalshift.Options{Pace: &zonalshift.Pace{Nodes: 1}})
	s.Advance(start, []zonalshift.Mark{zone("za")}, threeZones(0, 20, 20))
	if d := s.Advance(start, nil, threeZones(0, 20, 20)); len(d.Lag) > 0 {
		t.Errorf("lag %v", d.Lag)
	}
}

func TestAnotherProcessGoesOnWithTheReturn(t *testing.T) {
	s := newShifts(t, zonalshift.Options{})
	s.Advance(start, []zonalshift.Mark{zone("za")}, threeZones(0, 20, 20))
	other := newShifts(t, zonalshift.Options{})
	other.Restore(s.Away())
	if d := other.Advance(start, nil, threeZones(0, 20, 20)); d.Lag["a"] != 15 {
		t.Errorf("lag %v", d.Lag)
	}
	if got := other.Away(); !slices.Equal(got, []string{"a"}) {
		t.Errorf("away or returning: %v", got)
	}
}

func TestDetection(t *testing.T) {
	type state struct {
		after         time.Duration
		unready       int // of 4 nodes of zone za
		refuses, away bool
	}
	m := time.Minute
	tests := map[string]struct {
		detect zonalshift.Detect
		states []state
	}{
		"off by default": {zonalshift.Detect{}, []state{{0, 4, true, false}, {time.Hour, 4, true, false}}},
		"half of the nodes, for a minute": {zonalshift.Detect{UnreadyPercentage: 50},
			[]state{{0, 2, false, false}, {m - 1, 2, false, false}, {m, 2, false, true}}},
		"it must last": {zonalshift.Detect{UnreadyPercentage: 50}, []state{{0, 2, false, false}, {m / 2, 1, false, false},
			{m, 2, false, false}, {2 * m, 2, false, true}}},
		"one node is not enough": {zonalshift.Detect{UnreadyPercentage: 10}, []state{{0, 1, false, false}, {time.Hour, 1, false, false}}},
		"back after ten quiet minutes": {zonalshift.Detect{UnreadyPercentage: 50},
			[]state{{0, 4, false, false}, {m, 4, false, true}, {2 * m, 0, false, true}, {12*m - 1, 0, false, true}, {12 * m, 0, false, false}}},
		"below the share is not well": {zonalshift.Detect{UnreadyPercentage: 50},
			[]state{{0, 4, false, false}, {m, 4, false, true}, {2 * m, 1, false, true}, {time.Hour, 1, false, true}, {61 * m, 0, false, true},
				{71 * m, 0, false, false}}},
		"refusals are another matter": {zonalshift.Detect{UnreadyPercentage: 50}, []state{{0, 0, true, false}, {time.Hour, 0, true, false}}},
		"all groups refuse": {zonalshift.Detect{Refusals: true},
			[]state{{0, 0, true, false}, {m, 0, true, true}, {5 * m, 0, false, true}, {15 * m, 0, false, false}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newShifts(t, zonalshift.Options{Detect: test.detect})
			for _, state := range test.states {
				groups := threeZones(4, 4, 4)
				groups[0].Ready, groups[0].NotReady, groups[0].Refuses = 4-state.unready, state.unready, state.refuses
				d := s.Advance(start.Add(state.after), nil, groups)
				if away := d.Away["a"] != ""; away != state.away {
					t.Errorf("after %s: away is %v (%+v)", state.after, away, d)
				}
			}
		})
	}
}

func TestAMarkComesBeforeADetection(t *testing.T) {
	s := newShifts(t, zonalshift.Options{Detect: zonalshift.Detect{Refusals: true, After: 1}})
	groups := threeZones(1, 1, 1)[:2]
	groups[0].Refuses = true
	s.Advance(start, nil, groups)
	d := s.Advance(start.Add(time.Minute), []zonalshift.Mark{zone("zb")}, groups)
	if d.Away["a"] != "" || d.Away["b"] == "" || len(d.Ignored) != 1 {
		t.Errorf("got %+v", d)
	}
}

func TestOptionsThatMakeNoSense(t *testing.T) {
	pace := func(interval time.Duration, nodes, percentage int) zonalshift.Options {
		return zonalshift.Options{Pace: &zonalshift.Pace{Interval: interval, Nodes: nodes, Percentage: percentage}}
	}
	for want, o := range map[string]zonalshift.Options{
		"returnInterval":          pace(-1, 1, 0),
		"returnNodes":             pace(0, 0, 50),
		"returnPercentage":        pace(0, 1, 101),
		"detectUnreadyPercentage": {Detect: zonalshift.Detect{UnreadyPercentage: -1}},
		"detectAfter":             {Detect: zonalshift.Detect{After: -1}},
		"detectCalm":              {Detect: zonalshift.Detect{Calm: -1}},
	} {
		if _, err := zonalshift.New(o); err == nil || !strings.HasPrefix(err.Error(), want+":") {
			t.Errorf("%s: %v", want, err)
		}
	}
}
