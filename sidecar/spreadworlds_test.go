package sidecar_test

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// newSpreadCase is a random world whose pods are spread over zones.
func newSpreadCase(seed uint64) *randomCase {
	r := rand.New(rand.NewPCG(seed, 2))
	c := &randomCase{}
	c.seed = seed
	sizes := make([]int, 2+r.IntN(4))
	for i := range sizes {
		sizes[i] = r.IntN(4)
	}
	perNode, skew := 1+r.IntN(4), 1+r.IntN(3)
	c.cloud.Groups = zones(sizes...)
	number := 1 + r.IntN(40)
	for i := range c.cloud.Groups {
		g := &c.cloud.Groups[i]
		g.MaxSize = g.Size + r.IntN(14)
		g.BootTime = time.Duration(5+r.IntN(116)) * time.Second
	}
	domains := 1
	if r.IntN(4) == 0 {
		domains = 1 + r.IntN(len(sizes))
	}
	c.batches = []batch{{At: time.Second, Pods: spreadOver(podsOf("p", number, perNode), "p", int32(skew), atLeast(int32(domains)), zone)}}
	c.ca.Salvo, c.ca.Balance = r.IntN(4) == 0, r.IntN(2) == 0
	c.about = fmt.Sprintf("%d pods, %d per node, maxSkew %d, minDomains %d, salvo %t, balancing %t;", number, perNode, skew, domains,
		c.ca.Salvo, c.ca.Balance)
	return c
}

// eachWorld plays worlds side by side, and shows the first problems.
func eachWorld(t *testing.T, count uint64, play func(seed uint64) (problem string)) (failures int) {
	t.Helper()
	if testing.Short() {
		count = min(count, 50)
	}
	var mu sync.Mutex
	t.Run("worlds", func(t *testing.T) {
		for part := range uint64(parts) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := *from + part; seed < *from+count; seed += parts {
					problem := play(seed)
					mu.Lock()
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
	return failures
}

// Pods of several kinds that come while nodes boot, spread over zones, free and pinned, run as soon
// as with Cluster Autoscaler alone, but for one loop per member.
func TestSpreadIsNeverLaterInRandomWorlds(t *testing.T) {
	failures := eachWorld(t, *worlds/5, func(seed uint64) string {
		c := newSpreadCase(seed)
		r := rand.New(rand.NewPCG(seed, 4))
		for i := range 1 + r.IntN(3) {
			name := fmt.Sprintf("%c", 'q'+i)
			pods := podsOf(name, 1+r.IntN(20), 1+r.IntN(4))
			switch r.IntN(4) {
			case 0:
				pods = spreadOver(pods, name, int32(1+r.IntN(3)), nil, zone)
			case 1:
				pods = spreadOver(pods, "p", 1, nil, zone)
			case 2:
				pods = pinned(pods, c.cloud.Groups[r.IntN(len(c.cloud.Groups))].ID)
			}
			c.about += fmt.Sprintf(" %d more pods;", len(pods))
			c.batches = append(c.batches, batch{At: time.Duration(r.IntN(200)) * time.Second, Pods: pods})
		}
		for i := range c.cloud.Groups {
			c.cloud.Groups[i].MaxSize = 100
			c.cloud.Groups[i].BootTime = c.cloud.Groups[0].BootTime // else which zone gets the odd node is luck
		}
		with, alone := newHarness(t, c.setup).observe(25*time.Minute), c.alone(t).observe(25*time.Minute)
		// Whose pod is the last one is luck where kinds differ. What counts is how long all have waited,
		// and not where Cluster Autoscaler alone had more nodes, having ordered some twice.
		pods := 0
		for _, b := range c.batches {
			pods += len(b.Pods)
		}
		grace := time.Duration(pods*len(c.cloud.Groups)) * aLoop
		if alone.running > 0 && with.running == 0 || with.waited > alone.waited+grace && total(alone.sizes) <= total(with.sizes) {
			return fmt.Sprintf("seed %d: %s with %s\nalone %s\n%s", seed, c.about, with, alone, with.w.log())
		}
		return ""
	})
	if failures > 0 {
		t.Errorf("%d worlds failed", failures)
	}
}

// Where a zone does not deliver, pods with a spread wait no longer than with Cluster Autoscaler
// alone, summed over all worlds: which zone gets the odd node is luck in a single one.
func TestSpreadWithAZoneThatFails(t *testing.T) {
	var mu sync.Mutex
	var waited, waitedAlone, grace time.Duration
	eachWorld(t, *worlds/5, func(seed uint64) string {
		c := newSpreadCase(seed)
		for i := range c.cloud.Groups {
			c.cloud.Groups[i].BootTime = c.cloud.Groups[0].BootTime
		}
		for r := rand.New(rand.NewPCG(seed, 5)); len(c.broken) == 0 || c.vanishes; {
			c.cloud.Outages, c.cloud.StockOuts, c.vanishes, c.broken = nil, nil, false, nil
			c.breakGroup(r)
		}
		with, alone := newHarness(t, c.setup).observe(25*time.Minute), c.alone(t).observe(25*time.Minute)
		mu.Lock()
		defer mu.Unlock()
		waited, waitedAlone, grace = waited+with.waited, waitedAlone+alone.waited, grace+time.Duration(len(c.batches[0].Pods))*aLoop
		return ""
	})
	t.Logf("pods waited %s, with Cluster Autoscaler alone %s", waited, waitedAlone)
	if waited > waitedAlone+grace {
		t.Errorf("pods waited %s, with Cluster Autoscaler alone %s", waited, waitedAlone)
	}
}
