package sidecar_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

var (
	worlds = flag.Uint64("worlds", 300, "how many random worlds are played")
	from   = flag.Uint64("from", 0, "the seed of the first one")
)

// parts of the worlds are played side by side.
const parts = 8

// A case is a random world and what has to become of it.
type randomCase struct {
	setup
	need   int             // nodes
	broken []string        // groups that never deliver
	dead   map[string]bool // those of them that deliver machines nobody can use
	// vanishes is that all machines of the broken group are lost, those there were from the start
	// as well.
	vanishes bool
	moved    int // nodes for pods that ran there
	// disturbed is that a group may have lacked an option, or that the sidecar was started anew in the middle of a
	// scale-up: shares may have gone to others.
	disturbed bool
	about     string
}

func newRandomCase(seed uint64) *randomCase {
	r := rand.New(rand.NewPCG(seed, 1))
	c := &randomCase{}
	c.seed = seed
	sizes := make([]int, 1+r.IntN(8))
	for i := range sizes {
		sizes[i] = r.IntN(7)
	}
	c.cloud.Groups = zones(sizes...)
	for i := range c.cloud.Groups {
		g := &c.cloud.Groups[i]
		g.MaxSize = max(1, g.Size-1+r.IntN(14))
		if r.IntN(3) == 0 {
			g.MinSize = r.IntN(min(4, g.MaxSize+1))
		}
		g.BootTime = time.Duration(5+r.IntN(116)) * time.Second
		g.ReadyDelay = time.Duration(r.IntN(20)) * time.Second
	}
	perNode := 1 + r.IntN(4)
	c.need = 1 + r.IntN(30)
	c.breakGroup(r)
	if c.vanishes {
		perNode = 1 // else the last node has less to lose than the others
	}
	pods := podsOf("p", c.need*perNode-r.IntN(perNode), perNode)
	c.batches = []batch{{At: time.Second, Pods: pods}}
	c.disturb(r)
	if r.IntN(4) == 0 {
		c.ca.Salvo = true
		c.about += " --salvo-scale-up;"
	}
	if r := rand.New(rand.NewPCG(seed, 6)); !c.ca.Salvo && r.IntN(4) == 0 {
		c.ca.Before136, c.ca.Before135 = true, r.IntN(2) == 0
		c.about += fmt.Sprintf(" before 1.36, before 1.35: %t;", c.ca.Before135)
	}
	if r := rand.New(rand.NewPCG(seed, 7)); r.IntN(2) == 0 {
		c.ca.Balance = true
		c.about += " --balance-similar-node-groups;"
	}
	return c
}

// breakGroup has at most one group, of two or more, not deliver for the whole run.
func (c *randomCase) breakGroup(r *rand.Rand) {
	if len(c.cloud.Groups) < 2 || r.IntN(2) == 0 {
		return
	}
	i := r.IntN(len(c.cloud.Groups))
	id := c.cloud.Groups[i].ID
	c.broken = []string{id}
	if r.IntN(6) == 0 {
		c.cloud.Outages = []v1alpha1.Outage{{Zones: []string{id}, Mode: v1alpha1.OutageVanish,
			FaultWindow: during(time.Duration(r.IntN(150))*time.Second, 0)}}
		c.dead, c.vanishes = map[string]bool{id: true}, true
		c.moved = c.cloud.Groups[i].Size // their pods need nodes too
		c.about += fmt.Sprintf(" %s vanishes after %s;", id, c.cloud.Outages[0].From.Duration)
		return
	}
	mode := []string{v1alpha1.StockOutRefuse, v1alpha1.StockOutFail, v1alpha1.StockOutSilent, fake.NeverRegisters, fake.NeverReady}[r.IntN(5)]
	out := v1alpha1.StockOut{Groups: []string{id}, Mode: mode}
	if mode == v1alpha1.StockOutFail {
		out.FailAfter = lasting(time.Duration(r.IntN(30)) * time.Second)
	}
	c.cloud.StockOuts = []v1alpha1.StockOut{out}
	if mode == fake.NeverRegisters || mode == fake.NeverReady {
		c.dead = map[string]bool{id: true}
	}
	c.about += fmt.Sprintf(" %s %s;", id, mode)
}

