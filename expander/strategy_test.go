package expander

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/podfit"
)

const gib = 1 << 30

// nodeOf is a template node with the same capacity and allocatable.
func nodeOf(milliCPU, memory int64) *v1.Node {
	resources := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(milliCPU, resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(memory, resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(110, resource.DecimalSI),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "template", Labels: map[string]string{v1.LabelHostname: "template"}},
		Status:     v1.NodeStatus{Capacity: resources, Allocatable: resources},
	}
}

// option is a group that takes pods requesting the given cpu and memory on n
// nodes of 4 cores and 16 GiB.
func option(group string, nodes, pods int, milliCPU, memory int64) Option {
	return Option{
		Group:     group,
		NodeCount: nodes,
		Pods:      pods,
		Template:  cloudprovider.Template{Node: nodeOf(4000, 16*gib)},
		Requested: podfit.Resources{v1.ResourceCPU: milliCPU, v1.ResourceMemory: memory},
	}
}

func priced(o Option, micros cloudprovider.Price) Option {
	o.NodePrice, o.HasPrice = micros, true
	return o
}

func chainOf(t testing.TB, names string, config Config) Chain {
	t.Helper()
	list, err := ParseNames(names)
	if err != nil {
		t.Fatal(err)
	}
	chain, err := New(list, config)
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

func prioritiesOf(t testing.TB, text string) Priorities {
	t.Helper()
	p, err := ParsePriorities([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestStrategies(t *testing.T) {
	big := option("big", 2, 20, 6000, 24*gib)
	big.Template.Node = nodeOf(16000, 64*gib)
	bare := option("bare", 1, 20, 4000, 16*gib)
	bare.Template.Node = &v1.Node{}
	priorities := prioritiesOf(t, "10: [^a, b]\n50: ['^c$']\n")

	for _, test := range []struct {
		name     string
		strategy string
		options  []Option
		keeps    string
		figures  string // of all options, in their order
	}{
		{
			name: "most pods", strategy: "most-pods",
			options: []Option{option("a", 1, 3, 0, 0), option("b", 9, 5, 0, 0), option("c", 1, 5, 0, 0), option("d", 1, 1, 0, 0)},
			keeps:   "b c", figures: "3 pods|5 pods|5 pods|1 pod",
		}, {
			name: "least nodes", strategy: "least-nodes",
			options: []Option{option("a", 4, 3, 0, 0), option("b", 1, 5, 0, 0), option("c", 1, 1, 0, 0)},
			keeps:   "b c", figures: "4 nodes|1 node|1 node",
		}, {
			name: "least waste counts every node", strategy: "least-waste",
			options: []Option{option("a", 2, 1, 4000, 16*gib), option("b", 1, 1, 3000, 12*gib)},
			keeps:   "b", figures: "50.00 % wasted (cpu 50.00 %, memory 50.00 %)|25.00 % wasted (cpu 25.00 %, memory 25.00 %)",
		}, {
			name: "least waste adds both parts", strategy: "least-waste",
			options: []Option{option("a", 1, 1, 4000, 0), option("b", 1, 1, 2000, 8*gib), option("c", 1, 1, 2000, 8*gib-1)},
			keeps:   "a b", figures: "50.00 % wasted (cpu 0.00 %, memory 100.00 %)|50.00 % wasted (cpu 50.00 %, memory 50.00 " +
				"%)|50.00 % wasted (cpu 50.00 %, memory 50.00 %)",
		}, {
			name: "least waste on nodes of different size", strategy: "least-waste",
			options: []Option{option("a", 2, 20, 6000, 24*gib), big},
			keeps:   "a", figures: "25.00 % wasted (cpu 25.00 %, memory 25.00 %)|81.25 % wasted (cpu 81.25 %, memory 81.25 %)",
		}, {
			name: "a template without capacity wastes all", strategy: "least-waste",
			options: []Option{bare, option("z", 9, 1, 1, 1)},
			keeps:   "z", figures: "100.00 % wasted (cpu 100.00 %, memory 100.00 %)|100.00 % wasted (cpu 100.00 %, memory 100.00 %)",
		}, {
			name: "price for the pods' worth", strategy: "price",
			options: []Option{
				priced(option("a", 2, 10, 4000, 16*gib), 200_000), // 0.4 for 4 + 2 + 0.1 cores
				priced(option("b", 1, 10, 4000, 16*gib), 500_000),
				priced(option("c", 1, 1, 1000, 0), 100_000), // 0.1 for 1.01 cores
			},
			keeps: "a",
			figures: "0.4000 an hour for 6.10 cores' worth of pods, 0.0656 each|0.5000 an hour for 6.10 cores' worth of pods, " +
				"0.0820 each|0.1000 an hour for 1.01 cores' worth of pods, 0.0990 each",
		}, {
			name: "price: without a price it loses", strategy: "price",
			options: []Option{option("a", 1, 9, 4000, 0), priced(option("b", 9, 1, 100, 0), 9_000_000)},
			keeps:   "b", figures: "price unknown|81.0000 an hour for 0.11 cores' worth of pods, 736.3636 each",
		}, {
			name: "price: none known, all kept", strategy: "price",
			options: []Option{option("a", 1, 9, 4000, 0), option("b", 1, 1, 100, 0)},
			keeps:   "a b", figures: "price unknown|price unknown",
		}, {
			name: "price: pods without requests count, no pods at all do not", strategy: "price",
			options: []Option{priced(option("a", 1, 0, 0, 0), 1), priced(option("b", 1, 1, 0, 0), 900_000_000)},
			keeps:   "b", figures: "0.0000 an hour for 0.00 cores' worth of pods|900.0000 an hour for 0.01 cores' worth of pods, 90000.0000 each",
		}, {
			name: "priority", strategy: "priority",
			options: []Option{option("a1", 1, 1, 0, 0), option("xbx", 1, 1, 0, 0), option("c", 1, 1, 0, 0), option("cc", 1, 1, 0, 0)},
			keeps:   "c", figures: `priority 10 (a1 matches "^a")|priority 10 (xbx matches "b")|priority 50 (c matches "^c$")|no priority matches`,
		}, {
			name: "priority: nothing matches, all kept", strategy: "priority",
			options: []Option{option("x", 1, 1, 0, 0), option("y", 1, 1, 0, 0)},
			keeps:   "x y", figures: "no priority matches|no priority matches",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			results := strategyOf(t, test.strategy).Filter(Config{Priorities: priorities}, test.options)
			var kept, figures []string
			for i, v := range results {
				figures = append(figures, v.Figure)
				if v.Kept {
					kept = append(kept, test.options[i].Group)
				}
			}
			if got := strings.Join(kept, " "); got != test.keeps {
				t.Errorf("keeps %q, want %q", got, test.keeps)
			}
			if got := strings.Join(figures, "|"); got != test.figures {
				t.Errorf("figures\n%s, want\n%s", got, test.figures)
			}
		})
	}
}

func strategyOf(t testing.TB, name string) Strategy {
	t.Helper()
	s, err := find(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A set has the highest priority of its members, whichever represents it.
func TestPriorityOfASetIsItsBestMembers(t *testing.T) {
	p := prioritiesOf(t, "10: ['.*']\n50: [ng-c]\n")
	options := []Option{option("lone", 1, 1, 0, 0)}
	for _, name := range []string{"ng-a", "ng-b", "ng-c"} {
		o := option(name, 1, 1, 0, 0)
		o.Set = "ng-a"
		options = append(options, o)
	}
	chosen, trail, err := chainOf(t, "priority", Config{Priorities: p}).Choose(options)
	if err != nil || chosen.Group != "ng-a" || trail[1].Options[0].Figure != `priority 50 (ng-c matches "ng-c")` {
		t.Errorf("chose %s, %v:\n%s", chosen.Group, err, trail)
	}
}

// A difference far below what a float64 can tell still decides.
func TestWasteIsComparedExactly(t *testing.T) {
	a, b := option("a", 1_000_000, 1, 1<<52, 1<<62), option("b", 1_000_000, 1, 1<<52, 1<<62+1)
	results := leastWaste.Filter(Config{}, []Option{a, b})
	if results[0].Kept || !results[1].Kept {
		t.Errorf("got %+v, want b alone: it requests one byte more", results)
	}
}

// Every option is drawn about equally often, over rounds and over seeds.
func TestRandomFavoursNoOption(t *testing.T) {
	const options, draws = 7, 14_000
	var list []Option
	for i := range options {
		list = append(list, option(string(rune('a'+i)), 1, 1, 0, 0))
	}
	for _, by := range []string{"round", "seed"} {
		counts := make(map[string]int)
		for n := range uint64(draws) {
			c := Config{Seed: 1, Round: n}
			if by == "seed" {
				c = Config{Seed: n}
			}
			for i, v := range random.Filter(c, list) {
				if v.Kept {
					counts[list[i].Group]++
				}
			}
		}
		chi2 := 0.0
		for _, o := range list {
			d := float64(counts[o.Group] - draws/options)
			chi2 += d * d / (draws / options)
		}
		if chi2 > 22.5 { // 6 degrees of freedom: once in a thousand
			t.Errorf("by %s: counts %v, chi-square %.1f", by, counts, chi2)
		}
	}
}
