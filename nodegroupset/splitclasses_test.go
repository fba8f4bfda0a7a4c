package nodegroupset

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/apportion"
)

// classOf is a class whose members have one letter each.
func classOf(members string, nodes int64) Class {
	return Class{Members: strings.Split(members, ""), Nodes: nodes}
}

// classRequest asks for the nodes of all classes in groups of these sizes, called a, b and so on.
func classRequest(sizes []int64, classes ...Class) SplitRequest {
	r := SplitRequest{Classes: classes}
	for i, size := range sizes {
		r.Groups = append(r.Groups, Group{Name: string(rune('a' + i)), Size: size, Max: 99})
	}
	for _, c := range classes {
		r.Nodes += c.Nodes
	}
	return r
}

func TestClassesAreLevelledTogether(t *testing.T) {
	bounded := func(r SplitRequest, maxes ...int64) SplitRequest {
		for i, most := range maxes {
			r.Groups[i].Max = most
		}
		return r
	}
	with := func(r SplitRequest, change func(r *SplitRequest)) SplitRequest {
		change(&r)
		return r
	}
	tests := map[string]struct {
		request  SplitRequest
		want     []int64
		unplaced int64
	}{
		"nine free and one pinned":          {classRequest([]int64{0, 0, 0}, classOf("abc", 9), classOf("a", 1)), []int64{4, 3, 3}, 0},
		"two kinds with a member in common": {classRequest([]int64{0, 0, 0}, classOf("ab", 2), classOf("bc", 4)), []int64{2, 2, 2}, 0},
		"a chain of kinds": {classRequest([]int64{0, 0, 0, 0}, classOf("ab", 3), classOf("bc", 1), classOf("cd", 4)),
			[]int64{2, 2, 2, 2}, 0},
		"a ring of kinds": {classRequest([]int64{0, 0, 0}, classOf("ab", 6), classOf("bc", 0), classOf("ac", 3)),
			[]int64{3, 3, 3}, 0},
		"pinned kinds of all members": {classRequest([]int64{0, 0, 0}, classOf("a", 5), classOf("b", 1), classOf("c", 2),
			classOf("abc", 4)), []int64{5, 4, 3}, 0},
		"pinned pods below what there is": {classRequest([]int64{7, 1, 1}, classOf("ab", 3), classOf("ac", 2)), []int64{7, 4, 3}, 0},
		"the remainder goes to the chosen group": {with(classRequest([]int64{0, 0, 0}, classOf("ab", 2), classOf("bc", 2)),
			func(r *SplitRequest) { r.Chosen = "c" }), []int64{1, 1, 2}, 0},
		"a kind without room is placed in part": {bounded(classRequest([]int64{0, 0, 0}, classOf("a", 4), classOf("abc", 4)), 2),
			[]int64{2, 2, 2}, 2},
		"a kind makes room for another": {bounded(classRequest([]int64{0, 0}, classOf("a", 3), classOf("ab", 3)), 3, 3), []int64{3, 3}, 0},
		"all members full": {bounded(classRequest([]int64{1, 1, 0}, classOf("ab", 5), classOf("bc", 9)), 2, 3, 4),
			[]int64{2, 3, 4}, 7},
		"a group over its max is left alone": {bounded(classRequest([]int64{5, 0, 0}, classOf("ab", 2), classOf("ac", 2)), 3),
			[]int64{5, 2, 2}, 0},
		"mins come first": {with(classRequest([]int64{0, 3, 0}, classOf("ab", 2), classOf("bc", 2)),
			func(r *SplitRequest) { r.Groups[1].Min = 5 }), []int64{1, 5, 1}, 0},
		"a reserve comes last": {with(classRequest([]int64{0, 0, 0}, classOf("ab", 4), classOf("bc", 4)),
			func(r *SplitRequest) { r.Groups[2].Reserve = 98 }), []int64{4, 3, 1}, 0},
		"a reserve is used if nothing else is left": {
			with(bounded(classRequest([]int64{0, 0, 0}, classOf("ab", 4), classOf("bc", 6)), 4, 4),
				func(r *SplitRequest) { r.Groups[2].Reserve = 99; r.Groups[2].Max = 99 }), []int64{4, 4, 2}, 0,
		},
		"a quota of one group": {
			with(classRequest([]int64{0, 0, 0}, classOf("ab", 4), classOf("bc", 5)), func(r *SplitRequest) {
				r.Quotas = []Quota{{Name: "zone-b", Groups: []string{"b"}, Limit: 1}}
			}), []int64{4, 1, 4}, 0,
		},
		"a quota of all groups": {
			with(classRequest([]int64{0, 0, 0}, classOf("ab", 4), classOf("bc", 5)), func(r *SplitRequest) {
				r.Quotas = []Quota{{Name: "all", Groups: []string{"a", "b", "c"}, Units: []int64{4, 4, 4}, Limit: 27}}
			}), []int64{2, 2, 2}, 3,
		},
		"more than may be added in all": {
			with(classRequest([]int64{0, 0, 0}, classOf("ab", 2), classOf("bc", 4), classOf("abc", 9)), func(r *SplitRequest) { r.Nodes = 9 }),
			[]int64{3, 3, 3}, 0,
		},
		"a quota that is not in the way": {
			with(classRequest([]int64{0, 0, 0}, classOf("ab", 2), classOf("bc", 4)), func(r *SplitRequest) {
				r.Quotas = []Quota{{Name: "two", Groups: []string{"a", "b"}, Limit: 4}}
			}), []int64{2, 2, 2}, 0,
		},
		"under a quota of some groups one class after the other": {
			with(classRequest([]int64{0, 0, 0}, classOf("ab", 2), classOf("bc", 4)), func(r *SplitRequest) {
				r.Quotas = []Quota{{Name: "two", Groups: []string{"a", "b"}, Limit: 3}}
			}), []int64{1, 2, 3}, 0,
		},
		"another policy shares one class after the other": {
			with(classRequest([]int64{0, 0, 0}, classOf("ab", 4), classOf("abc", 4)), func(r *SplitRequest) {
				r.Policy = Proportional
				r.Portions = []Portion{{Name: "one", Groups: []string{"a"}, Weight: 1}, {Name: "two", Groups: []string{"b", "c"}, Weight: 3}}
			}), []int64{2, 3, 3}, 0,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			result, err := Split(tt.request)
			if err != nil {
				t.Fatal(err)
			}
			if got := sizesOf(result); !slices.Equal(got, tt.want) || result.Unplaced != tt.unplaced {
				t.Errorf("sizes %v and %d unplaced, want %v and %d", got, result.Unplaced, tt.want, tt.unplaced)
			}
			if err := conserves(tt.request, result); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWhatAClassLacksIsExplained: each class says how many of its nodes go where, and why the rest
// has no room.
func TestWhatAClassLacksIsExplained(t *testing.T) {
	request := classRequest([]int64{0, 0, 0}, classOf("bc", 3), classOf("a", 4), classOf("c", 2))
	request.Groups[0].Max = 1
	request.Quotas = []Quota{{Name: "zone-c", Groups: []string{"c"}, Limit: 1}}
	result, err := Split(request)
	if err != nil {
		t.Fatal(err)
	}
	want := SplitResult{
		Groups: []GroupSplit{
			{Name: "a", NewSize: 1, Reason: ReasonAtMax},
			{Name: "b", NewSize: 3},
			{Name: "c", NewSize: 1, Reason: ReasonQuota, Detail: "zone-c"},
		},
		Classes: []ClassSplit{
			{Nodes: map[string]int64{"b": 3}},
			{Nodes: map[string]int64{"a": 1}, Unplaced: 3, Reason: ReasonAtMax},
			{Nodes: map[string]int64{"c": 1}, Unplaced: 1, Reason: ReasonQuota, Detail: "zone-c"},
		},
		Unplaced: 4,
	}
	if diff := gocmp.Diff(want, result); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestImpossibleClassesAreRefused(t *testing.T) {
	for path, class := range map[string]Class{
		"classes[1].nodes":      classOf("a", -1),
		"classes[1].members":    {Nodes: 1},
		"classes[1].members[0]": classOf("xa", 1),
		"classes[1].members[1]": classOf("aa", 1),
	} {
		_, err := Split(classRequest([]int64{0}, classOf("a", 1), class))
		var invalid *apportion.InvalidError
		if !errors.As(err, &invalid) || invalid.Path != path {
			t.Errorf("%+v: %v, want an error about %s", class, err, path)
		}
	}
	request := classRequest([]int64{0}, classOf("a", 1))
	request.Groups[0].Reserve = 100
	if _, err := Split(request); err == nil {
		t.Error("a reserve above the max is accepted")
	}
}

// conserves checks that nodes of classes are given to members only, each once, and that groups have
// what the classes give them, within their bounds.
func conserves(r SplitRequest, result SplitResult) error {
	got := map[string]int64{}
	placed := int64(0)
	for i, class := range r.Classes {
		sum := int64(0)
		for name, n := range result.Classes[i].Nodes {
			if n <= 0 || !slices.Contains(class.Members, name) {
				return fmt.Errorf("%d nodes of the class of %v in %s", n, class.Members, name)
			}
			got[name] += n
			sum += n
		}
		if sum+result.Classes[i].Unplaced != class.Nodes {
			return fmt.Errorf("%d nodes of the class of %v are placed and %d are not, want %d in all", sum, class.Members,
				result.Classes[i].Unplaced, class.Nodes)
		}
		placed += sum
	}
	for i, g := range r.Groups {
		row := result.Groups[i]
		if row.Name != g.Name || row.Size != g.Size || row.NewSize != g.Size+got[g.Name] {
			return fmt.Errorf("%s has %d nodes and gets %d, and the answer says %+v", g.Name, g.Size, got[g.Name], row)
		}
		if row.NewSize > max(g.Size, g.Max) {
			return fmt.Errorf("%s has %d nodes, more than %d", g.Name, row.NewSize, g.Max)
		}
	}
	if want := min(r.Nodes, r.asked()); placed+result.Unplaced != want || placed > r.Nodes {
		return fmt.Errorf("%d nodes are placed and %d are not, want %d in all", placed, result.Unplaced, want)
	}
	return nil
}

// The oracle gives out node after node to the smallest group that can have one more. By Hall's
// theorem groups can have some nodes of the classes if no subset of them has more than the classes
// that it has members of.
type classOracle struct {
	SplitRequest
	got []int64
}

func (o *classOracle) possible() bool {
	for subset := range 1 << len(o.Groups) {
		var has, supply int64
		for i := range o.Groups {
			if subset>>i&1 == 1 {
				has += o.got[i]
			}
		}
		for _, c := range o.Classes {
			if slices.ContainsFunc(o.Groups, func(g Group) bool { return subset>>o.at(g.Name)&1 == 1 && slices.Contains(c.Members, g.Name) }) {
				supply += c.Nodes
			}
		}
		if has > supply {
			return false
		}
	}
	return true
}

func (o *classOracle) at(name string) int {
	return slices.IndexFunc(o.Groups, func(g Group) bool { return g.Name == name })
}

// before reports whether group i is served before group j.
func (o *classOracle) before(i, j int) bool {
	key := func(i int) [5]int64 {
		g, size := &o.Groups[i], o.Groups[i].Size+o.got[i]
		var key [5]int64
		if size >= max(g.Size, g.Max-g.Reserve) && g.Reserve > 0 {
			key[0] = 1
		}
		if size >= g.Min {
			key[1] = 1
		}
		key[2] = size
		if g.Name != o.Chosen {
			key[3] = 1
		}
		key[4] = int64(g.Name[0])
		return key
	}
	a, b := key(i), key(j)
	return slices.Compare(a[:], b[:]) < 0
}

func (o *classOracle) split() []int64 {
	o.got = make([]int64, len(o.Groups))
	for {
		best := -1
		for i, g := range o.Groups {
			o.got[i]++
			if g.Size+o.got[i] <= g.Max && o.possible() && (best < 0 || o.less(i, best)) {
				best = i
			}
			o.got[i]--
		}
		if best < 0 {
			break
		}
		o.got[best]++
	}
	sizes := make([]int64, len(o.got))
	for i, g := range o.Groups {
		sizes[i] = g.Size + o.got[i]
	}
	return sizes
}

// less is before, where i has got its next node already.
func (o *classOracle) less(i, j int) bool {
	o.got[i]--
	defer func() { o.got[i]++ }()
	return o.before(i, j)
}

// randomClasses draws a request. Plain ones have neither minimums nor reserves.
func randomClasses(r *rand.Rand, groups, classes int, nodes int64, plain bool) SplitRequest {
	var request SplitRequest
	for i := range 1 + r.IntN(groups) {
		g := Group{Name: string(rune('a' + i)), Size: r.Int64N(4)}
		if g.Max = 99; r.IntN(3) == 0 {
			g.Max = r.Int64N(6)
		}
		if !plain && r.IntN(3) == 0 {
			g.Min = r.Int64N(min(g.Max, 6) + 1)
		}
		if !plain && r.IntN(3) == 0 {
			g.Reserve = min(g.Max, max(0, g.Max-r.Int64N(6)))
		}
		request.Groups = append(request.Groups, g)
	}
	if r.IntN(2) == 0 {
		request.Chosen = request.Groups[r.IntN(len(request.Groups))].Name
	}
	seen := map[string]bool{}
	for range 1 + r.IntN(classes) {
		c := Class{Nodes: r.Int64N(nodes + 1)}
		for _, g := range request.Groups {
			if r.IntN(2) == 0 {
				c.Members = append(c.Members, g.Name)
			}
		}
		if key := fmt.Sprint(c.Members); len(c.Members) > 0 && !seen[key] {
			seen[key] = true
			request.Classes = append(request.Classes, c)
			request.Nodes += c.Nodes
		}
	}
	if len(request.Classes) == 0 {
		return randomClasses(r, groups, classes, nodes, plain)
	}
	return request
}

// TestClassesGetNodesAsIfOneByOne: the answer is the same as that of giving out node after node.
func TestClassesGetNodesAsIfOneByOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 30_000 {
		request := randomClasses(random, 5, 5, 6, random.IntN(2) == 0)
		result, err := Split(request)
		if err != nil {
			t.Fatalf("%+v: %v", request, err)
		}
		oracle := classOracle{SplitRequest: request}
		if want, got := oracle.split(), sizesOf(result); !slices.Equal(want, got) {
			t.Fatalf("%+v:\nsizes %v, one by one %v", request, got, want)
		}
		if err := conserves(request, result); err != nil {
			t.Fatalf("%+v: %v", request, err)
		}
	}
}

// everyAssignment visits the sizes of all ways to give out the nodes of classes.
func everyAssignment(r *SplitRequest, sizes []int64, class int, given int64, visit func(sizes []int64)) {
	if class == len(r.Classes) {
		visit(sizes)
		return
	}
	c := &r.Classes[class]
	if given == c.Nodes {
		everyAssignment(r, sizes, class+1, 0, visit)
		return
	}
	everyAssignment(r, sizes, class+1, 0, visit) // the rest has no room
	for i, g := range r.Groups {
		if sizes[i] < g.Max && slices.Contains(c.Members, g.Name) {
			sizes[i]++
			everyAssignment(r, sizes, class, given+1, visit)
			sizes[i]--
		}
	}
}

// TestNoAssignmentOfClassesIsMoreEven: of all ways to give out the nodes none places more, and of
// those that place as many none is more even: neither in the largest sizes nor in the spread, the
// sum of squares or of absolute differences.
func TestNoAssignmentOfClassesIsMoreEven(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for range 20_000 {
		request := randomClasses(random, 4, 4, 3, true)
		result, err := Split(request)
		if err != nil {
			t.Fatal(err)
		}
		got := sizesOf(result)
		everyAssignment(&request, before(request), 0, 0, func(sizes []int64) {
			if total(sizes) > total(got) || total(sizes) == total(got) && moreEven(sizes, got) {
				t.Fatalf("%+v: sizes %v, and %v is possible", request, got, sizes)
			}
		})
	}
}

func before(r SplitRequest) (sizes []int64) {
	for _, g := range r.Groups {
		sizes = append(sizes, g.Size)
	}
	return sizes
}

func total(sizes []int64) (sum int64) {
	for _, n := range sizes {
		sum += n
	}
	return sum
}

// moreEven reports whether sizes are more even than others by any measure.
func moreEven(sizes, than []int64) bool {
	a, b := slices.Sorted(slices.Values(sizes)), slices.Sorted(slices.Values(than))
	last := len(a) - 1
	if a[last]-a[0] < b[last]-b[0] {
		return true
	}
	var squares, differences int64
	for i := range a {
		squares += a[i]*a[i] - b[i]*b[i]
		for j := range i {
			differences += (a[i] - a[j]) - (b[i] - b[j])
		}
	}
	slices.Reverse(a)
	slices.Reverse(b)
	return squares < 0 || differences < 0 || slices.Compare(a, b) < 0
}

// TestClassesAreLevelProperties: no node of a class can go to a smaller group, however others move;
// no node without room could have some; shuffling the request changes nothing.
func TestClassesAreLevelProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		r := rand.New(rand.NewPCG(seed, 5))
		request := randomClasses(r, 12, 15, 1000, true)
		before := fmt.Sprintf("%+v", request)
		result, err := Split(request)
		if err != nil {
			t.Fatal(err)
		}
		if after := fmt.Sprintf("%+v", request); after != before {
			t.Fatalf("the request changed: %s", after)
		}
		if err := conserves(request, result); err != nil {
			t.Fatal(err)
		}
		rows := map[string]GroupSplit{}
		for _, g := range result.Groups {
			rows[g.Name] = g
		}
		for i, class := range request.Classes {
			for name, size := range reachable(request, result, class.Members) {
				if result.Classes[i].Unplaced > 0 {
					t.Fatalf("nodes of %v have no room, and %s has some", class.Members, name)
				}
				for from := range result.Classes[i].Nodes {
					if rows[from].NewSize > size+1 {
						t.Fatalf("%s has %d nodes, one of which could make room in %s with %d", from, rows[from].NewSize, name, size)
					}
				}
			}
		}
		shuffled := request
		shuffled.Groups, shuffled.Classes = slices.Clone(request.Groups), slices.Clone(request.Classes)
		r.Shuffle(len(shuffled.Groups), func(i, j int) { shuffled.Groups[i], shuffled.Groups[j] = shuffled.Groups[j], shuffled.Groups[i] })
		r.Shuffle(len(shuffled.Classes), func(i, j int) { shuffled.Classes[i], shuffled.Classes[j] = shuffled.Classes[j], shuffled.Classes[i] })
		again, err := Split(shuffled)
		if err != nil {
			t.Fatal(err)
		}
		for _, g := range again.Groups {
			if rows[g.Name] != g {
				t.Fatalf("%+v, and in another order %+v", rows[g.Name], g)
			}
		}
		for i, class := range shuffled.Classes {
			k := slices.IndexFunc(request.Classes, func(c Class) bool { return slices.Equal(c.Members, class.Members) })
			if !maps.Equal(result.Classes[k].Nodes, again.Classes[i].Nodes) {
				t.Fatalf("nodes of %v: %v, and in another order %v", class.Members, result.Classes[k].Nodes, again.Classes[i].Nodes)
			}
		}
	})
}

