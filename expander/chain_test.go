package expander

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

func TestNewRefuses(t *testing.T) {
	for _, test := range []struct {
		names string
		err   error
		text  string
	}{
		{"", ErrUnknownStrategy, `unknown expander "": choose from random, most-pods, least-waste, least-nodes, price, priority`},
		{"least-waste,", ErrUnknownStrategy, `unknown expander "": choose from random, most-pods, least-waste, least-nodes, price, priority`},
		{"Random", ErrUnknownStrategy, `unknown expander "Random": choose from random, most-pods, least-waste, least-nodes, price, priority`},
		{"price,least-waste,price", ErrDuplicateStrategy, "expander given more than once: price"},
		{"random,random", ErrDuplicateStrategy, "expander given more than once: random"},
		{"price,random,least-waste", ErrUnreachableStrategy,
			"expander never reached: least-waste stands behind random, which always leaves one option"},
		{"least-waste,priority", ErrNoPriorities, "expander priority needs a priorities configuration"},
	} {
		names, err := ParseNames(test.names)
		if test.err == ErrNoPriorities {
			_, err = New(names, Config{})
		}
		if !errors.Is(err, test.err) || err.Error() != test.text {
			t.Errorf("%q: got %v, want %s", test.names, err, test.text)
		}
		if test.err != ErrNoPriorities {
			if _, err := New(strings.Split(test.names, ","), Config{}); !errors.Is(err, test.err) {
				t.Errorf("New(%q): got %v, want %v", test.names, err, test.err)
			}
		}
	}
}

func TestNewDefaults(t *testing.T) {
	chain, err := New(nil, Config{})
	if err != nil || !slices.Equal(chain.Names(), []string{Default}) {
		t.Errorf("got %v, %v", chain.Names(), err)
	}
	if names, err := ParseNames(" most-pods, random "); err != nil || !slices.Equal(names, []string{"most-pods", "random"}) {
		t.Errorf("got %v, %v", names, err)
	}
}

func TestChainFiltersUntilOneIsLeft(t *testing.T) {
	options := []Option{option("d", 2, 5, 100, 0), option("c", 3, 5, 3000, 0), option("b", 3, 5, 3000, 0), option("a", 1, 4, 4000, 16*gib)}
	for _, test := range []struct{ names, want, trail string }{
		{"least-waste", "a", "least-waste: keeps a (0.00 % wasted (cpu 0.00 %, memory 0.00 %)); " +
			"drops b (87.50 % wasted (cpu 75.00 %, memory 100.00 %)), c (87.50 % wasted (cpu 75.00 %, memory 100.00 %)), d " +
			"(99.38 % wasted (cpu 98.75 %, memory 100.00 %))\n"},
		{"most-pods,least-nodes,price", "d", "most-pods: keeps b (5 pods), c (5 pods), d (5 pods); drops a (4 pods)\n" +
			"least-nodes: keeps d (2 nodes); drops b (3 nodes), c (3 nodes)\n"},
		{"most-pods,least-waste", "b", "most-pods: keeps b (5 pods), c (5 pods), d (5 pods); drops a (4 pods)\n" +
			"least-waste: keeps b (87.50 % wasted (cpu 75.00 %, memory 100.00 %)), c (87.50 % wasted (cpu 75.00 %, memory 100.00 " +
			"%)); drops d (99.38 % wasted (cpu 98.75 %, memory 100.00 %))\n" +
			"name: keeps b (first by name); drops c\n"},
	} {
		chosen, trail, err := chainOf(t, test.names, Config{}).Choose(options)
		if err != nil || chosen.Group != test.want || trail.String() != test.trail {
			t.Errorf("%s: %s, %v\n%s\nwant %s\n%s", test.names, chosen.Group, err, trail, test.want, test.trail)
		}
	}
}

func TestChooseAmongNoneOrTwice(t *testing.T) {
	chain := chainOf(t, Default, Config{})
	if _, _, err := chain.Choose(nil); !errors.Is(err, ErrNoOptions) {
		t.Errorf("got %v", err)
	}
	if _, _, err := chain.Choose([]Option{{Group: "a"}, {Group: "a"}}); !errors.Is(err, ErrDuplicateOption) ||
		!strings.HasSuffix(err.Error(), ": a") {
		t.Errorf("got %v", err)
	}
	chosen, trail, err := Chain{}.Choose([]Option{{Group: "b"}, {Group: "a"}})
	if err != nil || chosen.Group != "a" || len(trail) != 1 || trail[0].Strategy != NameStep {
		t.Errorf("a chain without strategies: %s, %v, %v", chosen.Group, trail, err)
	}
}