// disturb scripts restarts of either side and lost answers, at any call.
func (c *randomCase) disturb(r *rand.Rand) {
	type disturbance int
	const (
		crash disturbance = iota
		restart
		lost
		unsent
		crashLate // after an increase
		kinds
	)
	at := map[int]disturbance{}
	atIncrease := map[int]disturbance{}
	for range r.IntN(4) {
		kind := disturbance(r.IntN(int(kinds)))
		if r.IntN(2) == 0 {
			n := r.IntN(5)
			atIncrease[n] = kind
			c.about += fmt.Sprintf(" disturbance %d at increase %d;", kind, n)
		} else {
			n := r.IntN(300)
			at[n] = kind
			c.about += fmt.Sprintf(" disturbance %d at call %d;", kind, n)
		}
	}
	calls, increases := 0, 0
	c.fault = func(w *harness, call caCall) callFault {
		kind, hit := at[calls]
		calls++
		if call.Method == fake.MethodIncreaseSize {
			if k, ok := atIncrease[increases]; ok {
				kind, hit = k, true
			}
			increases++
		}
		if !hit {
			return callFault{}
		}
		switch kind {
		case crash, crashLate:
			return callFault{Crash: true}
		case restart:
			c.disturbed = c.disturbed || c.ca.Balance
			w.restartSidecar()
		case lost:
			c.disturbed = true
			if call.Method == fake.MethodIncreaseSize {
				w.lost[call.Group] = true
			}
			return callFault{Lost: true}
		case unsent:
			// Of these only Cluster Autoscaler knows: it backs the group off, or chooses at random.
			unknowable := call.Method == fake.MethodIncreaseSize || call.Method == autoscaler.MethodBestOptions
			c.disturbed = c.disturbed || !unknowable
			return callFault{Unsent: !unknowable}
		case kinds:
		}
		return callFault{}
	}
}

// want is what the sizes have to become: those of one exact split over the groups that deliver. A
// group that Cluster Autoscaler itself had backed off until it was started anew takes part from
// then on.
func (c *randomCase) want(t testing.TB, rejoin []int) []int {
	nodes := c.need + c.moved
	for i := range rejoin {
		if g := &c.cloud.Groups[i]; !slices.Contains(c.broken, g.ID) {
			nodes -= rejoin[i] - g.Size
			g.Size = rejoin[i]
		}
	}
	return exact(t, nodes, c.cloud.Groups, c.broken...)
}

func total(sizes []int) int {
	n := 0
	for _, s := range sizes {
		n += s
	}
	return n
}

// TestExactInRandomWorlds: in every world the final sizes are those of one exact split, whatever
// restarts and members that do not deliver, and no node is ordered twice unless a call is lost.
func TestExactInRandomWorlds(t *testing.T) {
	if testing.Short() {
		*worlds = min(*worlds, 50)
	}
	var mu sync.Mutex
	plans := map[int]int{} // plans beyond the groups that grew → worlds
	failures := 0
	t.Run("worlds", func(t *testing.T) {
		for part := range uint64(parts) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := *from + part; seed < *from+*worlds; seed += parts {
					extra, problem := play(t, seed)
					mu.Lock()
					plans[extra]++
					if problem != "" {
						if failures++; failures <= 3 {
							t.Error(problem)
						}
					}
					mu.Unlock()
				}
			})
		}
	})
	if failures > 0 {
		t.Errorf("%d of %d worlds failed", failures, *worlds)
	}
	var distribution []string
	for _, extra := range slices.Sorted(maps.Keys(plans)) {
		distribution = append(distribution, fmt.Sprintf("%+d: %d", extra, plans[extra]))
	}
	t.Logf("loops that scaled up, beyond one per member that grew → worlds: %s", strings.Join(distribution, ", "))
}

// play plays one world and reports what is wrong with its end.
func play(t testing.TB, seed uint64) (extra int, problem string) {
	c := newRandomCase(seed)
	w := newHarness(t, c.setup)
	state := w.settleWithout(len(c.dead) > 0, 2*time.Hour)
	for i := range c.cloud.Groups { // a group that Cluster Autoscaler itself has backed off keeps what it has
		if g := &c.cloud.Groups[i]; w.lost[g.ID] {
			g.MaxSize = state.Sizes()[i]
			g.MinSize = min(g.MinSize, g.MaxSize)
		}
	}
	want := c.want(t, w.rejoin)
	for i := range c.cloud.Groups { // machines nobody can use are there or not, as are orders that no other group has room for
		if id := c.cloud.Groups[i].ID; c.dead[id] || state.Pending > 0 && slices.Contains(c.broken, id) {
			want[i] = state.Sizes()[i]
		}
	}
	grew := 0
	for i, size := range state.Sizes() {
		if size > w.initial[i] {
			grew++
		}
	}
	got := state.Sizes()
	// What is on its way by an order whose answer was lost Cluster Autoscaler does not count, nor what is in a group of
	// which it did not hear. If it goes on asking, it gets other nodes.
	again := (len(w.lost) > 0 || w.rejoin != nil || c.disturbed) && state.Pending == 0 && total(got) > total(want) &&
		total(got) <= total(want)+c.need
	others := (c.disturbed || c.ca.Balance && len(c.broken) > 0) && state.Pending == 0 && total(got) == total(want)
	if !again && !others && !slices.Equal(sorted(got), sorted(want)) {
		problem = fmt.Sprintf("seed %d:%s %d nodes over %v: sizes %v, want %v, %d pods pending\n%s", seed, c.about, c.need, w.initial, got, want,
			state.Pending, w.log())
	}
	return state.Increases - grew, problem
}
