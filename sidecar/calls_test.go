package sidecar_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

// mixedFleet is forty groups in ten sets, with pods that come and go for so long, and zones that fail.
func mixedFleet(seed uint64, until time.Duration, faults bool) setup {
	r := rand.New(rand.NewPCG(seed, 40))
	s := setup{seed: seed}
	s.ca.Removal = emptyNodes(90 * time.Second)
	boot := time.Duration(20+r.IntN(60)) * time.Second
	for set := range 10 {
		for zone := range 4 {
			node := machine(fmt.Sprint("zone-", zone))
			node.Labels[v1.LabelInstanceTypeStable] = fmt.Sprint("type-", set)
			s.cloud.Groups = append(s.cloud.Groups, fake.Group{
				ID: fmt.Sprintf("g%d-%d", set, zone), Size: r.IntN(3), MaxSize: 30, BootTime: boot, ReadyDelay: 5 * time.Second,
				Template: cloudprovider.Template{Node: node},
			})
		}
		for at, n := time.Duration(10+r.IntN(120))*time.Second, 0; at < until; n++ {
			pods := podsOf(fmt.Sprint("p", set, "-", n, "-"), 1+r.IntN(12), 1+r.IntN(3))
			for _, pod := range pods {
				pod.Spec.NodeSelector = map[string]string{v1.LabelInstanceTypeStable: fmt.Sprint("type-", set)}
			}
			s.batches = append(s.batches, batch{At: at, Pods: pods, Life: time.Duration(1+r.IntN(6)) * time.Minute})
			at += time.Duration(30+r.IntN(240)) * time.Second
		}
	}
	if faults {
		for _, mode := range []string{v1alpha1.StockOutRefuse, v1alpha1.StockOutFail, v1alpha1.StockOutSilent, fake.NeverRegisters} {
			from := time.Duration(r.Int64N(int64(until)))
			out := v1alpha1.StockOut{Groups: []string{s.cloud.Groups[r.IntN(40)].ID, s.cloud.Groups[r.IntN(40)].ID}, Mode: mode,
				FaultWindow: during(from, from+3*time.Minute)}
			if mode == v1alpha1.StockOutFail {
				out.FailAfter = lasting(10 * time.Second)
			}
			s.cloud.StockOuts = append(s.cloud.StockOuts, out)
		}
		from := time.Duration(r.Int64N(int64(until)))
		s.cloud.Calls = append(s.cloud.Calls, v1alpha1.CallFault{Methods: []string{fake.MethodNodes}, FaultWindow: during(from, from+time.Minute),
			Error: "not now"})
	}
	return s.provisioned(5 * time.Minute)
}

// listed are the times at which a cloud was asked for the instances of a group.
func (w *harness) listed() (at []time.Time) {
	for _, c := range w.cloud.Calls() {
		if c.Method == fake.MethodNodes {
			at = append(at, c.At)
		}
	}
	return at
}

// within counts the times in the minute that ends with one.
func within(times []time.Time, end time.Time) (n int) {
	for _, at := range times {
		if !at.After(end) && end.Sub(at) < time.Minute {
			n++
		}
	}
	return n
}

// TestInstancesAreListedNoMoreOftenThanByClusterAutoscaler: in no minute is the cloud asked for the
// instances of groups more often than Cluster Autoscaler asks for them, whose cache keeps them, and in
// all no more often than Cluster Autoscaler alone would.
func TestInstancesAreListedNoMoreOftenThanByClusterAutoscaler(t *testing.T) {
	for seed := range uint64(2) {
		s := mixedFleet(seed, 16*time.Minute, seed > 0)
		alone := s.alone(t)
		alone.observe(16 * time.Minute)
		var asked, loops []time.Time
		s.fault = func(w *harness, c caCall) callFault {
			switch c.Method {
			case fake.MethodNodes:
				asked = append(asked, c.At)
			case fake.MethodRefresh:
				loops = append(loops, c.At)
			}
			return callFault{}
		}
		w := newHarness(t, s)
		w.observe(16 * time.Minute)
		listed, without := w.listed(), alone.listed()
		for _, at := range loops {
			if n, most := within(listed, at), within(asked, at); n > most {
				t.Errorf("seed %d: %d listings in the minute before %s, Cluster Autoscaler asked %d times", seed, n, at.Sub(start), most)
			}
		}
		if len(listed) > len(without) {
			t.Errorf("seed %d: %d listings, Cluster Autoscaler alone made %d", seed, len(listed), len(without))
		}
		t.Logf("seed %d: %d groups in %d loops: alone %d listings, with the sidecar %d, where Cluster Autoscaler asked %d times", seed,
			len(s.cloud.Groups), len(loops), len(without), len(listed), len(asked))
	}
}
