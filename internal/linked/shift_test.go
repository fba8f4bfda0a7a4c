package linked_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/internal/linked"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

type shiftGroup struct {
	id        string
	size, max int
}

func (g *shiftGroup) Id() string               { return g.id } //nolint:revive,staticcheck // the name is the autoscaler's
func (g *shiftGroup) MinSize() int             { return 0 }
func (g *shiftGroup) MaxSize() int             { return g.max }
func (g *shiftGroup) TargetSize() (int, error) { return g.size, nil }

type shiftCloud []*shiftGroup

func (c shiftCloud) NodeGroups() []*shiftGroup { return c }
func (c shiftCloud) NodeGroupForNode(node *v1.Node) (*shiftGroup, error) {
	for _, g := range c {
		if g.id == node.Labels[v1.LabelTopologyZone] {
			return g, nil
		}
	}
	return nil, nil
}
func (c shiftCloud) ZeroOrMax(*shiftGroup) (bool, error) { return false, nil }

func TestAnAnnotatedNodeShiftsItsZoneAway(t *testing.T) {
	start := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		value string
		away  bool
		later bool // after two hours
	}{
		"true":           {"true", true, true},
		"false":          {"false", false, false},
		"until a time":   {start.Add(time.Hour).Format(time.RFC3339), true, false},
		"in the past":    {start.Add(-time.Hour).Format(time.RFC3339), false, false},
		"something else": {"soon", false, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			clock := clocktesting.NewFakeClock(start)
			cloud := shiftCloud{{"a", 2, 100}, {"b", 20, 100}, {"c", 20, 100}}
			z, err := linked.NewZonalShift[*shiftGroup](func(string) string { return "a" }, func(string) *nodegroupset.Terms { return nil }, clock,
				linked.NewJournal(clock))
			if err != nil {
				t.Fatal(err)
			}
			var nodes []*v1.Node
			for _, g := range cloud {
				nodes = append(nodes, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: g.id, Labels: map[string]string{v1.LabelTopologyZone: g.id}}})
			}
			nodes[0].Annotations = map[string]string{linked.ZonalShiftAnnotation: test.value}
			look := func() {
				z.Look(nodes, cloud, func(group string) map[string]string { return map[string]string{v1.LabelTopologyZone: group} })
			}
			check := func(away bool) {
				t.Helper()
				growing, removable := len(z.Growing(cloud)), len(z.Removable(nodes, cloud))
				if want := map[bool]string{false: "3 3", true: "2 0"}[away]; fmt.Sprint(growing, " ", removable) != want {
					t.Errorf("%d groups may grow and %d nodes may go, want %s", growing, removable, want)
				}
				if (z.Away("a") != "") != away || z.Away("b") != "" {
					t.Errorf("away: %q %q", z.Away("a"), z.Away("b"))
				}
			}
			look()
			check(test.away)
			clock.Step(2 * time.Hour)
			look()
			check(test.later)
			nodes[0].Annotations = nil
			look()
			check(false)
		})
	}
}

// A zone that has come back gets a part of what it lacks, and its share of what is new.
func TestASplitLetsAZoneReturnSlowly(t *testing.T) {
	journal := linked.NewJournal(clocktesting.NewFakeClock(time.Unix(0, 0)))
	up := linked.ScaleUp[*shiftGroup]{
		Groups: shiftCloud{{"b", 20, 100}, {"a", 0, 100}, {"c", 20, 100}}, Asked: 8,
		Lag: func(group string) int64 { return map[string]int64{"a": 15}[group] },
	}
	grown, err := up.Split(journal)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range grown {
		got = append(got, fmt.Sprintf("%s %d→%d of %d", g.Group.id, g.Size, g.NewSize, g.Max))
	}
	if want := []string{"b 20→21 of 100", "a 0→6 of 100", "c 20→21 of 100"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
