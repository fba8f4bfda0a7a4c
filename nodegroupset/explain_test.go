package nodegroupset

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

func TestExplainARealFleet(t *testing.T) {
	x := indexOf(t, Options{}, readTemplates(t, "snapshot-templates.json"))
	report := x.Explain()
	if len(report.Sets) != 5 || len(report.Misses) != 1 || report.MoreMisses != 0 {
		t.Fatalf("%d sets and %d misses, want 5 and 1", len(report.Sets), len(report.Misses))
	}
	miss := report.Misses[0]
	if miss.Left != "m5-large-a" || miss.Right != "m5-large-b" || len(miss.Differences) != 1 || miss.Differences[0].Ratio != "0.0532" {
		t.Errorf("the miss is %+v", miss.Pair)
	}
	m5 := [][]string{{"m5-large-a", "m5-large-b", "m5-large-c"}}
	want := Remedy{Flags: []string{"--max-free-difference-ratio=0.0532"}, Sets: 4, Joined: m5}
	if diff := cmp.Diff(want, miss.Remedy); diff != "" {
		t.Errorf("remedy (-want +got):\n%s", diff)
	}

	stock := report.Stock
	if len(stock.DefaultSets) != 12 {
		t.Errorf("an autoscaler without flags finds %v, want 12 groups on their own", stock.DefaultSets)
	}
	flags := []string{
		"--balancing-ignore-label=alpha.eksctl.io/nodegroup-name",
		"--balancing-ignore-label=beta.kubernetes.io/instance-type",
		"--balancing-ignore-label=eks.amazonaws.com/nodegroup",
		"--balancing-ignore-label=eks.amazonaws.com/sourceLaunchTemplateId",
		"--balancing-ignore-label=kwok-nodegroup",
		"--balancing-ignore-label=topology.ebs.csi.aws.com/zone",
		"--balancing-ignore-label=topology.k8s.aws/zone-id",
	}
	if diff := cmp.Diff(flags, stock.Flags); diff != "" || !stock.Same {
		t.Errorf("stock flags lead to the same sets: %v (-want +got):\n%s", stock.Same, diff)
	}
	if diff := cmp.Diff(append(flags, "--max-free-difference-ratio=0.0532"), miss.Stock.Flags); diff != "" || miss.Stock.Sets != 4 {
		t.Errorf("stock remedy of the miss, %d sets (-want +got):\n%s", miss.Stock.Sets, diff)
	}
}

func TestExplainNamesObstaclesAndCautions(t *testing.T) {
	tests := map[string]struct {
		a, b        []change
		ours, stock Remedy // without outcomes
	}{
		"a core count": {
			b:     []change{setCapacity("cpu", "8")},
			ours:  Remedy{Obstacles: []string{"capacity.cpu must be equal"}},
			stock: Remedy{Obstacles: []string{"capacity.cpu must be equal"}},
		},
		"a taint, which the autoscaler does not compare": {
			b:     []change{setTaints(v1.Taint{Key: "a", Effect: v1.TaintEffectNoSchedule})},
			ours:  Remedy{Obstacles: []string{"taints[a:NoSchedule] must be equal"}},
			stock: Remedy{},
		},
		"a resource on one side only": {
			b: []change{setAllocatable("x", "1")},
			ours: Remedy{Flags: []string{"--max-allocatable-difference-ratio=1", "--max-free-difference-ratio=1"},
				Cautions: []string{"--max-allocatable-difference-ratio=1 lets every amount pass",
					"--max-free-difference-ratio=1 lets every amount pass"}},
			stock: Remedy{Obstacles: []string{
				"allocatable.x is listed on one side only",
			}},
		},
		"opposite signs": {
			a: []change{setAllocatable("x", "2"), requesting("x", "3")}, b: []change{setAllocatable("x", "2"), requesting("x", "1")},
			ours:  Remedy{Obstacles: []string{"free.x differs by more than any ratio allows"}},
			stock: Remedy{Obstacles: []string{"free.x is negative, which is never similar"}},
		},
		"memory": {
			b:     []change{setCapacity("memory", "15Gi")},
			ours:  Remedy{Flags: []string{"--memory-difference-ratio=0.0625"}},
			stock: Remedy{Flags: []string{"--memory-difference-ratio=0.0625"}},
		},
		"how capacity is bought": {
			b: []change{setLabels("karpenter.sh/capacity-type", "spot")},
			ours: Remedy{Flags: []string{"--balancing-ignore-label=karpenter.sh/capacity-type"},
				Cautions: []string{"karpenter.sh/capacity-type says how capacity is bought or what it may be used for"}},
			stock: Remedy{Flags: []string{"--balancing-ignore-label=karpenter.sh/capacity-type"},
				Cautions: []string{"karpenter.sh/capacity-type says how capacity is bought or what it may be used for"}},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			x := indexOf(t, Options{}, map[string]cloudprovider.Template{"a": template(test.a...), "b": template(test.b...)})
			misses := x.Explain().Misses
			if len(misses) != 1 {
				t.Fatalf("%d misses, want 1", len(misses))
			}
			ours, stock := misses[0].Remedy, misses[0].Stock
			if len(ours.Flags) > 0 && (ours.Sets != 1 || len(ours.Joined) != 1) {
				t.Errorf("the flags lead to %d sets, %v", ours.Sets, ours.Joined)
			}
			ours.Sets, ours.Joined, stock.Sets, stock.Joined = 0, nil, 0, nil
			if diff := cmp.Diff(test.ours, ours) + cmp.Diff(test.stock, stock); diff != "" {
				t.Errorf("remedies (-want +got):\n%s", diff)
			}
		})
	}
}