// reachable returns the groups with room, by size, that one more node in some groups can get room in
// if nodes move within their classes.
func reachable(r SplitRequest, result SplitResult, from []string) map[string]int64 {
	seen := map[string]bool{}
	for queue := slices.Clone(from); len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		if seen[name] {
			continue
		}
		seen[name] = true
		for i, c := range r.Classes {
			if result.Classes[i].Nodes[name] > 0 {
				queue = append(queue, c.Members...)
			}
		}
	}
	with := map[string]int64{}
	for i, g := range r.Groups {
		if size := result.Groups[i].NewSize; seen[g.Name] && size < g.Max {
			with[g.Name] = size
		}
	}
	return with
}

// TestClassesInTurnKeepToPoliciesAndQuotas: under policies and quotas nothing is lost or exceeded.
func TestClassesInTurnKeepToPoliciesAndQuotas(t *testing.T) {
	random := rand.New(rand.NewPCG(6, 7))
	for range 5_000 {
		request := randomClasses(random, 5, 5, 6, false)
		request.Nodes = random.Int64N(20)
		request.Policy = []Policy{Even, Proportional, Priority}[random.IntN(3)]
		for i := range request.Groups {
			request.Groups[i].Weight = random.Int64N(3)
			request.Groups[i].Base = random.Int64N(3)
		}
		q := Quota{Name: "some", Limit: random.Int64N(12)}
		for _, g := range request.Groups {
			if random.IntN(2) == 0 {
				q.Groups, q.Units = append(q.Groups, g.Name), append(q.Units, 1+random.Int64N(2))
			}
		}
		request.Quotas = []Quota{q}
		result, err := Split(request)
		if err != nil {
			t.Fatalf("%+v: %v", request, err)
		}
		if err := conserves(request, result); err != nil {
			t.Fatalf("%+v: %v", request, err)
		}
		used, grows := int64(0), false
		for k, name := range q.Groups {
			i := slices.IndexFunc(result.Groups, func(g GroupSplit) bool { return g.Name == name })
			used += q.Units[k] * result.Groups[i].NewSize
			grows = grows || result.Groups[i].NewSize > result.Groups[i].Size
		}
		if grows && used > q.Limit {
			t.Fatalf("%+v: %d used", request, used)
		}
	}
}

func BenchmarkSplitClasses(b *testing.B) {
	for _, size := range []struct{ classes, groups int }{{5, 3}, {20, 10}, {50, 30}, {200, 100}} {
		for _, nodes := range []int64{1_000, 1_000_000} {
			r := rand.New(rand.NewPCG(8, 9))
			request := SplitRequest{Groups: make([]Group, size.groups)}
			for i := range request.Groups {
				request.Groups[i] = Group{Name: fmt.Sprintf("group-%03d", i), Size: r.Int64N(50), Max: MaxSize}
			}
			for range size.classes {
				c := Class{Nodes: r.Int64N(2 * nodes / int64(size.classes))}
				for range 1 + r.IntN(3)*r.IntN(3) {
					c.Members = append(c.Members, request.Groups[r.IntN(size.groups)].Name)
				}
				slices.Sort(c.Members)
				c.Members = slices.Compact(c.Members)
				request.Classes = append(request.Classes, c)
				request.Nodes += c.Nodes
			}
			b.Run(fmt.Sprintf("classes=%d/groups=%d/nodes=%d", size.classes, size.groups, nodes), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := Split(request); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
