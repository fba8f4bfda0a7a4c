package federation

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// deployment replaces pods as the controller of Deployments does by default: a quarter more pods
// than replicas, rounded up, and a quarter of them out of service, rounded down.
type deployment struct {
	old, fresh []rolledPod
	revision   string
	size       int
	// broken is a revision whose pods never become ready.
	broken string
}

type rolledPod struct {
	podhealth.Pod
	broken, scheduled bool
}

func (r rolledPod) runs() bool { return r.Ready }

func running(rs []rolledPod) (n int) {
	for _, r := range rs {
		if r.runs() {
			n++
		}
	}
	return n
}

// less removes n replicas, first those that do not run, of these the newest.
func less(rs []rolledPod, n int) []rolledPod {
	for ; n > 0 && len(rs) > 0; n-- {
		victim := len(rs) - 1
		for i := len(rs) - 1; i >= 0; i-- {
			if !rs[i].runs() {
				victim = i
				break
			}
		}
		rs = append(rs[:victim:victim], rs[victim+1:]...)
	}
	return rs
}

// roll makes one step of the Deployment, then the scheduler's.
func (p *place) roll(now time.Time) {
	d, l := p.rolls, &p.Local
	size := 0
	if l.Exists {
		size = int(l.Replicas)
	}
	if l.Exists && l.Revision != d.revision {
		d.old, d.fresh, d.revision = append(d.old, d.fresh...), nil, l.Revision
	}
	surge, out := (size+3)/4, size/4
	least := size - out
	switch total := len(d.old) + len(d.fresh); {
	case len(d.old) == 0:
		d.fresh = less(d.fresh, len(d.fresh)-size)
	case len(d.fresh) == 0 && size != d.size:
		d.old = less(d.old, len(d.old)-size)
	case total > size+surge:
		over := total - size - surge
		fromOld := min(over, max(len(d.old)-running(d.old), (over*len(d.old)+total-1)/total))
		d.old = less(d.old, fromOld)
		d.fresh = less(d.fresh, over-fromOld)
	}
	d.size = size
	for len(d.fresh) < size && (len(d.old) == 0 || len(d.old)+len(d.fresh) < size+surge) {
		d.fresh = append(d.fresh, rolledPod{Pod: podhealth.Pod{Created: now, Phase: v1.PodPending}, broken: d.revision == d.broken})
	}
	unhealthy := min(len(d.old)-running(d.old), max(0, len(d.old)+running(d.fresh)-least))
	d.old = less(d.old, unhealthy)
	d.old = less(d.old, min(running(d.old), max(0, running(d.old)+running(d.fresh)-least)))
	p.schedule(now)
}

// schedule gives nodes to those that wait longest.
func (p *place) schedule(now time.Time) {
	d := p.rolls
	free := int(p.able)
	each := func(do func(r *rolledPod)) {
		for _, rs := range [][]rolledPod{d.old, d.fresh} {
			for i := range rs {
				do(&rs[i])
			}
		}
	}
	each(func(r *rolledPod) {
		if r.scheduled = r.scheduled && free > 0; r.scheduled {
			free--
		} else {
			r.Phase, r.Ready, r.WasReady = v1.PodPending, false, false
		}
	})
	p.pods, p.Local.Failing = nil, 0
	each(func(r *rolledPod) {
		if !r.scheduled && free > 0 {
			r.scheduled = true
			free--
		}
		if r.scheduled && !r.broken && !r.Ready {
			r.Phase, r.Ready, r.WasReady, r.ReadySince = v1.PodRunning, true, true, now
		}
		if r.scheduled && r.broken && now.Sub(r.Created) > act {
			p.Local.Failing++
		}
		p.pods = append(p.pods, r.Pod)
	})
	p.Local.Outdated = int32(len(d.old))
	p.Local.RolledOut = len(d.old) == 0 && len(d.fresh) == d.size
}

// rolling has Deployments in all clusters.
func (w *fakeFleet) rolling() {
	w.in.Spec.LocalKind = v1alpha1.LocalDeployment
	for _, p := range w.places {
		p.rolls = &deployment{}
	}
}

func (w *fakeFleet) template(image string) {
	w.in.Spec.Template.Spec.Raw = fmt.Appendf(nil, `{"containers":[{"name":"web","image":%q}]}`, image)
	w.in.Generation++
}