func TestExplainProposesLabels(t *testing.T) {
	templates := map[string]cloudprovider.Template{}
	for i, zone := range []string{"a", "b", "c"} {
		for _, size := range []string{"4", "8"} {
			templates["g-"+size+"-"+zone] = template(setCapacity("cpu", size), setLabels(
				"topology.kubernetes.io/zone", zone, "example.com/rack", "rack-"+zone,
				"example.com/pool-id", fmt.Sprint(size, i), "karpenter.sh/capacity-type", "type-"+zone, "pool", size,
			))
			delete(templates["g-"+size+"-"+zone].Node.Labels, "karpenter.sh/capacity-type")
		}
	}
	report := indexOf(t, Options{}, templates).Explain()
	type found struct {
		Label         string
		Unique, Zonal bool
		Sets          int
	}
	var got []found
	for _, c := range report.Candidates {
		got = append(got, found{c.Label, c.UniquePerGroup, c.FollowsZone, c.Remedy.Sets})
	}
	want := []found{{"example.com/pool-id", true, false, 6}, {"example.com/rack", false, true, 6}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("candidates (-want +got):\n%s", diff)
	}
	suggestion := Remedy{
		Flags:  []string{"--balancing-ignore-label=example.com/pool-id", "--balancing-ignore-label=example.com/rack"},
		Sets:   2,
		Joined: [][]string{{"g-4-a", "g-4-b", "g-4-c"}, {"g-8-a", "g-8-b", "g-8-c"}},
	}
	if diff := cmp.Diff(suggestion, report.Suggestion); diff != "" {
		t.Errorf("suggestion (-want +got):\n%s", diff)
	}
}

func TestExplainNeverProposesMeaningfulLabels(t *testing.T) {
	report := indexOf(t, Options{}, map[string]cloudprovider.Template{
		"a": template(setLabels("eks.amazonaws.com/capacityType", "SPOT")),
		"b": template(setLabels("eks.amazonaws.com/capacityType", "ON_DEMAND")),
	}).Explain()
	if len(report.Candidates) > 0 || len(report.Suggestion.Flags) > 0 {
		t.Errorf("proposes %+v and %+v", report.Candidates, report.Suggestion)
	}
}

func TestExplainBalancingLabels(t *testing.T) {
	report := indexOf(t, Options{Labels: []string{"pool", "team"}}, map[string]cloudprovider.Template{
		"a": template(setLabels("team", "x")), "b": template(setLabels("team", "x")), "c": template(setLabels("team", "y")),
		"d": template(setLabels("pool", "red", "team", "z")),
	}).Explain()
	if len(report.Sets) != 3 || !report.Stock.Same || len(report.Misses) != 3 {
		t.Fatalf("%+v", report)
	}
	want := Remedy{Flags: []string{"--balancing-label=pool"}, Sets: 2, Joined: [][]string{{"a", "b", "c"}}}
	if diff := cmp.Diff(want, report.Misses[0].Remedy); diff != "" {
		t.Errorf("remedy (-want +got):\n%s", diff)
	}
	if got := report.Misses[1].Remedy; len(got.Obstacles) != 1 || len(got.Flags) != 0 {
		t.Errorf("remedy without a label in common: %+v", got)
	}
}

