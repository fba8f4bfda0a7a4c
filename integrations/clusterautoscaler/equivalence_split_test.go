package clusterautoscaler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	testprovider "sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider/test"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	ca_context "sigs.k8s.io/cluster-autoscaler/pkg/context"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors/nodegroupset"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/clustersnapshot/testsnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
	catest "sigs.k8s.io/cluster-autoscaler/pkg/utils/test"
)

// splitCase asks how many of the new nodes go to which group. The first group is the chosen one.
type splitCase struct {
	groups []splitGroup
	nodes  int
}

type splitGroup struct {
	name      string
	size, max int
}

func (c splitCase) String() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d nodes over", c.nodes)
	for _, g := range c.groups {
		fmt.Fprintf(&out, " %s(%d of %d)", g.name, g.size, g.max)
	}
	return out.String()
}

// mostGroups is how many groups a case has at most.
const mostGroups = 500

func groupName(i int) string { return fmt.Sprintf("group-%03d", i) }

// randomSplit is one case of the given number; the same number gives the same case.
func randomSplit(number uint64) splitCase {
	r := rand.New(rand.NewPCG(2017, number))
	count := 1 + r.IntN(30)
	if r.IntN(200) == 0 {
		count = 100 + r.IntN(mostGroups-99)
	}
	// Few different sizes make ties, many make slopes.
	spread := []int{1, 2, 5, 20, 200}[r.IntN(5)]
	c := splitCase{groups: make([]splitGroup, count)}
	room := 0
	for i, position := range r.Perm(count) {
		g := splitGroup{name: groupName(position), size: r.IntN(spread)}
		switch r.IntN(8) {
		case 0: // at its maximum
			g.max = g.size
		case 1: // over it
			g.max = r.IntN(g.size + 1)
		case 2:
			g.max = g.size + 1
		default:
			g.max = g.size + r.IntN(2*spread+2)
		}
		room += max(0, g.max-g.size)
		c.groups[i] = g
	}
	switch r.IntN(10) {
	case 0:
		c.nodes = 0
	case 1:
		c.nodes = room + r.IntN(5)
	case 2:
		c.nodes = max(0, room-1-r.IntN(3))
	case 3, 4:
		c.nodes = r.IntN(count + 1)
	default:
		c.nodes = r.IntN(room + 1)
	}
	return c
}

// evenSplits is what all even splits of a case have in common. Water poured in up to a level leaves
// some nodes over, fewer than there are groups at the level with room for one more. Those groups
// tie for the rest, and who of them gets a node is a matter of taste; the final size of every other
// group is the same in each even split.
type evenSplits struct {
	sizes []int // by position, without the rest
	tied  []int // positions of the groups that tie for the rest
	rest  int
}

func (c splitCase) even() evenSplits {
	poured := func(level int) (sizes []int, used int) {
		for _, g := range c.groups {
			size := max(g.size, min(level, g.max))
			sizes, used = append(sizes, size), used+size-g.size
		}
		return sizes, used
	}
	top := 0
	for _, g := range c.groups {
		top = max(top, g.max)
	}
	// The highest level the nodes suffice for.
	low, high := 0, top+1
	for high-low > 1 {
		if _, used := poured((low + high) / 2); used <= c.nodes {
			low = (low + high) / 2
		} else {
			high = (low + high) / 2
		}
	}
	sizes, used := poured(low)
	out := evenSplits{sizes: sizes, rest: c.nodes - used}
	for i, g := range c.groups {
		if sizes[i] == low && g.max > low {
			out.tied = append(out.tied, i)
		}
	}
	if len(out.tied) == 0 {
		out.rest = 0 // no room for it anywhere
	}
	if out.rest == 0 {
		out.tied = nil
	}
	return out
}

// check says what is wrong with the final sizes of a split.
func (e evenSplits) check(sizes []int) error {
	given := 0
	for i, size := range sizes {
		extra := size - e.sizes[i]
		given += extra
		switch tied := slices.Contains(e.tied, i); {
		case !tied && extra != 0:
			return fmt.Errorf("group %d of the case has %d nodes, not %d, and no tie decides about it", i, size, e.sizes[i])
		case extra < 0 || extra > 1:
			return fmt.Errorf("group %d of the case has %d nodes, neither %d nor one more", i, size, e.sizes[i])
		}
	}
	if given != e.rest {
		return fmt.Errorf("%d of the %d groups in a tie got a node, not %d", given, len(e.tied), e.rest)
	}
	return nil
}

// documentedSizes settles ties as evenkeel does: the chosen group, then by name.
func (c splitCase) documentedSizes(e evenSplits) []int {
	sizes := slices.Clone(e.sizes)
	line := slices.Clone(e.tied)
	slices.SortFunc(line, func(i, j int) int {
		switch {
		case i == 0:
			return -1
		case j == 0:
			return 1
		}
		return strings.Compare(c.groups[i].name, c.groups[j].name)
	})
	for _, i := range line[:e.rest] {
		sizes[i]++
	}
	return sizes
}

// splitter is a processor in an empty cluster.
type splitter struct {
	processor nodegroupset.NodeGroupSetProcessor
	snapshot  clustersnapshot.ClusterSnapshot
}