// play lets time pass in small steps.
func (w *fakeFleet) play(d time.Duration) {
	w.t.Helper()
	for range d / (20 * time.Second) {
		w.in.Now = w.in.Now.Add(20 * time.Second)
		w.run()
		w.pass()
	}
}

// rolledOut are the clusters in which all pods have the template.
func (w *fakeFleet) rolledOut() (names string) {
	for _, p := range w.places {
		if p.Local.Revision == Revision(&w.in.Spec) && p.Local.RolledOut {
			names += p.Name
		}
	}
	return names
}

func (w *fakeFleet) capacities() string {
	text := ""
	for _, s := range w.in.Status.Clusters {
		if s.Capacity != nil {
			text += fmt.Sprintf("%s:%d ", s.Name, *s.Capacity)
		}
	}
	return text
}

// A cluster that is full and holds a probe gets a new template into all its pods: the probe is
// withdrawn meanwhile and comes back; what is known of the cluster stays, and nothing moves.
func TestRolloutFinishesWhereAProbeWaits(t *testing.T) {
	t.Parallel()
	for _, able := range []int32{1, 2, 3, 4, 6, 11} {
		for _, rebalance := range []bool{true, false} {
			for _, rollout := range []v1alpha1.Rollout{v1alpha1.RolloutAllAtOnce, v1alpha1.RolloutOneByOne} {
				for _, probe := range []int32{1, 4} {
					w := abc(t, everywhere(entry(-1, -1, 1)))
					w.in.Spec.Preferences.Rebalance, w.in.Spec.Rollout, w.in.Spec.Fallback.Probe = rebalance, rollout, &probe
					w.in.Spec.Replicas = new(int32(48))
					w.rolling()
					w.place("a").able = able
					w.play(15 * time.Minute)
					sizes, capacities := w.sizes(), w.capacities()
					if rebalance && (capacities != fmt.Sprintf("a:%d ", able) || w.place("a").Local.Replicas <= able) {
						t.Fatalf("able %d: %s, capacities %s\n%s", able, sizes, capacities, w.explain())
					}
					name := fmt.Sprintf("able %d, rebalance %v, %s, probe %d", able, rebalance, rollout, probe)
					w.template("web:2")
					writes, events := len(w.writes), len(w.events)
					for range 20 {
						w.play(2 * time.Minute)
						if got := w.capacities(); got != capacities {
							t.Fatalf("%s: capacities %s, were %s", name, got, capacities)
						}
					}
					if w.rolledOut() != "abc" || w.sizes() != sizes {
						t.Errorf("%s: rolled out in %q, sizes %s, were %s\n%s", name, w.rolledOut(), w.sizes(), sizes, w.explain())
					}
					if n := len(w.writes) - writes; n > 5 {
						t.Errorf("%s: %d writes: %+v", name, n, w.writes[writes:])
					}
					for _, e := range w.events[events:] {
						if e.Reason == ReasonFallbackStarted || e.Reason == ReasonFallbackEnded || e.Reason == ReasonMoved &&
							!strings.Contains(e.Message, "from cluster a") {
							t.Errorf("%s: %+v", name, e)
						}
					}
				}
			}
		}
	}
}

// A full cluster of which that is not known yet finishes as well, however few replicas it has.
func TestRolloutFinishesInAFullCluster(t *testing.T) {
	t.Parallel()
	for size := int32(1); size <= 12; size++ {
		w := abc(t, everywhere(entry(-1, -1, 1)))
		w.in.Spec.Replicas = new(3 * size)
		w.in.Spec.Rollout = v1alpha1.RolloutOneByOne
		w.rolling()
		for _, p := range w.places {
			p.able = size
		}
		w.play(10 * time.Minute)
		w.template("web:2")
		w.play(3 * time.Hour)
		if w.rolledOut() != "abc" || w.capacities() != "" || w.running() != 3*size {
			t.Errorf("size %d: rolled out in %q, %d run, capacities %s\n%s", size, w.rolledOut(), w.running(), w.capacities(), w.explain())
		}
	}
}