// Every remedy is put to the test: evenkeel's in a new index, the autoscaler's in
// its own comparison.
func TestRemediesJoinWhatTheySay(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	ours, stocks := 0, 0
	for range 1_500 {
		templates := map[string]cloudprovider.Template{}
		for i := range 2 + r.IntN(4) {
			templates[fmt.Sprintf("g%d", i)] = withinStockRange(randomTemplate(r))
		}
		for _, miss := range indexOf(t, Options{}, templates).Explain().Misses {
			if len(miss.Remedy.Flags) > 0 {
				ours++
				x := indexOf(t, optionsOf(t, miss.Remedy.Flags), templates)
				if !slices.Contains(x.Similar(miss.Left), miss.Right) || len(x.Sets()) != miss.Remedy.Sets {
					t.Fatalf("%v join %d sets, but leave %v", miss.Remedy.Flags, miss.Remedy.Sets, x.Differences(miss.Left, miss.Right))
				}
			}
			if len(miss.Stock.Obstacles) == 0 {
				stocks++
				nodes := pairwiseNodes([]cloudprovider.Template{templates[miss.Left], templates[miss.Right]})
				if !stockPairwise(optionsOf(t, miss.Stock.Flags)).similar(nodes[0], nodes[1]) {
					t.Fatalf("%v do not join %s and %s", miss.Stock.Flags, miss.Left, miss.Right)
				}
			}
		}
	}
	if ours < 500 || stocks < 500 {
		t.Errorf("only %d and %d remedies were tried", ours, stocks)
	}
}

func TestStockRuleIsTheAutoscalersComparison(t *testing.T) {
	r := rand.New(rand.NewPCG(6, 6))
	similar := 0
	for range 20_000 {
		a, b := withinStockRange(randomTemplate(r)), withinStockRange(randomTemplate(r))
		if r.IntN(3) > 0 {
			b = a.DeepCopy()
			b.Node.Status.Allocatable[v1.ResourceMemory] = nearEdge(r, 15<<30, 4, 100)
		}
		plain := indexOf(t, Options{}, map[string]cloudprovider.Template{"a": a, "b": b})
		stock := newExplainer(plain).stock().index
		nodes := pairwiseNodes([]cloudprovider.Template{a, b})
		want := stockPairwise(Options{}).similar(nodes[0], nodes[1])
		if want {
			similar++
		}
		none := stock.countFields("a", "b", 1) == 0
		if got := len(stock.Similar("a")) == 1; got != want || none != want {
			t.Fatalf("similar = %v, without differences = %v, the autoscaler says %v\n%s", got, none, want, cmp.Diff(a, b))
		}
	}
	if similar < 2_000 {
		t.Errorf("only %d similar pairs", similar)
	}
}

// withinStockRange drops amounts whose thousandths overflow in the autoscaler.
func withinStockRange(t cloudprovider.Template) cloudprovider.Template {
	delete(t.Node.Status.Allocatable, v1.ResourceEphemeralStorage)
	return t
}

func optionsOf(t *testing.T, flags []string) Options {
	var o Options
	for _, flag := range flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		switch name {
		case "balancing-ignore-label":
			o.IgnoreLabels = append(o.IgnoreLabels, value)
		case "memory-difference-ratio":
			o.MemoryDifferenceRatio = ratio(t, value)
		case "max-allocatable-difference-ratio":
			o.MaxAllocatableDifferenceRatio = ratio(t, value)
		case "max-free-difference-ratio":
			o.MaxFreeDifferenceRatio = ratio(t, value)
		default:
			t.Fatalf("unknown flag %s", flag)
		}
	}
	return o
}

func stockPairwise(o Options) pairwise {
	p := pairwise{ignored: map[string]bool{}}
	for _, key := range slices.Concat(stockIgnored, o.IgnoreLabels) {
		p.ignored[key] = true
	}
	limits := o.ratios()
	for kind, target := range []*float64{&p.memory, &p.allocatable, &p.free} {
		*target, _ = strconv.ParseFloat(limits[kind].String(), 64)
	}
	return p
}

func TestReportIsTheSameEveryTime(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	templates := map[string]cloudprovider.Template{}
	for i := range 40 {
		templates[fmt.Sprintf("g%02d", i)] = randomTemplate(r)
	}
	first := indexOf(t, Options{}, templates).Explain()
	for range 5 {
		if again := indexOf(t, Options{}, templates).Explain(); !reflect.DeepEqual(first, again) {
			t.Fatal(cmp.Diff(first, again))
		}
	}
	if _, err := json.Marshal(first); err != nil {
		t.Error(err)
	}
	if empty := indexOf(t, Options{}, nil).Explain(); len(empty.Misses) != 0 {
		t.Errorf("an empty fleet: %+v", empty)
	}
}
