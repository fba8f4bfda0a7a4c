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

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
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
		c.batches = append(c.batches, batch{At: at, Pods: podsOf(fmt.Sprint(i), 1+r.IntN(20), perNode)})
		at += time.Duration(20+r.IntN(900)) * time.Second
	}
	limit := []time.Duration{2 * time.Minute, 5 * time.Minute, 15 * time.Minute}[r.IntN(3)]
	c.bindDelay = time.Duration(r.IntN(2)) * 5 * time.Second
	c.about += fmt.Sprintf(", provision time %s, sizes %v", limit, sizes)
	c.disturb(rand.New(rand.NewPCG(seed, 3)))
	c.setup = c.provisioned(limit)
	return c
}

// disturb has the cloud list new instances late in some worlds, and Cluster Autoscaler start anew
// after an increase in some. Alone it runs on there, since it orders anew what is on its way. Instances
// that vanish before they were ever listed are left aside: the sidecar takes them to be on their way.
func (c *faultCase) disturb(r *rand.Rand) {
	vanish := slices.ContainsFunc(c.cloud.Outages, func(o v1alpha1.Outage) bool { return o.Mode == v1alpha1.OutageVanish })
	if r.IntN(3) == 0 && !vanish {
		late := time.Duration(5+r.IntN(56)) * time.Second
		for i := range c.cloud.Groups {
			c.cloud.Groups[i].ListDelay = late
		}
		c.told = max(c.told, late)
		c.about += fmt.Sprintf(", listed after %s", late)
	}
	if r.IntN(4) > 0 {
		return
	}
	at := 1 + r.IntN(6)
	c.about += fmt.Sprintf(", crash at increase %d", at)
	c.fault = crashAfter(at)
}

// fail has a zone fail in one of the ways there are.
func (c *faultCase) fail(r *rand.Rand, id string) {
	end := time.Duration(0)
	if r.IntN(3) > 0 {
		end = c.begin + time.Duration(1+r.IntN(30))*time.Minute
	}
	window := during(c.begin, end)
	stocks := []string{v1alpha1.StockOutRefuse, v1alpha1.StockOutFail, v1alpha1.StockOutSilent, fake.NeverRegisters, fake.NeverReady}
	outages := []string{v1alpha1.OutageUnready, v1alpha1.OutageVanish}
	kind := r.IntN(len(stocks) + len(outages))
	if kind >= len(stocks) {
		mode := outages[kind-len(stocks)]
		c.cloud.Outages = []v1alpha1.Outage{{Zones: []string{id}, FaultWindow: window, Mode: mode}}
		c.about = fmt.Sprintf("%s %s from %s to %s", id, mode, c.begin, end)
		return
	}
	out := v1alpha1.StockOut{Groups: []string{id}, FaultWindow: window, Mode: stocks[kind]}
	if out.Mode == v1alpha1.StockOutFail {
		c.told = time.Duration(r.IntN(60)) * time.Second
		out.FailAfter = lasting(c.told)
	}
	c.cloud.StockOuts = []v1alpha1.StockOut{out}
	c.about = fmt.Sprintf("%s %s from %s to %s", id, out.Mode, c.begin, end)
}

// sameChoice is the same world with a Cluster Autoscaler that balances by itself and has the luck
// of the sidecar: it chooses the same group, and of equal groups the same one grows first.
func (s setup) sameChoice(t testing.TB) *harness {
	t.Helper()
	s.ca.Balance, s.ca.TiesByName = true, true
	w := newHarness(t, s)
	w.connect(s, always(autoscaler.Connection{Provider: w.cloud, Expander: expander.ChooserFunc(w.mostPods)}))
	return w
}

// mostPods chooses the first of the options that help most pods. With its own balancing Cluster
// Autoscaler counts the room of similar groups too; what the sidecar is asked is within the group's
// own.
func (w *harness) mostPods(ctx context.Context, request expander.Question) ([]string, error) {
	groups, err := w.cloud.NodeGroups(ctx)
	if err != nil {
		return nil, err
	}
	helped := map[string]int{}
	for _, o := range request.Options {
		size, err := w.cloud.TargetSize(ctx, o.Group)
		if err != nil {
			return nil, err
		}
		g := groups[slices.IndexFunc(groups, func(g cloudprovider.NodeGroup) bool { return g.ID == o.Group })]
		helped[o.Group] = len(o.Pods) * min(o.NodeCount, g.MaxSize-size) / o.NodeCount
	}
	best := slices.MinFunc(request.Options, func(a, b expander.Offer) int {
		return cmp.Or(cmp.Compare(helped[b.Group], helped[a.Group]), cmp.Compare(a.Group, b.Group))
	})
	return []string{best.Group}, nil
}

// A service is what happened to the pods of a batch: how long some of them waited, those that lost
// their node again too, and how many nodes were ready when they came and when they all first ran.
type service struct {
	waited        time.Duration
	times         int // that they came to run
	before, nodes int
}