// newSplitter asks the processor for similar groups first, as the autoscaler does before every
// split.
func newSplitter(t testing.TB, processor nodegroupset.NodeGroupSetProcessor) splitter {
	t.Helper()
	provider := testprovider.NewTestCloudProviderBuilder().Build()
	template := framework.NewTestNodeInfo(catest.BuildTestNode("template", 1000, 1000))
	templates := map[string]*framework.NodeInfo{}
	for i := range mostGroups {
		provider.AddNodeGroup(groupName(i), 0, 1, 0)
		templates[groupName(i)] = template
	}
	ctx := &ca_context.AutoscalingContext{CloudProvider: provider}
	similar, err := processor.FindSimilarNodeGroups(ctx, provider.GetNodeGroup(groupName(0)), templates)
	if err != nil || len(similar) != mostGroups-1 {
		t.Fatalf("%d of %d groups are similar to the first: %v", len(similar), mostGroups-1, err)
	}
	return splitter{processor, testsnapshot.NewTestSnapshotOrDie(t)}
}

// split asks the processor, and reads its answer with the care of one who resizes groups by it.
func (s splitter) split(c splitCase) ([]int, error) {
	provider := testprovider.NewTestCloudProviderBuilder().Build()
	groups := make([]cloudprovider.NodeGroup, len(c.groups))
	position := map[string]int{}
	sizes := make([]int, len(c.groups))
	for i, g := range c.groups {
		groups[i] = provider.BuildNodeGroup(g.name, 0, g.max, g.size, true, false, "", nil)
		provider.InsertNodeGroup(groups[i])
		position[g.name], sizes[i] = i, g.size
	}
	ctx := &ca_context.AutoscalingContext{CloudProvider: provider, ClusterSnapshot: s.snapshot}
	ctx.BalanceSimilarNodeGroups = true
	infos, aErr := s.processor.BalanceScaleUpBetweenGroups(ctx, groups, c.nodes)
	if aErr != nil {
		return nil, aErr
	}
	seen := map[int]bool{}
	for _, info := range infos {
		i, known := position[info.Group.Id()]
		switch {
		case !known || seen[i]:
			return nil, fmt.Errorf("%v is unknown or listed twice", info)
		case info.CurrentSize != c.groups[i].size || info.MaxSize != c.groups[i].max:
			return nil, fmt.Errorf("%v is not the group as it stands", info)
		case info.NewSize <= info.CurrentSize:
			return nil, fmt.Errorf("%v does not grow", info)
		}
		seen[i], sizes[i] = true, info.NewSize
	}
	return sizes, nil
}

// compareSplits says where the two processors differ other than in ties.
func compareSplits(c splitCase, upstream, evenkeel splitter) error {
	common := c.even()
	theirs, err := upstream.split(c)
	if err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	if err := common.check(theirs); err != nil {
		return fmt.Errorf("upstream: %w", err)
	}
	ours, err := evenkeel.split(c)
	if err != nil {
		return fmt.Errorf("evenkeel: %w", err)
	}
	if err := common.check(ours); err != nil {
		return fmt.Errorf("evenkeel: %w", err)
	}
	if want := c.documentedSizes(common); !slices.Equal(ours, want) {
		return fmt.Errorf("evenkeel settled a tie as %v, not %v", ours, want)
	}
	for i := range ours {
		if ours[i] != theirs[i] && !slices.Contains(common.tied, i) {
			return fmt.Errorf("group %d has %d nodes from upstream and %d from evenkeel", i, theirs[i], ours[i])
		}
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	if !slices.Equal(ours, theirs) {
		return fmt.Errorf("sizes %v from upstream and %v from evenkeel", theirs, ours)
	}
	return nil
}

// smallest leaves out groups and nodes as long as the case still fails.
func (c splitCase) smallest(fails func(splitCase) error) splitCase {
	for {
		next := c
		for i := range c.groups {
			without := splitCase{slices.Delete(slices.Clone(c.groups), i, i+1), c.nodes}
			if len(without.groups) > 0 && fails(without) != nil {
				next = without
				break
			}
		}
		if fewer := (splitCase{next.groups, next.nodes - 1}); next.nodes > 0 && fails(fewer) != nil {
			next = fewer
		}
		if len(next.groups) == len(c.groups) && next.nodes == c.nodes {
			return c
		}
		c = next
	}
}

// TestSplitIsUpstreamsButForTies runs both processors on the same groups: the sizes are the same as
// a multiset, and the same for each group that no tie decides about.
func TestSplitIsUpstreamsButForTies(t *testing.T) {
	cases := uint64(100_000)
	if testing.Short() {
		cases = 5_000
	}
	ratios := config.NewDefaultNodeGroupDifferenceRatios()
	upstream := newSplitter(t, nodegroupset.NewDefaultNodeGroupSetProcessor(nil, ratios))
	evenkeel := newSplitter(t, balancingProcessor(t, config.AutoscalingOptions{BalanceSimilarNodeGroups: true, NodeGroupSetRatios: ratios}))
	fails := func(c splitCase) error { return compareSplits(c, upstream, evenkeel) }
	var ties, capped, large, untouched int
	for number := range cases {
		c := randomSplit(number)
		if err := fails(c); err != nil {
			least := c.smallest(fails)
			t.Fatalf("case %d: %v\nleast case: %v\n%v", number, err, least, fails(least))
		}
		common := c.even()
		final := -c.nodes
		for i, g := range c.groups {
			final += common.sizes[i] - g.size
		}
		ties += indicator(common.rest > 0)
		capped += indicator(final+common.rest < 0)
		large += indicator(len(c.groups) >= 100)
		untouched += indicator(c.nodes == 0)
	}
	t.Logf("%d cases: %d with a tie, %d with more nodes than room, %d of a hundred groups or more, %d without a node",
		cases, ties, capped, large, untouched)
	for what, count := range map[string]int{"ties": ties, "more nodes than room": capped, "large": large, "no nodes": untouched} {
		if count == 0 {
			t.Errorf("no case with %s: the generator is too tame", what)
		}
	}
}

func indicator(b bool) int {
	if b {
		return 1
	}
	return 0
}