// TestEqualOptions: what the strategies find equal is chosen by the nodes that a pod needs, then by how many pods it helps.
func TestEqualOptions(t *testing.T) {
	for _, c := range []struct {
		name    string
		options []Option
		want    string
		steps   []string
	}{
		{"fewest nodes", []Option{option("a", 2, 4, 0, 0), option("b", 1, 4, 0, 0)}, "b", []string{NodesStep}},
		{"fewest nodes for a pod", []Option{option("a", 1, 1, 0, 0), option("b", 2, 4, 0, 0)}, "b", []string{NodesStep}},
		{"more pods", []Option{option("a", 1, 2, 0, 0), option("b", 2, 4, 0, 0), option("c", 2, 4, 0, 0)}, "b", []string{NodesStep, NameStep}},
		{"name", []Option{option("b", 1, 2, 0, 0), option("a", 1, 2, 0, 0)}, "a", []string{NameStep}},
	} {
		chosen, trail, err := Chain{}.Choose(c.options)
		var steps []string
		for i := range trail {
			steps = append(steps, trail[i].Strategy)
			if !trail[i].TieBreak() {
				t.Errorf("%s: the step %s is no tie-break", c.name, trail[i].Strategy)
			}
		}
		if err != nil || chosen.Group != c.want || !slices.Equal(steps, c.steps) {
			t.Errorf("%s: %s by %v, %v; want %s by %v", c.name, chosen.Group, steps, err, c.want, c.steps)
		}
	}
}

