package sidecar_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

// A faultCase is a random world in which a zone fails, for a while or for good, before, while or
// after pods come.
type faultCase struct {
	setup
	begin time.Duration // of the fault
	// told is how long the cloud takes to tell of an instance that it cannot be created. Until then
	// the sidecar counts on it, also where others have failed before; Cluster Autoscaler alone
	// counts on none of them, and orders those twice that come.
	told  time.Duration
	about string
}

// newFaultCase is the world of a seed, in which one of its zones fails; a negative zone stands for
// a random one.
func newFaultCase(seed uint64, zone int) *faultCase {
	r := rand.New(rand.NewPCG(seed, 2))
	sizes := make([]int, 2+r.IntN(4))
	for i := range sizes {
		sizes[i] = r.IntN(4)
	}
	c := &faultCase{begin: time.Duration(10+r.IntN(300)) * time.Second}
	c.seed = seed
	c.cloud.Groups = zones(sizes...)
	boot, ready := time.Duration(5+r.IntN(60))*time.Second, time.Duration(r.IntN(20))*time.Second
	for i := range c.cloud.Groups {
		g := &c.cloud.Groups[i]
		g.BootTime, g.ReadyDelay = boot, ready
		if r.IntN(3) == 0 {
			g.MaxSize = g.Size + 2 + r.IntN(10)
		}
	}
	if random := r.IntN(len(sizes)); zone < 0 {
		zone = random
	}
	c.fail(r, c.cloud.Groups[zone].ID)
	perNode, at := 1+r.IntN(3), 30*time.Second
	for i := range 1 + r.IntN(4) {
		c.batches = append(c.batches, autoscaler.Batch{At: at, Pods: podsOf(fmt.Sprint(i), 1+r.IntN(20), perNode)})
		at += time.Duration(20+r.IntN(900)) * time.Second
	}
	limit := []time.Duration{2 * time.Minute, 5 * time.Minute, 15 * time.Minute}[r.IntN(3)]
	c.ca.BindDelay = time.Duration(r.IntN(2)) * 5 * time.Second
	c.about += fmt.Sprintf(", provision time %s, sizes %v", limit, sizes)
	c.setup = c.provisioned(limit)
	return c
}

// fail has a zone fail in one of the ways there are.
func (c *faultCase) fail(r *rand.Rand, id string) {
	window := fake.Window{Start: c.begin}
	if r.IntN(3) > 0 {
		window.End = c.begin + time.Duration(1+r.IntN(30))*time.Minute
	}
	stocks := []fake.StockOutMode{fake.Refuse, fake.Fail, fake.Silent, fake.NeverRegisters, fake.NeverReady}
	outages := []fake.OutageMode{fake.Unready, fake.Vanish}
	kind := r.IntN(len(stocks) + len(outages))
	if kind >= len(stocks) {
		mode := outages[kind-len(stocks)]
		c.cloud.Outages = []fake.Outage{{Zones: []string{id}, Window: window, Mode: mode}}
		c.about = fmt.Sprintf("%s %s from %s to %s", id, mode, window.Start, window.End)
		return
	}
	out := fake.StockOut{Scope: fake.Scope{Groups: []string{id}}, Window: window, Mode: stocks[kind]}
	if out.Mode == fake.Fail {
		c.told = time.Duration(r.IntN(60)) * time.Second
		out.FailAfter = c.told
	}
	c.cloud.Stocks = []fake.StockOut{out}
	c.about = fmt.Sprintf("%s %s from %s to %s", id, out.Mode, window.Start, window.End)
}

// sameChoice is the same world with a Cluster Autoscaler that balances by itself and has the luck
// of the sidecar: it chooses the same group, and of equal groups the same one grows first.
func (s setup) sameChoice(t testing.TB) *world {
	t.Helper()
	s.ca.Balance, s.ca.TiesByName = true, true
	w := newWorld(t, s)
	w.connect(s, func(int) (autoscaler.Connection, error) {
		return autoscaler.Connection{Provider: w.cloud, Expander: grpcexpander.ChooserFunc(mostPods)}, nil
	})
	return w
}

// mostPods chooses the first of the options that help most pods.
func mostPods(_ context.Context, request grpcexpander.Request) ([]string, error) {
	best := slices.MinFunc(request.Options, func(a, b grpcexpander.Option) int {
		return cmp.Or(cmp.Compare(len(b.Pods), len(a.Pods)), cmp.Compare(a.Group, b.Group))
	})
	return []string{best.Group}, nil
}

