package autoscaler_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// randomWorld is up to 8 groups and 60 pods in up to three batches.
func randomWorld(draw func(low, high int) int) (fake.Config, clusterConfig) {
	var cloud fake.Config
	for i := range draw(1, 8) {
		size := draw(0, 6)
		cloud.Groups = append(cloud.Groups, groupOf(string(rune('a'+i)), size, size+draw(0, 30), time.Duration(draw(1, 300))*time.Second))
	}
	config := clusterConfig{seed: uint64(draw(0, 1000))} // not negative
	for i := range draw(1, 3) {
		config.batches = append(config.batches, batch{
			At: time.Duration(draw(0, 600)) * time.Second, Pods: podsOf(fmt.Sprintf("set-%d", i), draw(1, 20), "3"),
		})
	}
	return cloud, config
}

// Without faults, bare steering orders each node once.
func TestSteeringWithoutFaultsIsExact(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		cloud, config := randomWorld(func(low, high int) int { return rapid.IntRange(low, high).Draw(r, "n") })
		pods := len(config.batches[0].Pods)
		config.batches = config.batches[:1]
		x := newTrial(t, steering, cloud, config)
		request := nodegroupset.SplitRequest{}
		room, size := 0, 0
		for _, g := range cloud.Groups {
			request.Groups = append(request.Groups, nodegroupset.Group{Name: g.ID, Size: int64(g.Size), Max: int64(g.MaxSize)})
			room += g.MaxSize - g.Size
			size += g.Size
		}
		request.Nodes = int64(max(min(pods-size, room), 0))
		want, err := nodegroupset.Split(request)
		if err != nil {
			r.Fatal(err)
		}
		got := x.settle(t, 20*time.Minute).Sizes()
		for i, g := range want.Groups {
			if int(g.NewSize) != got[i] {
				r.Fatalf("sizes %v, want %+v", got, want.Groups)
			}
		}
	})
}

// Whatever fails, the same seed gives the same events, no size is above the maximum, and no node or
// pod is invented.
func TestRunsWithRandomFaultsAreRepeatable(t *testing.T) {
	run := func(seed uint64) (string, clusterState) {
		random := rand.New(rand.NewPCG(seed, 1))
		cloud, config := randomWorld(func(low, high int) int { return low + random.IntN(high-low+1) })
		config.ca = autoscaler.Options{Balance: random.IntN(2) > 0, EnforceMinSize: random.IntN(2) > 0}
		if random.IntN(2) > 0 {
			config.ca.Removal = emptyNodes()
		}
		x := newTrial(t, strategy(random.IntN(3)), cloud, config)
		x.fault = func(caCall) callFault {
			switch random.IntN(300) {
			case 0:
				return callFault{Unsent: true}
			case 1:
				return callFault{Lost: true}
			case 2:
				return callFault{Crash: true}
			case 3:
				return callFault{Delay: time.Second}
			}
			return callFault{}
		}
		state := x.settle(t, 40*time.Minute)
		for i, g := range state.Groups {
			if g.Size > cloud.Groups[i].MaxSize || g.Ready > g.Size {
				t.Errorf("seed %d: %+v, maximum %d", seed, g, cloud.Groups[i].MaxSize)
			}
		}
		return trace(x.calls) + fmt.Sprint(x.changes), state
	}
	for seed := range uint64(15) {
		first, state := run(seed)
		second, again := run(seed)
		if first != second || !slices.Equal(state.Groups, again.Groups) {
			t.Fatalf("seed %d: two runs differ\n%s\n%s", seed, first, second)
		}
	}
}

func BenchmarkRun(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	loops := 0
	for b.Loop() {
		cloud, config := randomWorld(func(low, high int) int { return low + random.IntN(high-low+1) })
		x := newTrial(b, steering, cloud, config)
		loops += x.settle(b, 30*time.Minute).Loops
	}
	b.ReportMetric(float64(loops)/float64(b.N), "loops/op")
}
