package scaleup_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/scaleup"
)

// world is a random fleet of one set, with pods that fill a node each.
type world struct {
	names  []string
	size   map[string]int
	max    map[string]int
	pinned map[string]int // pods by the zone they are bound to
	free   int
	quotas []scaleup.Quota // nested
}

func randomWorld(r *rand.Rand) world {
	w := world{size: map[string]int{}, max: map[string]int{}, pinned: map[string]int{}, free: r.IntN(20)}
	for i := range 1 + r.IntN(5) {
		name := string(rune('a' + i))
		w.names = append(w.names, name)
		w.max[name] = r.IntN(9)
		w.size[name] = r.IntN(w.max[name] + 2) // sometimes over its max
		if r.IntN(3) == 0 {
			w.pinned[name] = r.IntN(4)
		}
	}
	if r.IntN(2) == 0 {
		w.quotas = append(w.quotas, scaleup.Quota{Name: "all", Nodes: int64(1 + r.IntN(25))})
	}
	if n := len(w.names); n > 1 && r.IntN(2) == 0 {
		w.quotas = append(w.quotas, scaleup.Quota{Name: "some", Groups: w.names[:1+r.IntN(n-1)], Nodes: int64(1 + r.IntN(12))})
	}
	return w
}

func (w world) fleet() fake.Config {
	var config fake.Config
	for _, name := range w.names {
		config.Groups = append(config.Groups, zonal(name, w.size[name], w.max[name]))
	}
	return config
}

func (w world) pods() []*v1.Pod {
	var pods []*v1.Pod
	for _, name := range w.names {
		pods = append(pods, onePerNode("pinned-"+name, w.pinned[name], inZone(name))...)
	}
	return append(pods, onePerNode("free", w.free)...) // they would take nodes of those that came later
}

// allows reports whether one node more in the group keeps every bound.
func (w world) allows(sizes map[string]int, name string) bool {
	if sizes[name] >= w.max[name] {
		return false
	}
	for _, q := range w.quotas {
		counted := q.Groups
		if counted == nil {
			counted = w.names
		}
		sum := int64(0)
		for _, g := range counted {
			sum += int64(sizes[g])
		}
		if slices.Contains(counted, name) && sum >= q.Nodes {
			return false
		}
	}
	return true
}

// expected gives out node after node: the pinned pods of every zone that can
// grow get theirs, then each free pod goes to the smallest group that may
// grow; between equals the chosen group comes first, then the name decides.
func (w world) expected(chosen string, existing map[string]int) map[string]int {
	sizes := map[string]int{}
	for name, n := range w.size {
		sizes[name] = n
	}
	free := w.free
	for _, name := range w.names {
		for range w.pinned[name] - existing[name] {
			if w.allows(sizes, name) {
				sizes[name]++
			}
		}
		free -= max(0, existing[name]-w.pinned[name])
	}
	for range max(0, free) {
		best := ""
		for _, name := range w.names {
			if !w.allows(sizes, name) {
				continue
			}
			if best == "" || sizes[name] < sizes[best] || sizes[name] == sizes[best] && name == chosen {
				best = name
			}
		}
		if best != "" {
			sizes[best]++
		}
	}
	return sizes
}

func TestRoundEqualsGivingOutNodeAfterNode(t *testing.T) {
	checker := newChecker(t)
	r := rand.New(rand.NewPCG(7, 11))
	for i := range 3000 {
		w := randomWorld(r)
		f := newFleet(t, checker, w.fleet(), scaleup.Options{Limits: scaleup.Limits{Quotas: w.quotas}})
		round := f.roundOn(nil, w.pods()...) // the nodes that exist are on their way
		if diff := cmp.Diff(w.expected(round.Decision.Chosen, w.size), f.sizes()); diff != "" {
			t.Fatalf("case %d: %+v\nchosen %q, sizes (-want +got):\n%s", i, w, round.Decision.Chosen, diff)
		}
	}
}

func TestEveryGroupAndEveryPodIsAccountedFor(t *testing.T) {
	checker := newChecker(t)
	r := rand.New(rand.NewPCG(3, 5))
	for i := range 1000 {
		w := randomWorld(r)
		config := w.fleet()
		if r.IntN(2) == 0 {
			config.Stocks = []fake.StockOut{{Scope: fake.Scope{Groups: []string{w.names[r.IntN(len(w.names))]}}}}
		}
		f := newFleet(t, checker, config, scaleup.Options{Limits: scaleup.Limits{Quotas: w.quotas}})
		pods := w.pods()
		round := f.roundOn(nil, pods...)
		seen := make([]int, len(pods))
		for _, o := range round.Decision.Pods {
			if o.Count != len(o.Pods) || o.Reason == "" || o.Example == "" {
				t.Fatalf("case %d: outcome %+v", i, o)
			}
			for _, at := range o.Pods {
				seen[at]++
			}
		}
		for at, times := range seen {
			if times != 1 {
				t.Fatalf("case %d: pod %d is in %d outcomes", i, at, times)
			}
		}
		var groups []string
		grew := 0
		for _, o := range round.Decision.Groups {
			groups = append(groups, o.Group)
			if o.Reason == "" {
				t.Fatalf("case %d: %+v has no reason", i, o)
			}
		}
		for _, increase := range round.Decision.Increases {
			if now := f.sizes()[increase.Group]; now != increase.To || increase.From != w.size[increase.Group] {
				t.Fatalf("case %d: %+v, size %d", i, increase, now)
			}
			grew += increase.To - increase.From
		}
		if grew != round.Grew() || grew+round.Decision.Unplaced != round.Decision.Need {
			t.Fatalf("case %d: grew %d, attempts %d, unplaced %d, need %d", i, grew, round.Grew(), round.Decision.Unplaced, round.Decision.Need)
		}
		if !slices.Equal(groups, w.names) {
			t.Fatalf("case %d: groups %v, want %v", i, groups, w.names)
		}
	}
}

func TestPlanIsTheSameTwice(t *testing.T) {
	checker := newChecker(t)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 300 {
		w := randomWorld(r)
		play := func() string {
			f := newFleet(t, checker, w.fleet(), scaleup.Options{Limits: scaleup.Limits{Quotas: w.quotas}})
			return fmt.Sprintf("%+v", f.roundOn(nil, w.pods()...).Decision)
		}
		if first, second := play(), play(); first != second {
			t.Fatalf("case %d:\n%s\n%s", i, first, second)
		}
	}
}
