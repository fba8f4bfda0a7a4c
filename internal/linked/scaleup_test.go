package linked

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

func sized(id string, size, most int) *testGroup { return &testGroup{id: id, size: size, max: most} }

func silent(id string) *testGroup {
	return &testGroup{id: id, max: 9, err: errors.New("the cloud is out")}
}

func TestSplit(t *testing.T) {
	for _, test := range []struct {
		name   string
		groups []*testGroup
		nodes  int
		want   string // the groups that grow, or the error
	}{
		{"the chosen one first, then by name", []*testGroup{sized("b", 1, 9), sized("c", 1, 9), sized("a", 1, 9)}, 4,
			"b 1->3/9, a 1->2/9, c 1->2/9"},
		{"those that stay are left out", []*testGroup{sized("a", 5, 9), sized("b", 1, 9)}, 2, "b 1->3/9"},
		{"no node", []*testGroup{sized("a", 1, 9)}, 0, ""},
		{"fewer than none", []*testGroup{sized("a", 1, 9)}, -1, ""},
		{"more than there is room for", []*testGroup{sized("a", 1, 2), sized("b", 1, 3)}, 50, "a 1->2/2, b 1->3/3"},
		{"over its max", []*testGroup{sized("a", 5, 2), sized("b", 1, 3)}, 2, "b 1->3/3"},
		{"no size of one", []*testGroup{sized("a", 1, 9), silent("b"), sized("c", 1, 9)}, 2, "a 1->2/9, c 1->2/9"},
		{"no size of the chosen one", []*testGroup{silent("b"), sized("c", 1, 9), sized("a", 1, 9)}, 1, "a 1->2/9"},
		{"no size at all", []*testGroup{silent("a")}, 1, "the size of no node group is known; a: the cloud is out"},
		{"a size that is none", []*testGroup{sized("a", -1, 9), sized("b", 1, 9)}, 1, "b 1->2/9"},
		{"a size beyond all", []*testGroup{sized("a", 1, math.MaxInt32+1), sized("b", 1, -3), sized("c", 1, 9)}, 1, "c 1->2/9"},
		{"no group", nil, 1, "there is no node group to give new nodes to"},
	} {
		t.Run(test.name, func(t *testing.T) {
			j, _ := newTestJournal()
			grown, err := ScaleUp[*testGroup]{Groups: test.groups, Asked: test.nodes}.Split(j)
			var got []string
			for _, one := range grown {
				got = append(got, fmt.Sprintf("%s %d->%d/%d", one.Group.id, one.Size, one.NewSize, one.Max))
			}
			if err != nil {
				got = []string{err.Error()}
			}
			if text := strings.Join(got, ", "); text != test.want {
				t.Errorf("%s, want %s", text, test.want)
			}
		})
	}
}

// The whole need is shared where the room of the chosen group alone was asked for, but not where
// the limits are not known.
func TestTheNeedIsSharedUnderAllLimits(t *testing.T) {
	for name, test := range map[string]struct {
		room int64
		err  error
		want string
	}{
		"all of it":                   {math.MaxInt64, nil, "6 3"},
		"what the cluster may have":   {4, nil, "4 2"},
		"no less than was asked for":  {-7, nil, "2 1"},
		"what was asked for, unknown": {math.MaxInt64, errors.New("no quota can be read"), "2 1"},
	} {
		t.Run(name, func(t *testing.T) {
			j, _ := newTestJournal()
			grown, err := ScaleUp[*testGroup]{
				Groups: []*testGroup{sized("a", 0, 9), sized("b", 0, 9)}, Asked: 2, Need: 6,
				Limits: func([]Sized[*testGroup], int64) (Limits, error) { return Limits{Room: test.room}, test.err },
			}.Split(j)
			if err != nil {
				t.Fatal(err)
			}
			nodes := 0
			for _, one := range grown {
				nodes += one.NewSize - one.Size
			}
			if got := fmt.Sprintf("%d %d", nodes, grown[0].NewSize); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// testQuota is a quota over the nodes of some zones.
type testQuota struct {
	zones  string
	limits map[string]int64
}

func (q testQuota) ID() string                   { return "zones-" + q.zones }
func (q testQuota) AppliesTo(node *v1.Node) bool { return strings.Contains(q.zones, node.Name[:1]) }
func (q testQuota) Limits() map[string]int64     { return q.limits }

// A split exceeds no quota that was kept before, whatever is asked for; and one that cannot bind is
// left out.
func TestSplitsKeepTheQuotas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []Load
		var sharers []Sharer
		request := nodegroupset.SplitRequest{Nodes: int64(rapid.IntRange(1, 20).Draw(t, "nodes")), Chosen: "a"}
		for _, zone := range []string{"a", "b", "c"} {
			takes := map[string]int64{"nodes": 1, "cpu": int64(rapid.IntRange(1, 8).Draw(t, "cpu"))}
			size := rapid.IntRange(0, 4).Draw(t, "size")
			for range size {
				nodes = append(nodes, Load{nodeNamed(zone), takes})
			}
			sharers = append(sharers, Sharer{Name: zone, Size: int64(size), Load: Load{nodeNamed(zone), takes}})
			request.Groups = append(request.Groups, nodegroupset.Group{Name: zone, Size: int64(size), Max: 50})
		}
		var quotas []testQuota
		for _, zones := range []string{"a", "bc", "abc"} {
			quotas = append(quotas, testQuota{zones, map[string]int64{
				rapid.SampledFrom([]string{"nodes", "cpu"}).Draw(t, "resource"): rapid.SampledFrom([]int64{-1, 0, 5, 20, 60, math.MaxInt64}).Draw(t,
					"limit"),
			}})
		}
		request.Quotas = SplitQuotas(quotas, nodes, sharers, request.Nodes)
		result, err := nodegroupset.Split(request)
		if err != nil {
			t.Fatal(err)
		}
		for _, quota := range quotas {
			for resource, limit := range quota.limits {
				var before, after int64
				for i, row := range result.Groups {
					if quota.AppliesTo(sharers[i].Node) {
						before += row.Size * sharers[i].Takes[resource]
						after += row.NewSize * sharers[i].Takes[resource]
					}
				}
				if after > before && after > limit {
					t.Fatalf("%s uses %d of %d %s, before %d", quota.ID(), after, limit, resource, before)
				}
			}
		}
	})
}
