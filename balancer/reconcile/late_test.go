package reconcile

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/podhealth"
)

// tick is the step of time of late targets.
const tick = 20 * time.Millisecond

// lateTarget is a target whose controllers act late, and whose pods are seen late.
type lateTarget struct {
	// reacts and starts are within how many ticks the controllers act and a pod is ready; behind is by how
	// many the cache of pods is.
	reacts, starts, behind int
	// size is that of its Scale, and acts when the controllers act on it; 0 if they have.
	size int32
	acts int
	// ready is when each pod is ready, and history is what it was in every tick.
	ready   []int
	history [][]int
}

// live takes the target through a tick, and returns how many pods are ready.
func (l *lateTarget) live(now int, r *rand.Rand) (running int32) {
	if l.acts > 0 && l.acts <= now {
		l.act(now, r)
	}
	for _, at := range l.ready {
		if at <= now {
			running++
		}
	}
	l.history = append(l.history, slices.Clone(l.ready))
	return running
}

// act creates the pods that are missing, or deletes those that are too many, the youngest first: they
// are the ones that are not ready.
func (l *lateTarget) act(now int, r *rand.Rand) {
	slices.Sort(l.ready)
	l.ready, l.acts = l.ready[:min(len(l.ready), int(l.size))], 0
	for len(l.ready) < int(l.size) {
		l.ready = append(l.ready, now+r.IntN(l.starts))
	}
}

// seen is what a pass finds.
func (l *lateTarget) seen(name string, now int) balancer.TargetObservation {
	at := max(0, now-l.behind)
	o := balancer.TargetObservation{Name: name, Replicas: l.size}
	for _, ready := range l.history[at] {
		pod := podhealth.Pod{Created: start, Phase: v1.PodPending}
		if ready <= at {
			pod.Phase, pod.Ready, pod.WasReady = v1.PodRunning, true, true
		}
		o.Pods = append(o.Pods, pod)
	}
	return o
}

// lateWorld is a Balancer of late targets.
type lateWorld struct {
	t       *testing.T
	seed    uint64
	r       *rand.Rand
	in      balancer.Input
	known   sizes
	targets []*lateTarget
	writes  int
}

func newLateWorld(t *testing.T, seed uint64) *lateWorld {
	w := &lateWorld{t: t, seed: seed, known: sizes{}, r: rand.New(rand.NewPCG(seed, 29))}
	w.in = balancer.Input{Key: "shop/web", Generation: 1, Spec: balancerOf("web", 24, "a", "b", "c").Spec, Now: start}
	for range w.in.Spec.Targets {
		upTo := func(d time.Duration) int { return 1 + w.r.IntN(int(d/tick)) }
		w.targets = append(w.targets, &lateTarget{
			reacts: upTo(3 * time.Second), starts: upTo(time.Second), behind: upTo(time.Second), size: 8, ready: make([]int, 8),
		})
	}
	return w
}

func (w *lateWorld) weigh(proportions ...int32) {
	w.in.Generation++
	rates := map[string]int32{}
	for i, t := range w.in.Spec.Targets {
		rates[t.Name] = proportions[i]
	}
	w.in.Spec.Policy.Proportions = &v1alpha1.ProportionalPolicy{TargetProportions: rates}
}

// run plays from a tick to another one.
func (w *lateWorld) run(from, to int) {
	for now := from; now < to; now++ {
		w.in.Now = w.in.Now.Add(tick)
		var ready int32
		for _, l := range w.targets {
			ready += l.live(now, w.r)
		}
		if ready < *w.in.Spec.Replicas {
			w.t.Fatalf("seed %d: %d pods are ready at %v", w.seed, ready, time.Duration(now)*tick)
		}
		if w.r.IntN(5) == 0 {
			w.pass(now)
		}
	}
}

func (w *lateWorld) pass(now int) {
	w.in.Targets, w.in.Pods = nil, 0
	for i, l := range w.targets {
		w.in.Targets = append(w.in.Targets, l.seen(w.in.Spec.Targets[i].Name, now))
		w.in.Pods += int32(len(w.in.Targets[i].Pods)) // a few
	}
	w.known.observe(w.in.Targets, &podhealth.Timer{Now: w.in.Now})
	d, err := balancer.Decide(w.in)
	if err != nil {
		w.t.Fatal(err)
	}
	w.in.Status = d.Status
	w.writes += len(d.Writes)
	for _, write := range d.Writes {
		i := slices.IndexFunc(w.in.Spec.Targets, func(t v1alpha1.BalancerTarget) bool { return t.Name == write.Target })
		l := w.targets[i]
		if l.size = write.To; l.acts == 0 {
			l.acts = now + 1 + w.r.IntN(l.reacts)
		}
	}
}

// However often a Balancer is edited while replicas move, and however late targets act and pods are
// seen, there are always as many pods ready as replicas are asked for. In the end all is as the last edit
// says.
func TestEditsLoseNoReadyPods(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		w := newLateWorld(t, seed)
		now := 0
		for range 16 {
			next := now + w.r.IntN(50)
			w.run(now, next)
			now = next
			w.weigh(w.r.Int32N(9), 1+w.r.Int32N(9), w.r.Int32N(9))
		}
		w.weigh(1, 1, 1)
		w.run(now, now+2000)
		writes := w.writes
		w.run(now+2000, now+2100)
		for i, l := range w.targets {
			if l.size != 8 || w.writes != writes {
				t.Fatalf("seed %d: %s has %d replicas in the end, and %d more writes", seed, w.in.Spec.Targets[i].Name, l.size, w.writes-writes)
			}
		}
	}
}
