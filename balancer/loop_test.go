package balancer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"
)

// loop is a random Balancer in a random world; some targets are able to run only so many.
func loop(seed uint64) (w *fakeCluster, blocked int) {
	r := rand.New(rand.NewPCG(seed, 5))
	spec := randomSpec(r, 6)
	var sizes []int32
	for range spec.Targets {
		sizes = append(sizes, r.Int32N(16))
	}
	w = newFakeCluster(spec, sizes...)
	for i := range w.able {
		if r.IntN(2) == 0 {
			w.able[i] = r.Int32N(16)
			w.sizes[i] = min(w.sizes[i], w.able[i])
			blocked++
		}
	}
	w.run()
	return w, blocked
}

// Assign, let the timeout pass and observe what runs, assign: what is written settles within two
// rounds more than there are blocked targets, and never changes again.
func TestClosedLoopSettles(t *testing.T) {
	t.Parallel()
	loops := uint64(10_000)
	if testing.Short() {
		loops = 1_000
	}
	late := map[bool]int{}
	total := map[bool]int{}
	for seed := range loops {
		w, blocked := loop(seed)
		rebalance := w.in.Spec.Policy.Rebalance == nil
		rounds, history, err := settled(w, blocked+2)
		if err != nil {
			t.Fatalf("seed %d: %v\n%v able %v: %v", seed, err, describe(w), w.able, history)
		}
		total[rebalance]++
		if rounds > 3 {
			late[rebalance]++
		}
	}
	for rebalance, allowed := range map[bool]float64{true: 1, false: 4} {
		share := 100 * float64(late[rebalance]) / float64(total[rebalance])
		t.Logf("rebalance %v: %d loops, %.2f %% take more than three rounds", rebalance, total[rebalance], share)
		if share > allowed {
			t.Errorf("rebalance %v: %.2f %% take more than three rounds; at most %.0f %% may", rebalance, share, allowed)
		}
	}
}

// settled runs rounds and tells after how many nothing is written any more.
func settled(w *fakeCluster, limit int) (int, [][]int32, error) {
	var history [][]int32
	for range limit + 3 {
		if err := w.wait(timeout + time.Second); err != nil {
			return 0, history, err
		}
		history = append(history, slices.Clone(w.sizes))
	}
	last := history[len(history)-1]
	rounds := len(history)
	for rounds > 1 && slices.Equal(history[rounds-2], last) {
		rounds--
	}
	if rounds > limit {
		return rounds, history, fmt.Errorf("%d rounds, %d allowed", rounds, limit)
	}
	return rounds, history, nil
}

func describe(w *fakeCluster) string {
	s := w.in.Spec
	text := fmt.Sprintf("%d replicas, %+v", *s.Replicas, s.Policy)
	if s.Policy.Proportions != nil {
		text += fmt.Sprint(s.Policy.Proportions.TargetProportions)
	}
	if s.Policy.Priorities != nil {
		text += fmt.Sprint(s.Policy.Priorities.TargetOrder)
	}
	for _, t := range s.Targets {
		text += fmt.Sprintf(" %s %d..%d", t.Name, ptr.Deref(t.MinReplicas, 0), ptr.Deref(t.MaxReplicas, -1))
	}
	return text
}