// A template whose pods never become ready stops after the first cluster, and Settled says which and
// why. The next template goes on.
func TestRolloutOfABrokenTemplateStops(t *testing.T) {
	t.Parallel()
	for _, able := range []int32{6, 1000} {
		w := abc(t, everywhere(entry(-1, -1, 1)))
		w.in.Spec.Replicas, w.in.Spec.Rollout = new(int32(48)), v1alpha1.RolloutOneByOne
		w.rolling()
		w.place("a").able = able
		w.play(15 * time.Minute)
		sizes, capacities := w.sizes(), w.capacities()
		w.template("web:broken")
		w.place("a").rolls.broken = Revision(&w.in.Spec)
		w.play(2 * time.Hour)
		for _, p := range w.places {
			if has := p.Local.Revision == Revision(&w.in.Spec); has != (p.Name == "a") {
				t.Errorf("%s has it: %v", p.Name, has)
			}
		}
		ok, reason, message := w.condition(v1alpha1.ConditionSettled)
		for _, part := range []string{"b, c get the new template", "pods of an earlier template still run in a", "in a, ",
			"with a node did not start within 5m0s: check the image"} {
			if ok || reason != ReasonRolling || !strings.Contains(message, part) {
				t.Errorf("%v %s %s: no %q", ok, reason, message, part)
			}
		}
		if w.capacities() != capacities || w.running() < 40 {
			t.Errorf("capacities %s, were %s; %d run", w.capacities(), capacities, w.running())
		}
		w.quiet("stuck")
		w.template("web:3")
		w.play(time.Hour)
		if w.rolledOut() != "abc" || w.sizes() != sizes {
			t.Errorf("rolled out in %q, sizes %s, were %s\n%s", w.rolledOut(), w.sizes(), sizes, w.explain())
		}
	}
}

// A Deployment with another bound on what may be out of service makes room accordingly.
func TestRolloutKeepsToMaxUnavailable(t *testing.T) {
	for _, c := range []struct {
		most intstr.IntOrString
		want int32
	}{{intstr.FromInt32(0), 7}, {intstr.FromInt32(1), 8}, {intstr.FromString("100%"), 8}, {intstr.FromString("10%"), 7},
		{intstr.FromString("x"), 7}} {
		w := even(t)
		w.in.Spec.LocalKind = v1alpha1.LocalDeployment
		w.converge()
		w.place("a").able, w.place("a").Local.MaxUnavailable = 8, &c.most
		w.wait(act + time.Second)
		w.want("10 20 20", "blocked")
		w.template("web:2")
		w.run()
		w.pass()
		w.place("a").Local.RolledOut = false
		w.run()
		w.pass()
		if got := w.place("a").Local.Replicas; got != c.want {
			t.Errorf("%s: %d, want %d", c.most.String(), got, c.want)
		}
	}
}

// Nodes that are lost during a rollout do not stop it: what the cluster runs for long is what it is
// able to run.
func TestRolloutFinishesWhereNodesAreLost(t *testing.T) {
	t.Parallel()
	for able := range int32(16) {
		w := abc(t, everywhere(entry(-1, -1, 1)))
		w.in.Spec.Replicas = new(int32(48))
		w.rolling()
		w.play(10 * time.Minute)
		w.template("web:2")
		w.run()
		w.pass()
		w.place("a").able = able
		w.play(2 * time.Hour)
		if w.rolledOut() != "abc" || w.capacities() != fmt.Sprintf("a:%d ", able) || w.running() != 48 {
			t.Errorf("able %d: rolled out in %q, %d run, capacities %s\n%s", able, w.rolledOut(), w.running(), w.capacities(), w.explain())
		}
	}
}

// Random worlds whose template changes at any time, also again before the last change is through:
// all pods get the last template, and then nothing is written.
func TestRolloutsInRandomWorlds(t *testing.T) {
	t.Parallel()
	for seed := range *loops / 40 {
		r := rand.New(rand.NewPCG(seed, 17))
		w, _ := loop(t, seed)
		w.rolling()
		for _, p := range w.places {
			p.Local, p.pods = Local{}, nil
		}
		if r.IntN(2) == 0 {
			w.in.Spec.Rollout = v1alpha1.RolloutOneByOne
		}
		for i := range 1 + r.IntN(3) {
			w.play(time.Duration(r.IntN(15)) * time.Minute)
			w.template(fmt.Sprint("web:", i+2))
		}
		w.play(3 * time.Hour)
		for _, p := range w.places {
			only := p.able == 1 && w.running() == 1 // the last replica stays
			if p.Local.Exists && !only && (!p.Local.RolledOut || p.Local.Revision != Revision(&w.in.Spec)) {
				t.Fatalf("seed %d: not rolled out in %s, sizes %s\n%s", seed, p.Name, w.sizes(), w.explain())
			}
		}
		writes := len(w.writes)
		w.play(30 * time.Minute)
		if len(w.writes) != writes {
			t.Fatalf("seed %d: written after it had settled: %+v", seed, w.writes[writes:])
		}
	}
}

