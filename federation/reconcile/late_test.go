package reconcile

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/podhealth"
)

// tick is the step of time of late members.
const tick = 20 * time.Millisecond

// lateMember is a member that makes writes late, acts on them late, and shows late what it did.
type lateMember struct {
	name string
	r    *rand.Rand
	// written, reacts and starts are within how many ticks a write is made, the controllers act on it and
	// a pod is ready; objects and pods are by how many the watches are behind.
	written, reacts, starts, objects, pods int
	// now is the local object, and history what it and the pods were in every tick.
	now     seenLate
	history []seenLate
	// waiting are writes that are not made yet, the first of them being under way; acts is when the
	// controllers act, and ready when each pod is ready.
	waiting []lateWrite
	acts    int
	ready   []int
}

// seenLate is the version and the size of a local object, the version that the controllers have acted on,
// and how many pods there are and run.
type seenLate struct {
	version, acted       uint64
	size, existing, runs int32
}

// lateWrite is a write that is made at a tick.
type lateWrite struct {
	federation.Write
	at int
}

// live takes the member through a tick.
func (m *lateMember) live(now int, known *memory) {
	for len(m.waiting) > 0 && m.waiting[0].at <= now {
		w := m.waiting[0].Write
		m.waiting = m.waiting[1:]
		m.now.version, m.now.size = m.now.version+1, w.To
		known.answered(shop, federation.Answer{Write: w}, true, fmt.Sprint(m.now.version))
	}
	switch {
	case m.acts > 0 && m.acts <= now:
		m.act(now)
	case m.acts == 0 && m.now.acted != m.now.version:
		m.acts = now + 1 + m.r.IntN(m.reacts)
	}
	m.now.existing, m.now.runs = int32(len(m.ready)), 0 // a few
	for _, at := range m.ready {
		if at <= now {
			m.now.runs++
		}
	}
	m.history = append(m.history, m.now)
}

// act creates the pods that are missing, or deletes those that are too many, the youngest first: they
// are the ones that are not ready.
func (m *lateMember) act(now int) {
	slices.Sort(m.ready)
	size := int(m.now.size)
	m.ready = m.ready[:min(len(m.ready), size)]
	for len(m.ready) < size {
		m.ready = append(m.ready, now+m.r.IntN(m.starts))
	}
	m.now.acted, m.acts = m.now.version, 0
}

// write has a write made. Of those that wait the last one is made.
func (m *lateMember) write(now int, w federation.Write) {
	m.waiting = append(m.waiting[:min(1, len(m.waiting))], lateWrite{w, now + m.r.IntN(m.written)})
}

// seen is what a pass finds.
func (m *lateMember) seen(now int, known *memory, in *federation.Input) federation.Cluster {
	object, pods := m.history[max(0, now-m.objects)], m.history[max(0, now-m.pods)]
	l := federation.Local{Exists: true, Replicas: object.size, Written: &object.size, Revision: federation.Revision(&in.Spec), RolledOut: true}
	l = known.read(shop, m.name, l, identity{version: fmt.Sprint(object.version), acted: object.acted == object.version},
		&podhealth.Timer{Now: in.Now})
	normal, act := federation.Timeouts(&in.Spec)
	counts := podhealth.Counts{Existing: pods.existing, Running: pods.runs, Ready: pods.runs}
	l.Normal, l.Act = counts, counts
	l.Normal.Timeout, l.Act.Timeout = normal, act
	return federation.Cluster{Name: m.name, Local: l}
}

// lateWorld are members that share replicas.
type lateWorld struct {
	t       *testing.T
	seed    uint64
	r       *rand.Rand
	in      federation.Input
	known   memory
	members []*lateMember
	writes  int
}

func newLateWorld(t *testing.T, seed uint64) *lateWorld {
	w := &lateWorld{t: t, seed: seed, r: rand.New(rand.NewPCG(seed, 29))}
	w.in = federation.Input{Key: "shop/web", Generation: 1, Spec: web().Spec, Now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
	w.in.Spec.LocalKind, w.in.Spec.Replicas = v1alpha1.LocalReplicaSet, ptr.To[int32](24)
	for _, name := range []string{"a", "b", "c"} {
		upTo := func(d time.Duration) int { return 1 + w.r.IntN(int(d/tick)) }
		m := &lateMember{name: name, r: w.r, written: upTo(500 * time.Millisecond), reacts: upTo(3 * time.Second), starts: upTo(time.Second),
			objects: upTo(time.Second)}
		m.pods = w.r.IntN(m.objects + int(time.Second/tick))
		m.now = seenLate{version: 1, acted: 1, size: 8}
		m.ready = make([]int, 8)
		w.members = append(w.members, m)
	}
	w.weigh(1, 1, 1)
	return w
}

func (w *lateWorld) weigh(weights ...int32) {
	w.in.Generation++
	p := &v1alpha1.FederatedPreferences{Rebalance: true, Clusters: map[string]v1alpha1.FederatedPreference{}}
	for i, m := range w.members {
		p.Clusters[m.name] = v1alpha1.FederatedPreference{ClusterPreference: v1alpha1.ClusterPreference{Weight: &weights[i]}}
	}
	w.in.Spec.Preferences = p
}

// run plays from a tick to another one.
func (w *lateWorld) run(from, to int) {
	for now := from; now < to; now++ {
		w.in.Now = w.in.Now.Add(tick)
		var ready int32
		for _, m := range w.members {
			m.live(now, &w.known)
			ready += m.now.runs
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
	w.in.Clusters = nil
	w.known.answers(shop)
	for _, m := range w.members {
		w.in.Clusters = append(w.in.Clusters, m.seen(now, &w.known, &w.in))
	}
	d, err := federation.Decide(w.in)
	if err != nil {
		w.t.Fatal(err)
	}
	w.in.Status = d.Status
	w.writes += len(d.Writes)
	for _, write := range d.Writes {
		i := slices.IndexFunc(w.members, func(m *lateMember) bool { return m.name == write.Cluster })
		l := w.in.Clusters[i].Local
		l.Replicas, l.Written = write.To, ptr.To(write.To)
		w.known.send(shop, sending{write: write, at: w.in.Now, local: l})
		w.members[i].write(now, write)
	}
}

// However often an object is edited while replicas move, and however late members act and tell, there
// are always as many pods ready as replicas are asked for. In the end all is as the last edit says.
func TestEditsLoseNoReadyPods(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		w := newLateWorld(t, seed)
		now := 0
		for range 16 {
			next := now + w.r.IntN(50)
			w.run(now, next)
			now = next
			w.weigh(w.r.Int32N(9), 1+w.r.Int32N(9), w.r.Int32N(9))
		}
		w.weigh(1, 1, 1)
		w.run(now, now+1500)
		writes := w.writes
		w.run(now+1500, now+1600)
		for _, m := range w.members {
			if m.now.size != 8 || w.writes != writes {
				t.Fatalf("seed %d: %s has %d replicas in the end, and %d more writes", seed, m.name, m.now.size, w.writes-writes)
			}
		}
	}
}
