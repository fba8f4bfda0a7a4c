package replica

import (
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/podhealth"
)

// worlds is how many random worlds are played; make worlds plays ten thousand.
var (
	worlds = flag.Uint64("worlds", 2000, "random worlds with edits in flight")
	from   = flag.Uint64("from", 0, "the seed of the first one")
)

// place is a target whose workload controller is behind: sizes that were written are acted on later, the
// least of them first.
type place struct {
	weight int64
	size   int32
	// unseen are the sizes that its controller has not acted on yet.
	unseen []int32
	able   int
	pods   []podhealth.Pod
	before Health
	// left is how many running replicas its controller has stopped.
	left int
}

// simulation shares replicas among places as the controllers do.
type simulation struct {
	now             time.Time
	asked           int64
	askedBefore     *int32
	moves           *v1alpha1.ReplicaMoves
	limit           *int32
	separate, stays bool
	probe           int64
	places          []*place
	writes          int
}

func newSimulation(r *rand.Rand) *simulation {
	w := &simulation{now: noon, asked: r.Int64N(40), separate: r.IntN(2) == 0, stays: r.IntN(2) == 0, probe: 1 + r.Int64N(2)}
	if r.IntN(3) == 0 {
		w.limit = new(1 + r.Int32N(4))
	}
	for range 1 + r.IntN(5) {
		w.places = append(w.places, &place{weight: 1 + r.Int64N(5), able: 1 << 20})
	}
	return w
}

// decide observes, decides and writes.
func (w *simulation) decide(t *testing.T) {
	t.Helper()
	timer := &podhealth.Timer{Now: w.now}
	set := &Set{Asked: w.asked, AskedBefore: w.askedBefore, Separate: w.separate, Limit: w.limit, Moves: StoredMoves(w.moves, w.now)}
	request := apportion.Request{
		Replicas: w.asked, Policy: apportion.Proportional, Shortage: apportion.TotalWins, Pending: apportion.Trim,
		Rebalance: new(!w.stays), Key: "shop/web", TieBreak: apportion.Hash,
	}
	for i, p := range w.places {
		target := &Target{Before: p.before, Now: observe(p.before, p.size, p.pods, timeout, timer), Size: p.size, Staying: p.staying()}
		set.Targets = append(set.Targets, target)
		request.Targets = append(request.Targets, apportion.Target{Name: string(rune('a' + i)), Weight: &p.weight})
	}
	Learn(set.Targets, stable, timer)
	for i, target := range set.Targets {
		target.Limit(&request.Targets[i])
	}
	if w.stays {
		LeaveFirst(set.Targets, &request)
	}
	result, free := share(t, request), request
	free.Rebalance = nil
	rebalanced := share(t, free)
	set.Unplaced = result.Unplaced
	for i, target := range set.Targets {
		target.Assign(request.Targets[i], result.Targets[i], rebalanced.Targets[i], result.Unplaced, w.probe)
	}
	walked := set.Advance(timer)
	w.moves, w.askedBefore = set.Moves, new(int32(w.asked))
	for i, p := range w.places {
		target, to := set.Targets[i], int32(walked.Sizes[i])
		if to != p.size {
			w.writes++
			p.unseen = append(p.unseen, to)
		}
		p.size = to
		target.Now.Resize(to, timeout, timer)
		p.before = target.Now
	}
}