// A rolling update moves nothing, however its pods come and go.
func TestRollingUpdateMovesNothing(t *testing.T) {
	for _, rebalance := range []bool{true, false} {
		w := even(t)
		w.in.Spec.LocalKind = v1alpha1.LocalDeployment
		w.in.Spec.Preferences.Rebalance = rebalance
		w.in.Spec.Template.Spec.Raw = []byte(`{"containers":[{"name":"web","image":"web:2"}]}`)
		w.in.Generation++
		w.pass()
		writes := len(w.writes)
		if writes != 3 || !w.writes[0].Content || w.writes[0].To != w.writes[0].From {
			t.Fatalf("%+v", w.writes)
		}
		for i := range 16 {
			for _, p := range w.places { // one pod after the other is replaced, each in four minutes
				p.Local.RolledOut = i == 15
				p.pods[i] = podhealth.Pod{Created: w.in.Now, Phase: "Pending"}
			}
			for range 4 {
				w.in.Now = w.in.Now.Add(time.Minute)
				w.pass()
			}
			for _, p := range w.places {
				p.pods[i].Phase, p.pods[i].Ready, p.pods[i].WasReady, p.pods[i].ReadySince = "Running", true, true, w.in.Now
			}
			w.pass()
		}
		if len(w.writes) != writes {
			t.Errorf("rebalance %v: %+v", rebalance, w.writes[writes:])
		}
		w.quiet("rolled out")
	}
}

// OneByOne: the next cluster gets the template when all replicas of the last one run with it. One
// that is out of reach is passed over.
func TestRolloutOneByOne(t *testing.T) {
	w := even(t)
	w.in.Spec.LocalKind, w.in.Spec.Rollout = v1alpha1.LocalDeployment, v1alpha1.RolloutOneByOne
	has := func() (names string) {
		for _, p := range w.places {
			if p.Local.Revision == Revision(&w.in.Spec) {
				names += p.Name
			}
		}
		return names
	}
	w.pass()
	for _, step := range []struct{ rolledOut, want string }{{"", "a"}, {"", "a"}, {"a", "ab"}, {"ab", "abc"}, {"abc", "abc"}} {
		for _, p := range w.places {
			p.Local.RolledOut = strings.Contains(step.rolledOut, p.Name)
		}
		w.pass()
		if got := has(); got != step.want {
			t.Fatalf("after %q: %q, want %q", step.rolledOut, got, step.want)
		}
	}
	w.want("16 16 16", "nothing moved")

	w.in.Spec.Template.Metadata.Annotations = map[string]string{"a": "b"}
	w.place("a").Reach = NotAnswering
	w.pass()
	if has() != "b" {
		t.Errorf("a is out of reach: %q", has())
	}
	if ok, reason, message := w.condition(v1alpha1.ConditionSettled); ok {
		t.Error(reason, message)
	}
}

// An object is not settled while a local object has pods of an earlier template, even if as many run
// as were written.
func TestNotSettledWhileRollingOut(t *testing.T) {
	w := even(t)
	w.in.Spec.LocalKind = v1alpha1.LocalDeployment
	w.converge()
	w.place("b").Local.RolledOut = false
	w.pass()
	if ok, reason, message := w.condition(v1alpha1.ConditionSettled); ok || reason != ReasonRolling ||
		!strings.HasSuffix(message, "still run in b") {
		t.Error(reason, message)
	}
	w.place("b").Local.RolledOut = true
	w.pass()
	if ok, reason, _ := w.condition(v1alpha1.ConditionSettled); !ok {
		t.Error(reason)
	}
}
