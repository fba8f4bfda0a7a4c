package federation

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/podhealth"
)

// loops is how many random closed loops are played; make worlds plays ten thousand.
var (
	loops = flag.Uint64("loops", 1000, "random closed loops")
	from  = flag.Uint64("from", 0, "the seed of the first one")
)

// loop is a random object in a random world of 2 to 10 clusters; some of them are able to run only
// so many.
func loop(t *testing.T, seed uint64) (w *fakeFleet, blocked int) {
	r := rand.New(rand.NewPCG(seed, 13))
	var names []string
	for i := range 2 + r.IntN(9) {
		names = append(names, string(rune('a'+i)))
	}
	w = newFakeFleet(t, randomSpec(r, names))
	w.in.Key = fmt.Sprintf("shop/web-%d", seed)
	w.forgetful = r.IntN(2) == 0
	for _, name := range names {
		p := w.join(name, map[string]string{"region": []string{"eu", "us", "as"}[r.IntN(3)]})
		if r.IntN(2) == 0 {
			w.have(map[string]int32{name: r.Int32N(16)})
		}
		if r.IntN(2) == 0 {
			p.able = r.Int32N(16)
			blocked++
		}
	}
	w.run()
	return w, blocked
}

// Assign, let the timeout pass and observe what runs, assign: what is written settles within two
// rounds more than there are blocked clusters, and never changes again. A
// replica moves once.
func TestClosedLoopSettles(t *testing.T) {
	t.Parallel()
	late, total := map[bool]int{}, map[bool]int{}
	twice := 0
	for seed := *from; seed < *from+*loops; seed++ {
		w, blocked := loop(t, seed)
		rebalance := w.in.Spec.Preferences.Rebalance
		initial := w.runningIn()
		rounds, history := w.rounds(blocked + 2)
		for name, running := range w.runningIn() {
			if gone := max(0, initial[name]-running); w.left[name] > gone {
				twice++
				t.Logf("seed %d: %s had %d and has %d running, but %d left: %v", seed, name, initial[name], running, w.left[name], history)
			}
		}
		if rounds > blocked+2 {
			t.Fatalf("seed %d: %d rounds with %d blocked: %v\n%s", seed, rounds, blocked, history, w.explain())
		}
		total[rebalance]++
		if rounds > 3 {
			late[rebalance]++
		}
		writes := len(w.writes)
		for range 3 {
			w.wait(stable + time.Second)
		}
		if len(w.writes) != writes {
			t.Fatalf("seed %d: written after it had settled: %+v, %v", seed, w.writes[writes:], history)
		}
	}
	// Whole numbers cannot be shared so that nobody ever gives one up when somebody else has less room.
	if allowed := 1 + int(*loops/1000); twice > allowed {
		t.Errorf("in %d loops a replica moved twice, at most %d may", twice, allowed)
	}
	for rebalance, allowed := range map[bool]float64{true: 1, false: 4} {
		share := 100 * float64(late[rebalance]) / float64(max(1, total[rebalance]))
		t.Logf("rebalance %v: %d loops, %.2f %% take more than three rounds", rebalance, total[rebalance], share)
		if share > allowed {
			t.Errorf("rebalance %v: %.2f %% take more than three rounds; at most %.0f %% may", rebalance, share, allowed)
		}
	}
}

// runningIn is how many replicas run in each cluster.
func (w *fakeFleet) runningIn() map[string]int32 {
	of := map[string]int32{}
	for _, p := range w.places {
		of[p.Name] = podhealth.Count(p.pods, act, w.in.Now).Running
	}
	return of
}

// rounds plays some rounds more than are allowed, and returns after how many nothing was written any
// more.
func (w *fakeFleet) rounds(limit int) (int, []string) {
	var history []string
	for range limit + 3 {
		w.wait(act + time.Second)
		history = append(history, w.sizes())
	}
	rounds := len(history)
	for rounds > 1 && history[rounds-2] == history[len(history)-1] {
		rounds--
	}
	return rounds, slices.Clip(history)
}