func share(t *testing.T, r apportion.Request) apportion.Result {
	t.Helper()
	result, err := apportion.Distribute(r)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// staying is what a driver knows: the least size that may not have been acted on yet.
func (p *place) staying() *int32 {
	if len(p.unseen) == 0 {
		return nil
	}
	least := p.unseen[0]
	for _, size := range p.unseen[1:] {
		least = min(least, size)
	}
	return &least
}

// act has the controller of a place see the next size that was written: pods beyond it go, those that do not
// run first, and missing ones are created.
func (p *place) act(now time.Time) {
	if len(p.unseen) == 0 {
		return
	}
	size := int(p.unseen[0])
	p.unseen = p.unseen[1:]
	for i := len(p.pods) - 1; i >= 0 && len(p.pods) > size; i-- {
		if !p.pods[i].Ready {
			p.pods = append(p.pods[:i], p.pods[i+1:]...)
		}
	}
	if over := len(p.pods) - size; over > 0 {
		p.pods, p.left = p.pods[:size], p.left+over
	}
	for len(p.pods) < size {
		p.pods = append(p.pods, podhealth.Pod{Created: now, Phase: v1.PodPending})
	}
}

// start has some of the pods of a place become ready, as far as it is able to.
func (p *place) start(now time.Time, some func() bool) {
	running := p.running()
	for i := range p.pods {
		if pod := &p.pods[i]; !pod.Ready && running < p.able && some() {
			running++
			pod.Phase, pod.Ready, pod.WasReady, pod.ReadySince = v1.PodRunning, true, true, now
		}
	}
}

// fail has pods of a place fail beyond what it is able to run from now on.
func (p *place) fail(now time.Time) {
	running := p.running()
	for i := range p.pods {
		if p.pods[i].Ready && running > p.able {
			running--
			p.pods[i] = podhealth.Pod{Created: now, Phase: v1.PodPending}
		}
	}
}

func (p *place) running() (n int) {
	for _, pod := range p.pods {
		if pod.Ready {
			n++
		}
	}
	return n
}

func (w *simulation) running() (n int) {
	for _, p := range w.places {
		n += p.running()
	}
	return n
}

// staying is how many running replicas no size takes away that was written and not acted on yet.
func (w *simulation) staying() (n int) {
	for _, p := range w.places {
		n += min(p.running(), int(ptr.Deref(p.staying(), math.MaxInt32)))
	}
	return n
}

// rest lets everything come to rest: controllers act at once, and pods start as far as they can.
func (w *simulation) rest(t *testing.T, rounds int) {
	t.Helper()
	for range rounds {
		w.now = w.now.Add(time.Minute + time.Second)
		for _, p := range w.places {
			for len(p.unseen) > 0 {
				p.act(w.now)
			}
			p.start(w.now, func() bool { return true })
		}
		w.decide(t)
	}
}

func (w *simulation) String() string {
	text := fmt.Sprintf("%d asked, separate %v, stays %v, limit %v:", w.asked, w.separate, w.stays, w.limit != nil)
	for i, p := range w.places {
		text += fmt.Sprintf(" %c weight %d size %d unseen %v runs %d able %d;", 'a'+i, p.weight, p.size, p.unseen, p.running(), p.able)
	}
	return text
}

// Numbers and weights change while what was written is still on its way, and targets become able to run less
// or more. No decision leaves fewer running than there were or are asked for, whatever is still acted on; no
// replica counts that an earlier decision may take away. In the end as many run as can, and nothing is
// written any more.
func TestEditsInFlight(t *testing.T) {
	t.Parallel()
	for seed := *from; seed < *from+*worlds; seed++ {
		r := rand.New(rand.NewPCG(seed, 21))
		w := newSimulation(r)
		w.decide(t)
		for range 40 {
			w.now = w.now.Add(time.Duration(r.IntN(40_000)) * time.Millisecond)
			switch r.IntN(8) {
			case 0:
				w.asked = r.Int64N(40)
			case 1:
				w.places[r.IntN(len(w.places))].weight = 1 + r.Int64N(5)
			case 2:
				p := w.places[r.IntN(len(w.places))]
				p.able = []int{1 << 20, r.IntN(20)}[r.IntN(2)]
				p.fail(w.now)
			}
			before := w.staying()
			w.decide(t)
			if after := w.staying(); after < min(before, int(w.asked)) {
				t.Fatalf("seed %d: %d run and stay of %d: %v", seed, after, before, w)
			}
			for _, p := range w.places {
				if r.IntN(2) == 0 {
					p.act(w.now)
				}
				p.start(w.now, func() bool { return r.IntN(3) > 0 })
			}
		}
		w.rest(t, 90)
		able := int64(0)
		for _, p := range w.places {
			able = min(able+int64(p.able), w.asked)
		}
		if int64(w.running()) < able {
			t.Fatalf("seed %d: %d run of %d: %v", seed, w.running(), able, w)
		}
		writes := w.writes
		if w.rest(t, 20); w.writes != writes {
			t.Fatalf("seed %d: %d more writes: %v", seed, w.writes-writes, w)
		}
	}
}

// After a change at rest no replica moves twice: of each target no more are stopped than it has fewer in the end.
func TestNothingMovesTwice(t *testing.T) {
	t.Parallel()
	twice := uint64(0)
	for seed := *from; seed < *from+*worlds; seed++ {
		r := rand.New(rand.NewPCG(seed, 22))
		w := newSimulation(r)
		w.limit = nil
		w.rest(t, 30)
		switch r.IntN(3) {
		case 0:
			w.asked = r.Int64N(40)
		case 1:
			w.places[r.IntN(len(w.places))].weight = 1 + r.Int64N(5)
		default:
			p := w.places[r.IntN(len(w.places))]
			p.able = r.IntN(20)
			p.fail(w.now)
		}
		var had []int
		for _, p := range w.places {
			had, p.left = append(had, p.running()), 0
		}
		w.rest(t, 60)
		for i, p := range w.places {
			if p.left > max(0, had[i]-p.running()) {
				t.Logf("seed %d: %d left %c, which ran %d and runs %d: %v", seed, p.left, 'a'+i, had[i], p.running(), w)
				twice++
			}
		}
	}
	if twice > *worlds/1000 {
		t.Errorf("in %d of %d worlds a replica moved twice", twice, *worlds)
	}
}