func TestTrailNamesTheFirstFew(t *testing.T) {
	var options []Option
	for i := range 10 {
		options = append(options, option(fmt.Sprintf("g%d", i), 1+i/5, 1, 0, 0))
	}
	_, trail, _ := chainOf(t, "least-nodes", Config{}).Choose(options)
	want := "least-nodes: keeps g0 (1 node), g1 (1 node), g2 (1 node), and 2 others; drops g5 (2 nodes), g6 (2 nodes), g7 " +
		"(2 nodes), and 2 others"
	if got := trail[0].String(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if got := dropped(trail[0]); !slices.Equal(got, []string{"g5", "g6", "g7", "g8", "g9"}) {
		t.Errorf("dropped %v", got)
	}
	if got := trail[0].Kept(); len(got) != 5 {
		t.Errorf("kept %v", got)
	}
}

// m5.large in four zones, of which one is populated: its template, taken from a
// real node, differs by 0.06 % waste. The set is one choice whichever member is
// the tightest, and the smallest difference against another set still counts.
func TestAWasteDifferenceNeverPinsAZone(t *testing.T) {
	zones := []string{"m5-large-a", "m5-large-b", "m5-large-c", "m5-large-d"}
	for populated := range zones {
		var options []Option
		for i, zone := range zones {
			o := option(zone, 5, 10, 9000, 36*gib)
			o.Set = zones[0]
			o.Template.Node = nodeOf(2000, 8*gib)
			if i == populated {
				o.Template.Node = nodeOf(2000, 8*gib-10*1024*1024)
			}
			options = append(options, o)
		}
		loose := option("r5-large", 5, 10, 9000, 36*gib)
		loose.Template.Node = nodeOf(2000, 16*gib)
		chosen, trail, err := chainOf(t, "least-waste", Config{}).Choose(append(options, loose))
		if err != nil {
			t.Fatal(err)
		}
		if chosen.Group != zones[0] || !slices.Equal(chosen.members, zones) {
			t.Errorf("%s populated: chose %s of %v", zones[populated], chosen.Group, chosen.members)
		}
		if len(trail) != 2 || trail[0].Strategy != SetStep ||
			trail[0].Options[0].Figure != "10 pods on 5 nodes, stands for m5-large-b, m5-large-c, m5-large-d" {
			t.Errorf("trail:\n%s", trail)
		}
	}
}

func TestRepresent(t *testing.T) {
	in := func(set string, o Option) Option { o.Set = set; return o }
	options := []Option{
		in("s", option("c", 2, 5, 0, 0)), in("s", option("b", 2, 5, 0, 0)), in("s", option("a", 1, 4, 0, 0)), in("s", option("d", 3, 5, 0, 0)),
		in("t", option("z", 9, 9, 0, 0)), option("x", 1, 1, 0, 0), option("w", 1, 1, 0, 0),
	}
	var names []string
	chosen, _ := represent(options)
	for _, o := range chosen {
		names = append(names, o.Group)
	}
	if got := strings.Join(names, " "); got != "b w x z" {
		t.Errorf("got %s", got)
	}
	if got, _ := represent(nil); len(got) != 0 {
		t.Errorf("of none: %v", got)
	}
}

// genOptions draws options with many ties.
func genOptions(t *rapid.T) []Option {
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-c]{1,3}`), 1, 12, rapid.ID[string]).Draw(t, "names")
	var options []Option
	for _, name := range names {
		o := option(name, rapid.IntRange(1, 3).Draw(t, "nodes"), rapid.IntRange(0, 3).Draw(t, "pods"),
			rapid.Int64Range(0, 3).Draw(t, "cpu")*1000, rapid.Int64Range(0, 2).Draw(t, "memory")*4*gib)
		o.Template.Node = nodeOf(rapid.Int64Range(0, 2).Draw(t, "cores")*2000, rapid.Int64Range(0, 2).Draw(t, "size")*8*gib)
		o.HasPrice = rapid.Bool().Draw(t, "hasPrice")
		o.NodePrice = cloudprovider.Price(rapid.Int64Range(0, 3).Draw(t, "price"))
		o.Set = rapid.SampledFrom([]string{"", "", "s", "t"}).Draw(t, "set")
		options = append(options, o)
	}
	return options
}

func genChain(t *rapid.T, priorities Priorities) Chain {
	names := rapid.SliceOfNDistinct(rapid.SampledFrom(Names()), 0, -1, rapid.ID[string]).Draw(t, "chain")
	if i := slices.Index(names, "random"); i >= 0 {
		names = names[:i+1]
	}
	chain, err := New(names, Config{Seed: rapid.Uint64().Draw(t, "seed"), Priorities: priorities})
	if err != nil {
		t.Fatal(err)
	}
	return chain
}

func TestChoiceIsAmongTheOptionsAndIndependentOfTheirOrder(t *testing.T) {
	priorities := prioritiesOf(t, "1: [a]\n2: [b, 'c$']\n")
	rapid.Check(t, func(t *rapid.T) {
		options, chain := genOptions(t), genChain(t, priorities)
		before := slices.Clone(options)
		chosen, trail, err := chain.Choose(options)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(options, before) {
			t.Fatal("the options were changed")
		}
		given := chosen
		given.members = nil // the choice notes for whom it stands
		if !slices.ContainsFunc(options, func(o Option) bool { return reflect.DeepEqual(o, given) }) {
			t.Fatalf("chose %+v, which is no option", chosen)
		}
		shuffled := rapid.Permutation(options).Draw(t, "shuffled")
		again, trail2, err := chain.Choose(shuffled)
		if err != nil || !reflect.DeepEqual(again, chosen) || !reflect.DeepEqual(trail, trail2) {
			t.Fatalf("shuffled: %s instead of %s\n%s\n%s", again.Group, chosen.Group, trail, trail2)
		}
	})
}

// Each step goes on with what the one before kept, every strategy keeps at
// least one, and the last one kept is the choice.
func TestTrailLeadsToTheChoice(t *testing.T) {
	priorities := prioritiesOf(t, "1: [a]\n2: [b, 'c$']\n")
	rapid.Check(t, func(t *rapid.T) {
		options, chain := genOptions(t), genChain(t, priorities)
		chosen, trail, err := chain.Choose(options)
		if err != nil {
			t.Fatal(err)
		}
		left := make([]string, len(options))
		for i, o := range options {
			left[i] = o.Group
		}
		for _, step := range trail {
			slices.Sort(left)
			judged := append(step.Kept(), dropped(step)...)
			slices.Sort(judged)
			if !slices.Equal(judged, left) {
				t.Fatalf("step %s judged %v, but %v were left", step.Strategy, judged, left)
			}
			if left = step.Kept(); len(left) == 0 {
				t.Fatalf("step %s kept none", step.Strategy)
			}
		}
		if len(left) != 1 || left[0] != chosen.Group {
			t.Fatalf("left %v, chosen %s\n%s", left, chosen.Group, trail)
		}
	})
}

// The choice stays when an option that was not chosen goes away. The lot may
// then fall differently, and a set another member may stand for is another choice.
func TestChoiceIsStableWithoutALoser(t *testing.T) {
	priorities := prioritiesOf(t, "1: [a]\n2: [b, 'c$']\n")
	rapid.Check(t, func(t *rapid.T) {
		options, chain := genOptions(t), genChain(t, priorities)
		if slices.Contains(chain.Names(), "random") {
			t.Skip("lot")
		}
		for i := range options {
			options[i].Set = ""
		}
		chosen, _, err := chain.Choose(options)
		if err != nil {
			t.Fatal(err)
		}
		gone := rapid.IntRange(0, len(options)-1).Draw(t, "gone")
		if options[gone].Group == chosen.Group {
			return
		}
		again, _, err := chain.Choose(slices.Delete(slices.Clone(options), gone, gone+1))
		if err != nil || again.Group != chosen.Group {
			t.Fatalf("without %s: %s instead of %s", options[gone].Group, again.Group, chosen.Group)
		}
	})
}

func TestForRoundOnlyConcernsTheLot(t *testing.T) {
	options := []Option{option("a", 1, 1, 0, 0), option("b", 1, 1, 0, 0), option("c", 1, 1, 0, 0)}
	chain := chainOf(t, "least-nodes,random", Config{Seed: 3})
	drawn := make(map[string]bool)
	for n := range uint64(100) {
		first, _, _ := chain.ForRound(n).Choose(options)
		second, _, _ := chain.ForRound(n).Choose(options)
		if first.Group != second.Group {
			t.Fatalf("round %d: %s, then %s", n, first.Group, second.Group)
		}
		drawn[first.Group] = true
	}
	if len(drawn) != 3 {
		t.Errorf("100 rounds drew only %v", drawn)
	}
	plain, _, _ := chainOf(t, "least-nodes", Config{}).ForRound(7).Choose(options)
	if plain.Group != "a" {
		t.Errorf("got %s", plain.Group)
	}
}

func FuzzParseNames(f *testing.F) {
	for _, seed := range []string{"", "random", "priority,least-waste", "price,random,least-waste", " most-pods ,random", ",,", "a\x00b",
		"least-waste,least-waste"} {
		f.Add(seed)
	}
	priorities := prioritiesOf(f, "1: [a]")
	f.Fuzz(func(t *testing.T, list string) {
		names, err := ParseNames(list)
		if err != nil {
			return
		}
		chain, err := New(names, Config{Priorities: priorities})
		if err != nil {
			t.Fatalf("%q parses but makes no chain: %v", list, err)
		}
		if !slices.Equal(chain.Names(), names) || strings.ReplaceAll(list, " ", "") == "" {
			t.Fatalf("%q became %v", list, chain.Names())
		}
		if again, err := ParseNames(strings.Join(names, ",")); err != nil || !slices.Equal(again, names) {
			t.Fatalf("%v became %v, %v", names, again, err)
		}
	})
}

func BenchmarkChoose(b *testing.B) {
	priorities := prioritiesOf(b, "1: ['.*']\n50: [group-1]\n")
	for _, n := range []int{10, 100, 1000} {
		r := rand.New(rand.NewPCG(1, 2))
		var options []Option
		for i := range n {
			o := option(fmt.Sprintf("group-%d", i), 1+r.IntN(100), r.IntN(50_000), r.Int64N(1e6), r.Int64N(1e12))
			o.Set = fmt.Sprintf("set-%d", i/3)
			options = append(options, o)
		}
		for _, names := range []string{"least-waste", "priority,price,most-pods,least-nodes,least-waste,random"} {
			chain := chainOf(b, names, Config{Priorities: priorities})
			b.Run(fmt.Sprintf("options=%d/strategies=%d", n, len(chain.Names())), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, _, err := chain.Choose(options); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func TestTrailAsJSON(t *testing.T) {
	_, trail, _ := chainOf(t, "least-nodes", Config{}).Choose([]Option{option("a", 1, 1, 0, 0), option("b", 2, 1, 0, 0)})
	got, err := json.Marshal(trail)
	want := `[{"strategy":"least-nodes","options":[{"group":"a","kept":true,"figure":"1 node"},{"group":"b","kept":false,"figure":"2 nodes"}]}]`
	if err != nil || string(got) != want {
		t.Errorf("got  %s, %v\nwant %s", got, err, want)
	}
}

// dropped are the groups whose options did not go on.
func dropped(s Step) []string {
	var names []string
	for _, o := range s.Options {
		if !o.Kept {
			names = append(names, o.Group)
		}
	}
	return names
}
