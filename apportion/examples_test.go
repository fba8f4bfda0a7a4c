package apportion

import (
	"slices"
	"strconv"
	"strings"
	"testing"
)

// targets reads "a weight 2 min 1; b capacity 6".
func targets(t *testing.T, text string) (list []Target) {
	t.Helper()
	for entry := range strings.SplitSeq(text, ";") {
		words := strings.Fields(entry)
		target := Target{Name: words[0]}
		for pair := range slices.Chunk(words[1:], 2) {
			value, err := strconv.ParseInt(pair[1], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			switch pair[0] {
			case "weight":
				target.Weight = &value
			case "min":
				target.Min = value
			case "max":
				target.Max = &value
			case "capacity":
				target.Capacity = &value
			case "current":
				target.Current = value
			case "taken":
				target.Taken = &value
			default:
				t.Fatalf("no such field: %s", pair[0])
			}
		}
		list = append(list, target)
	}
	return list
}

// option changes a request.
type option func(*Request)

func with(options ...option) []option { return options }

var (
	trim         option = func(r *Request) { r.Pending = Trim }
	totalWins    option = func(r *Request) { r.Shortage = TotalWins }
	additive     option = func(r *Request) { r.MinMode = Additive }
	stay         option = func(r *Request) { r.Rebalance = new(false) }
	priority     option = func(r *Request) { r.Policy = Priority }
	laterOnly    option = func(r *Request) { r.Policy, r.Relief = Priority, LaterOnly }
	healthyOnly  option = func(r *Request) { r.Relief = HealthyOnly }
	webster      option = func(r *Request) { r.Rounding = Webster }
	dHondt       option = func(r *Request) { r.Rounding = DHondt }
	anyRounding         = [][]option{with(), with(webster), with(dHondt)}
	balancer            = [][]option{with(dHondt, healthyOnly), with(healthyOnly), with(webster, healthyOnly)}
	balancerList        = [][]option{with(laterOnly), with(priority)}
)

// example is one line of the tables: the same answer under each of the variants.
type example struct {
	name     string
	replicas int64
	targets  string
	options  []option
	variants [][]option // none: the options alone
	want     []int64
	pending  []int64 // nil: none
	unplaced int64
	excess   int64
}

// The federated scenarios: 50 replicas, targets A, B, C.
var federatedScenarios = []example{
	{"equal", 50, "A; B; C", nil, anyRounding, []int64{17, 17, 16}, nil, 0, 0},
	{"equal, C holds 6", 50, "A; B; C capacity 6", nil, anyRounding, []int64{22, 22, 16}, []int64{0, 0, 10}, 0, 0},
	{"equal, C holds 6, Trim", 50, "A; B; C capacity 6", with(trim), anyRounding, []int64{22, 22, 6}, nil, 0, 0},
	{"equal, B and C offline", 50, "A", nil, anyRounding, []int64{50}, nil, 0, 0},
	{"bounds alone, max 2", 50, "A weight 1 max 2; B weight 1 max 2; C weight 1 max 2", nil, anyRounding, []int64{2, 2, 2}, nil, 44, 0},
	{"bounds alone, min 2 and weight 0", 50, "A min 2 weight 0; B min 2 weight 0; C min 2 weight 0", nil, anyRounding, []int64{2, 2, 2}, nil,
		44, 0},
	{"bounds alone, min 2 and max 2", 50, "A min 2 max 2; B min 2 max 2; C min 2 max 2", nil, anyRounding, []int64{2, 2, 2}, nil, 44, 0},
	{"minimums beyond the total", 50, "A min 20 weight 0; B min 20 weight 0; C min 20 weight 0", with(totalWins), anyRounding,
		[]int64{20, 20, 10}, nil, 0, 0},
	{"minimums beyond the total, GuaranteeMin", 50, "A min 20 weight 0; B min 20 weight 0; C min 20 weight 0", nil, anyRounding,
		[]int64{20, 20, 20}, nil, 0, 10},
	{"C has a max", 50, "A; B; C max 20", nil, anyRounding, []int64{17, 17, 16}, nil, 0, 0},
	{"C has a max, B offline", 50, "A; C max 20", nil, anyRounding, []int64{30, 20}, nil, 0, 0},
	{"C has a max, B capacity 0", 50, "A; B capacity 0; C max 20", nil, anyRounding, []int64{30, 17, 20}, []int64{0, 17, 0}, 0, 0},
	{"C has a max, only C", 50, "C max 20", nil, anyRounding, []int64{20}, nil, 30, 0},
	{"a great weight", 50, "A weight 1000000; B weight 1; C weight 1", nil, anyRounding, []int64{50, 0, 0}, nil, 0, 0},
	{"a great weight, A capacity 40", 50, "A weight 1000000 capacity 40; B weight 1; C weight 1", nil, anyRounding, []int64{50, 5, 5},
		[]int64{10, 0, 0}, 0, 0},
	{"a great weight, A capacity 40, Trim", 50, "A weight 1000000 capacity 40; B weight 1; C weight 1", with(trim), anyRounding,
		[]int64{40, 5, 5}, nil, 0, 0},
	{"weights", 50, "A weight 2; B weight 1; C weight 1", nil, nil, []int64{25, 13, 12}, nil, 0, 0},
	{"A has some", 50, "A current 20; B; C", with(stay), anyRounding, []int64{20, 15, 15}, nil, 0, 0},
	{"A has some, C capacity 6", 50, "A current 20; B; C capacity 6", with(stay), anyRounding, []int64{22, 22, 15}, []int64{0, 0, 9}, 0, 0},
	{"A has some, C capacity 6, Trim", 50, "A current 20; B; C capacity 6", with(stay, trim), anyRounding, []int64{22, 22, 6}, nil, 0, 0},
	{"A has 30, C capacity 6, Trim", 50, "A current 30; B; C capacity 6", with(stay, trim), anyRounding, []int64{30, 14, 6}, nil, 0, 0},
}

// What other systems answer. Capacity is what they know as total less not started.
var otherSystems = []example{
	{"Balancer, priority: max", 10, "a max 3; b", nil, balancerList, []int64{3, 7}, nil, 0, 0},
	{"Balancer, priority: minimums", 10, "a min 2; b min 3", nil, balancerList, []int64{7, 3}, nil, 0, 0},
	{"Balancer, priority: minimums beyond the total", 1, "a min 2; b min 3", nil, balancerList, []int64{2, 3}, nil, 0, 4},
	{"Balancer, priority: both blocked", 10, "a capacity 1; b capacity 1", nil, balancerList, []int64{10, 9}, []int64{9, 8}, 8, 0},
	{"Balancer: 70/30", 10, "a weight 70; b weight 30", nil, balancer, []int64{7, 3}, nil, 0, 0},
	{"Balancer: both at max", 10, "a max 3; b max 2", nil, balancer, []int64{3, 2}, nil, 5, 0},
	{"Balancer: min beyond the total", 10, "a min 20; b", nil, balancer, []int64{20, 0}, nil, 0, 10},
	{"Balancer: fixed and min", 10, "a min 3 max 3; b min 4", nil, balancer, []int64{3, 7}, nil, 0, 0},
	{"Balancer: one blocked", 10, "a capacity 3; b", nil, balancer, []int64{5, 7}, []int64{2, 0}, 0, 0},
	{"Balancer: minimum blocked", 6, "a min 3 capacity 0; b min 3", nil, balancer, []int64{3, 6}, []int64{3, 0}, 0, 0},
	{"Balancer: blocked and max", 18, "a max 10 capacity 7; b max 10", nil, balancer, []int64{9, 10}, []int64{2, 0}, 1, 0},

	{"KubeFed: equal", 50, "A; B", nil, anyRounding, []int64{25, 25}, nil, 0, 0},
	{"KubeFed: C has 30", 50, "A; B; C current 30", with(stay), anyRounding, []int64{10, 10, 30}, nil, 0, 0},
	{"KubeFed: 15 over 5 and 8", 15, "A current 5; B current 8", with(stay), anyRounding, []int64{7, 8}, nil, 0, 0},
	{"KubeFed: 50 over 10 and 70", 50, "A current 10; B current 70", with(stay), anyRounding, []int64{10, 40}, nil, 0, 0},
	{"KubeFed: C capacity 10", 50, "A; B; C capacity 10", nil, anyRounding, []int64{20, 20, 16}, []int64{0, 0, 6}, 0, 0},
	{"KubeFed: a minimum beyond the total", 50, "A min 100 weight 1; B min 20 weight 0; C min 20 weight 0", with(totalWins), anyRounding,
		[]int64{50, 0, 0}, nil, 0, 0},
	{"KubeFed: a blocked minimum", 50, "A min 20 weight 0; B min 20 weight 0 capacity 10; C min 20 weight 0", with(totalWins, trim),
		anyRounding, []int64{20, 10, 20}, nil, 0, 0},
	{"KubeFed: a great weight and a max", 50, "A weight 10000 max 10; B weight 1; C weight 1", nil, anyRounding, []int64{10, 20, 20}, nil,
		0, 0},
	{"KubeFed: 9 within bounds", 9, "A min 4 max 6 weight 1; B min 4 max 8 weight 2", nil, anyRounding, []int64{4, 5}, nil, 0, 0},
	{"KubeFed: 10 within bounds", 10, "A min 2 max 6 weight 2; B min 4 max 8 weight 3", nil, anyRounding, []int64{4, 6}, nil, 0, 0},

	{"KubeAdmiral: weight 0 keeps", 18, "A weight 0 current 10; B current 1; C current 7", with(stay), anyRounding, []int64{10, 1, 7}, nil,
		0, 0},
	{"KubeAdmiral: min 10, Additive", 50, "A min 10; B", with(additive), anyRounding, []int64{30, 20}, nil, 0, 0},
	{"KubeAdmiral: min 10, Floor", 50, "A min 10; B", nil, anyRounding, []int64{25, 25}, nil, 0, 0},
	{"KubeAdmiral: avoiding disruption", 50, "A current 30; B; C current 20 capacity 10", with(stay, trim), anyRounding, []int64{30, 10, 10},
		nil, 0, 0},

	{"Karmada: 3:2:1", 13, "A weight 3; B weight 2; C weight 1", with(webster), nil, []int64{7, 4, 2}, nil, 0, 0},
	{"Karmada: 170:110:60 with 5", 5, "A weight 170; B weight 110; C weight 60", with(webster), nil, []int64{2, 2, 1}, nil, 0, 0},
	{"Karmada: 170:110:60 with 6", 6, "A weight 170; B weight 110; C weight 60", with(webster), nil, []int64{3, 2, 1}, nil, 0, 0},
	{"Karmada: by room", 12, "A weight 6 capacity 6; B weight 8 capacity 8; C weight 10 capacity 10", with(webster), nil, []int64{3, 4, 5},
		nil, 0, 0},
}

// Cases that the definitions of the options and methods name.
var definitions = []example{
	{"the document", 50, "a weight 1 min 0 max 100 capacity 6 current 0; b; c", nil, anyRounding, []int64{17, 22, 22}, []int64{11, 0, 0},
		0, 0},
	{"Any under Priority goes back", 6, "a min 3; b min 3 capacity 0", with(priority), nil, []int64{6, 3}, []int64{0, 3}, 0, 0},
	{"LaterOnly does not", 6, "a min 3; b min 3 capacity 0", with(laterOnly), nil, []int64{3, 3}, []int64{0, 3}, 3, 0},
	{"90/5/5", 10, "a weight 90; b weight 5; c weight 5", nil, nil, []int64{9, 1, 0}, nil, 0, 0},
	{"90/5/5, DHondt", 10, "a weight 90; b weight 5; c weight 5", with(dHondt), nil, []int64{10, 0, 0}, nil, 0, 0},
	{"2:1", 2, "a weight 2; b weight 1", nil, nil, []int64{1, 1}, nil, 0, 0},
	{"2:1, DHondt", 2, "a weight 2; b weight 1", with(dHondt), nil, []int64{2, 0}, nil, 0, 0},
	{"all weights zero", 9, "a weight 0 min 1; b weight 0", nil, anyRounding, []int64{1, 0}, nil, 8, 0},
	{"a target not in the order", 9, "a weight 0 min 1; b max 5", with(priority), nil, []int64{1, 5}, nil, 3, 0},
	{"weight 0 gives up first", 10, "a weight 0 current 8; b current 6", with(stay), anyRounding, []int64{4, 6}, nil, 0, 0},
	{"minimums granted where replicas are", 6, "a min 4; b min 4 current 4", with(totalWins, stay), anyRounding, []int64{2, 4}, nil, 0, 0},
	{"minimums granted by weight", 6, "a min 4; b min 4 weight 2", with(totalWins), anyRounding, []int64{2, 4}, nil, 0, 0},
	{"minimums granted in list order", 6, "a min 4; b min 4 weight 2", with(totalWins, priority), nil, []int64{4, 2}, nil, 0, 0},
	{"a minimum completed", 6, "a min 4 capacity 1; b min 4", with(totalWins, trim), anyRounding, []int64{1, 5}, nil, 0, 0},
}

func TestExampleTables(t *testing.T) {
	for _, table := range [][]example{federatedScenarios, otherSystems, definitions} {
		for _, e := range table {
			t.Run(e.name, func(t *testing.T) {
				variants := e.variants
				if variants == nil {
					variants = [][]option{nil}
				}
				for _, variant := range variants {
					e.check(t, variant)
				}
			})
		}
	}
}

func (e example) check(t *testing.T, variant []option) {
	t.Helper()
	r := Request{Replicas: e.replicas, Targets: targets(t, e.targets)}
	for _, set := range slices.Concat(e.options, variant) {
		set(&r)
	}
	got, err := Distribute(r)
	if err != nil {
		t.Fatal(err)
	}
	pending := e.pending
	if pending == nil {
		pending = make([]int64, len(e.want))
	}
	if !slices.Equal(replicas(got), e.want) || !slices.Equal(pendings(got), pending) ||
		got.Unplaced != e.unplaced || got.Excess != e.excess {
		t.Errorf("%s:\n got %+v\nwant %v, pending %v, unplaced %d, excess %d",
			describe(r), got, e.want, pending, e.unplaced, e.excess)
	}
}

func TestReasons(t *testing.T) {
	for _, test := range []struct {
		replicas int64
		targets  string
		options  []option
		want     []Reason
	}{
		{50, "a capacity 6; b; c", nil, []Reason{ReasonCapacity, ReasonWeight, ReasonWeight}},
		{50, "a capacity 6; b; c", with(trim), []Reason{ReasonCapacity, ReasonWeight, ReasonWeight}},
		{50, "a capacity 6; b capacity 20; c", nil, []Reason{ReasonCapacity, ReasonCapacity, ReasonWeight}},
		{9, "a capacity 3; b; c", nil, []Reason{ReasonWeight, ReasonWeight, ReasonWeight}},
		{9, "a capacity 2 max 2; b; c", nil, []Reason{ReasonMax, ReasonWeight, ReasonWeight}},
		{9, "a max 2; b min 5; c", nil, []Reason{ReasonMax, ReasonMin, ReasonWeight}},
		{9, "a weight 0; b weight 0 min 5; c", nil, []Reason{ReasonWeight, ReasonMin, ReasonWeight}},
		{6, "a min 4; b min 4", with(totalWins), []Reason{ReasonMin, ReasonMin}},
		{1, "a min 1 weight 0 capacity 0 taken 0; b; c min 1 capacity 0", with(totalWins, healthyOnly),
			[]Reason{ReasonCapacity, ReasonWeight, ReasonCapacity}},
		{2, "a current 2; b min 1 max 1 capacity 0; c min 2 capacity 1", with(totalWins, priority, stay),
			[]Reason{ReasonOrder, ReasonCapacity, ReasonMin}},
		{50, "A current 20; B; C", with(stay), []Reason{ReasonSticky, ReasonWeight, ReasonWeight}},
		{45, "A current 15; B; C", with(stay), []Reason{ReasonWeight, ReasonWeight, ReasonWeight}},
		{50, "A current 10; B current 70", with(stay), []Reason{ReasonSticky, ReasonWeight}},
		{18, "A weight 0 current 10; B current 1; C current 7", with(stay), []Reason{ReasonSticky, ReasonSticky, ReasonSticky}},
		{10, "a max 3; b; c", with(priority), []Reason{ReasonMax, ReasonOrder, ReasonOrder}},
		{10, "a min 2; b min 3", with(priority), []Reason{ReasonOrder, ReasonMin}},
		{10, "a capacity 1; b", with(laterOnly), []Reason{ReasonCapacity, ReasonOrder}},
		{5, "a; b current 5", with(priority, stay), []Reason{ReasonSticky, ReasonSticky}},
	} {
		r := Request{Replicas: test.replicas, Targets: targets(t, test.targets)}
		for _, set := range test.options {
			set(&r)
		}
		got, err := Distribute(r)
		if err != nil {
			t.Fatal(err)
		}
		for i, reason := range test.want {
			if got.Targets[i].Reason != reason {
				t.Errorf("%s: %+v; want %v", describe(r), got, test.want)
				break
			}
		}
	}
}