// A service is when the pods of a batch had come to run, and how many nodes were ready when they
// came and then.
type service struct {
	at            time.Duration
	before, nodes int
}

// serve runs a world until the pods of all batches run, or for so long.
func (w *world) serve(c *faultCase, until time.Duration) []service {
	w.t.Helper()
	out := make([]service, len(c.batches))
	for open := true; open && w.clock.Since(start) < until; {
		if err := w.ca.Step(); err != nil {
			w.t.Fatal(err)
		}
		state, err := w.ca.State()
		if err != nil {
			w.t.Fatal(err)
		}
		ready := 0
		for _, g := range state.Groups {
			ready += g.Ready
		}
		now := w.clock.Since(start)
		open = state.Pending > 0 || now < c.begin+time.Minute
		for i, b := range c.batches {
			switch {
			case now <= b.At:
				out[i].before, open = ready, true
			case state.Pending == 0 && out[i].at == 0:
				out[i].at, out[i].nodes = now, ready
			}
		}
	}
	for i := range out {
		out[i].at = cmp.Or(out[i].at, until)
	}
	return out
}

// longestBackoff is for how long a member is left alone at most.
const longestBackoff = 30 * time.Minute

// A delay is how much later pods run than with Cluster Autoscaler alone.
type delay struct {
	by    time.Duration // over all batches
	grace time.Duration
	shut  bool // the set was without a member that could grow
	log   string
}

func (d *delay) late() bool { return d.by > d.grace }

// compare plays a world with and without the sidecar. Where Cluster Autoscaler alone was sooner
// because it had more nodes, having ordered some twice, that does not count.
func (c *faultCase) compare(t testing.TB) delay {
	t.Helper()
	events := told{}
	c.sidecar.Recorder = events
	w := newWorld(t, c.setup)
	a := c.sameChoice(t)
	with, alone := w.serve(c, 2*time.Hour), a.serve(c, 2*time.Hour)
	d := delay{shut: events["SetBackedOff"] > 0, log: fmt.Sprintf("%s\nwith  %v\nalone %v\n%s", c.about, with, alone, w.log()+a.log())}
	for i := range with {
		if with[i].at > alone[i].at && (alone[i].nodes > with[i].nodes || alone[i].before > with[i].before) {
			continue
		}
		d.by += with[i].at - alone[i].at
		d.grace += aLoop + c.told
	}
	return d
}

// compareFault plays the world of a seed. Which of several equal zones gets the odd node is luck,
// and so whether it is the one that fails. Where pods run later, each of the zones is made to fail,
// and what counts is all of that together.
func compareFault(t testing.TB, seed uint64) delay {
	c := newFaultCase(seed, -1)
	d := c.compare(t)
	if !d.late() {
		return d
	}
	d.by, d.grace = 0, 0
	for zone := range c.cloud.Groups {
		other := newFaultCase(seed, zone).compare(t)
		d.by, d.grace, d.shut = d.by+other.by, d.grace+other.grace, d.shut || other.shut
	}
	return d
}

// Whatever zone fails, however and whenever, pods run no later than with Cluster Autoscaler alone,
// but for one loop. The one exception has a bound: where the failed member is the only one with
// room, its backoff has to end.
func TestNeverLaterInRandomWorlds(t *testing.T) {
	if testing.Short() {
		*worlds = min(*worlds, 50)
	}
	count := *worlds * 3 / 10
	var mu sync.Mutex
	sooner, backedOff, failures := 0, 0, 0
	t.Run("worlds", func(t *testing.T) {
		for part := range uint64(parts) {
			t.Run(fmt.Sprint(part), func(t *testing.T) {
				t.Parallel()
				for seed := *from + part; seed < *from+count; seed += parts {
					d := compareFault(t, seed)
					mu.Lock()
					switch {
					case d.by < -d.grace:
						sooner++
					case !d.late():
					case d.shut && d.by <= d.grace+longestBackoff:
						backedOff++
					default:
						if failures++; failures <= 3 {
							t.Errorf("seed %d: later by %s\n%s", seed, d.by, d.log)
						}
					}
					mu.Unlock()
				}
			})
		}
	})
	if failures > 0 || backedOff > int(count/100) {
		t.Errorf("of %d worlds %d end later, and %d wait for a backoff", count, failures, backedOff)
	}
	t.Logf("of %d worlds %d end sooner, %d wait for a backoff", count, sooner, backedOff)
}