// serve runs a world until all pods run, or for so long. It returns the services of the batches;
// the first is of the pods that ran from the start.
func (w *harness) serve(c *faultCase, until time.Duration) []service {
	w.t.Helper()
	batches := append([]batch{fill(c.cloud.Groups)}, c.batches...)
	of := map[string]int{} // pod → batch
	for i, b := range batches {
		for _, pod := range b.Pods {
			of[pod.Name] = i
		}
	}
	out, waiting := make([]service, len(batches)), make([]bool, len(batches))
	for open := true; open && w.clock.Since(start) < until; {
		began := w.clock.Since(start)
		w.ca.Step()
		state := w.ca.State()
		ready := 0
		for _, g := range state.Groups {
			ready += g.Ready
		}
		pending := make([]bool, len(batches))
		for _, pod := range w.ca.Pending() {
			pending[of[pod.Name]] = true
		}
		now := w.clock.Since(start)
		open = state.Pending > 0 || now < c.begin+time.Minute
		for i, b := range batches {
			s := &out[i]
			switch {
			case began < b.At:
				s.before, waiting[i], open = ready, true, true
			case pending[i]:
				s.waited += now - began
				waiting[i] = true
			case waiting[i]:
				waiting[i] = false
				if s.times++; s.times == 1 {
					s.nodes = ready
				}
			}
		}
	}
	return out
}

// tried is for how long a failed member is left alone if no other has room.
const tried = time.Minute

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
	undisturbed := c.setup
	undisturbed.fault = nil
	d := c.against(newHarness(t, c.setup), undisturbed.sameChoice(t))
	if c.fault != nil {
		d.grace += aLoop
	}
	d.shut = events["SetBackedOff"] > 0
	return d
}

// against compares a world with the same one without sidecar.
func (c *faultCase) against(w, a *harness) delay {
	with, alone := w.serve(c, 2*time.Hour), a.serve(c, 2*time.Hour)
	d := delay{log: fmt.Sprintf("%s\nwith  %v\nalone %v\n%s", c.about, with, alone, w.log()+a.log())}
	for i := range with {
		if with[i].waited > alone[i].waited && (alone[i].nodes > with[i].nodes || alone[i].before > with[i].before) {
			continue
		}
		scaleUps := max(1, alone[i].times)
		if i == 0 {
			scaleUps-- // there were nodes for these
		}
		d.by += with[i].waited - alone[i].waited
		d.grace += time.Duration(scaleUps) * (aLoop + c.told)
	}
	return d
}

// compareFault plays the world of a seed. Which of several equal zones gets the odd node is luck,
// and so whether it is the one that fails. Where pods run later, each of the zones is made to fail,
// and what counts is all of that together. Orders come a loop later where Cluster Autoscaler is started
// anew, and whether the zone fails before or after them is luck, too: then it fails some loops sooner.
func compareFault(t testing.TB, seed uint64) delay {
	c := newFaultCase(seed, -1)
	d := c.compare(t)
	for _, sooner := range []time.Duration{0, 2 * aLoop} {
		if !d.late() || sooner > 0 && c.fault == nil {
			break
		}
		d.by, d.grace = 0, 0
		for zone := range c.cloud.Groups {
			other := newFaultCase(seed, zone)
			other.failSooner(sooner)
			delay := other.compare(t)
			d.by, d.grace, d.shut = d.by+delay.by, d.grace+delay.grace, d.shut || delay.shut
		}
	}
	return d
}

// failSooner has the zone fail earlier by so much.
func (c *faultCase) failSooner(by time.Duration) {
	for i := range c.cloud.StockOuts {
		c.cloud.StockOuts[i].From.Duration -= by
	}
	for i := range c.cloud.Outages {
		c.cloud.Outages[i].From.Duration -= by
	}
}

// Whatever zone fails, however and whenever, pods run no later than with Cluster Autoscaler alone,
// but for one loop. The one exception has a bound: where the failed member is the only one with
// room, it is tried once a minute.
func TestNeverLaterInRandomWorlds(t *testing.T) {
	if testing.Short() {
		*worlds = min(*worlds, 50)
	}
	count := *worlds * 3 / 5
	var mu sync.Mutex
	sooner, backedOff := 0, 0
	var failed []uint64 // seeds
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
					case d.shut && d.by <= d.grace+tried:
						backedOff++
					default:
						if failed = append(failed, seed); len(failed) <= 3 {
							t.Errorf("seed %d: later by %s\n%s", seed, d.by, d.log)
						}
					}
					mu.Unlock()
				}
			})
		}
	})
	if len(failed) > 0 || backedOff > int(count/100) {
		slices.Sort(failed)
		t.Errorf("of %d worlds %d end later (seeds %d), and %d wait for a backoff", count, len(failed), failed, backedOff)
	}
	t.Logf("of %d worlds %d end sooner, %d wait for a backoff", count, sooner, backedOff)
}
