package federation

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// even is a settled world of 48 replicas over a, b and c.
func even(t *testing.T) *fakeFleet {
	w := abc(t, everywhere(entry(-1, -1, 1)))
	w.in.Spec.Replicas = new(int32(48))
	w.converge()
	w.want("16 16 16", "at the start")
	w.writes, w.events = nil, nil
	return w
}

// quiet expects that nothing is written for half an hour.
func (w *fakeFleet) quiet(when string) {
	w.t.Helper()
	writes := len(w.writes)
	for range 30 {
		w.wait(time.Minute)
	}
	if len(w.writes) != writes {
		w.t.Errorf("%s: wrote %+v", when, w.writes[writes:])
	}
}

// condition is a condition of the status.
func (w *fakeFleet) condition(kind string) (status bool, reason, message string) {
	c := meta.FindStatusCondition(w.in.Status.Conditions, kind)
	if c == nil {
		w.t.Fatalf("no condition %s", kind)
	}
	return c.Status == "True", c.Reason, c.Message
}

// A cluster refuses the object. It is tried again soon, then about once a minute; after several failures
// its share goes elsewhere, and comes back when the object is accepted.
func TestARefusedObjectIsTriedAgain(t *testing.T) {
	w := abc(t, everywhere(entry(-1, -1, 1)))
	w.in.Spec.Replicas = new(int32(48))
	w.place("c").refuses = "admission webhook says no"
	w.converge()
	w.want("16 16 -", "refused")
	if ok, reason, message := w.condition(v1alpha1.ConditionSettled); ok || reason != ReasonRefused ||
		!strings.Contains(message, "c did not take 16 replicas, 1 time so far: admission webhook says no") {
		t.Error(reason, message)
	}
	if !w.event(ReasonRefused) {
		t.Error("no event")
	}
	tries := func() (n int) {
		for _, write := range w.writes {
			if write.Cluster == "c" {
				n++
			}
		}
		return n
	}
	for range act / time.Second {
		w.want("16 16 -", "within the timeout nothing goes elsewhere")
		w.wait(time.Second)
	}
	w.wait(time.Second)
	w.want("24 24 -", "its share goes elsewhere")
	if tries() != 5 {
		t.Errorf("tried %d times", tries())
	}
	w.place("c").refuses = ""
	w.wait(10 * time.Minute)
	w.want("24 24 2", "accepted: the probe runs")
	w.wait(stable)
	w.wait(time.Second)
	w.want("16 16 16", "its share is back")
	if w.running() != 48 {
		t.Errorf("%d run", w.running())
	}
	w.quiet("settled")
}

// A changed object is tried at once.
func TestARefusedObjectThatChangesIsTriedAtOnce(t *testing.T) {
	w := abc(t, everywhere(entry(-1, -1, 1)))
	w.place("c").refuses = "no such image policy"
	w.converge()
	w.in.Generation++
	d := w.pass()
	if r := d.Status.Cluster("c").Refused; r == nil || r.LastTime.IsZero() {
		t.Errorf("the API server does not store that: %+v", r)
	}
	w.place("c").refuses = ""
	w.in.Generation++
	w.converge()
	w.want("17 17 16", "changed")
}

// An object of that name with another content is overwritten, with an event.
func TestAForeignObjectIsOverwritten(t *testing.T) {
	w := even(t)
	w.place("b").Local.Revision = ""
	w.place("c").Local = Local{Exists: true, Foreign: true, Replicas: 3, Revision: "x"}
	w.converge()
	w.want("16 16 16", "overwritten")
	if !w.event(ReasonOverwritten) || len(w.writes) != 2 {
		t.Errorf("%+v", w.writes)
	}
	for _, name := range []string{"b", "c"} {
		if l := w.place(name).Local; l.Foreign || l.Revision != Revision(&w.in.Spec) {
			t.Errorf("%s: %+v", name, l)
		}
	}
	w.quiet("settled")
}

// A number that somebody else wrote is written back, once.
func TestAnEditedNumberIsWrittenBack(t *testing.T) {
	for _, rebalance := range []bool{true, false} {
		w := even(t)
		w.in.Spec.Preferences.Rebalance = rebalance
		w.place("b").Local.Replicas = 3
		w.converge()
		w.want("16 16 16", "written back")
		if len(w.writes) != 1 || !w.event(ReasonOverwritten) {
			t.Errorf("rebalance %v: %+v, %+v", rebalance, w.writes, w.events)
		}
	}
}

// Pods without an owner are adopted by the local controller: they count as those of the object.
func TestAdoptedPodsCount(t *testing.T) {
	w := abc(t, everywhere(entry(-1, -1, 1)))
	for range 5 {
		w.place("a").pods = append(w.place("a").pods, podhealth.Pod{Created: noon.Add(-time.Hour), Phase: "Running", Ready: true, WasReady: true})
	}
	w.pass()
	w.want("17 17 16", "created, whatever runs there")
}

// A deleted object is created again, with its number.
func TestADeletedObjectIsCreatedAgain(t *testing.T) {
	for _, rebalance := range []bool{true, false} {
		w := even(t)
		w.in.Spec.Preferences.Rebalance = rebalance
		w.place("b").Local, w.place("b").pods = Local{}, nil
		w.converge()
		w.want("16 16 16", "created again")
		if len(w.writes) != 1 || !w.writes[0].Create || !w.writes[0].Content {
			t.Errorf("rebalance %v: %+v", rebalance, w.writes)
		}
	}
}

// Pods that are not even created count the same as unschedulable ones.
func TestUncreatedPodsCountAsUnschedulable(t *testing.T) {
	w := even(t)
	w.place("c").quota = 10
	w.converge()
	w.wait(act - time.Second)
	w.want("16 16 16", "in time")
	w.wait(2 * time.Second)
	w.want("19 19 12", "c has ten, and two wait as a probe")
	s := w.in.Status.Clusters[2]
	if s.Uncreated == 0 || s.Unschedulable != 0 {
		t.Errorf("%+v", s)
	}
	w.place("c").quota = 100
	w.converge()
	w.wait(stable + time.Second)
	w.want("16 16 16", "the quota is gone")
}

// What the local controller says about failures to create pods counts from its time on.
func TestFailuresToCreatePodsCountFromTheirTimeOn(t *testing.T) {
	w := even(t)
	w.place("c").quota = 10
	w.place("c").Local.FailingSince = noon.Add(-4 * time.Minute)
	w.converge()
	w.wait(time.Minute + time.Second)
	w.want("19 19 12", "failing for five minutes")
}

// Whether a cluster can be reached is what counts. For a short time nothing moves, and
// nothing is written there.
func TestNothingMovesWhileAClusterIsAwayForAShortTime(t *testing.T) {
	w := even(t)
	w.place("c").Reach = NotAnswering
	w.quiet("out of reach for a short time")
	if ok, _, message := w.condition(v1alpha1.ConditionClustersReachable); ok || !strings.Contains(message, "c: it has not answered") {
		t.Error(message)
	}
	w.place("c").Reach = Reachable
	w.quiet("back")
}

// While a cluster is out of reach for a short time, the others are scaled; it keeps what it has.
func TestOthersAreScaledWhileAClusterIsAway(t *testing.T) {
	for _, rebalance := range []bool{true, false} {
		w := even(t)
		w.in.Spec.Preferences.Rebalance = rebalance
		w.place("c").Reach = NotAnswering
		w.in.Spec.Replicas = new(int32(60))
		w.converge()
		w.want("22 22 16", "60 asked for")
		w.in.Spec.Replicas = new(int32(30))
		w.converge()
		w.want("7 7 16", "30 asked for")
	}
}

// A cluster that is removed is no member any more: its replicas run elsewhere.
func TestReplicasOfARemovedClusterRunElsewhere(t *testing.T) {
	w := even(t)
	w.places = w.places[:2]
	w.converge()
	w.want("24 24", "c is gone")
	if len(w.in.Status.Clusters) != 2 {
		t.Errorf("%+v", w.in.Status.Clusters)
	}
}

// A cluster that is lost for long: its replicas run elsewhere, nothing is deleted there, and when it
// is back the surplus leaves within the limits; there are never twice as many as asked for.
func TestLostForLong(t *testing.T) {
	for _, rebalance := range []bool{true, false} {
		w := even(t)
		w.in.Spec.Preferences.Rebalance = rebalance
		w.in.Spec.MaxMovesPerMinute = new(int32(4))
		w.place("c").Reach = Lost
		w.converge()
		w.want("24 24 16", "lost")
		if !w.event(ReasonClusterLost) {
			t.Error("no event")
		}
		w.place("c").Reach = Reachable
		for range 10 {
			before := w.running()
			w.converge()
			if gone := before - w.running(); gone > 4 {
				t.Errorf("%d left at once", gone)
			}
			if w.running() > 96 || w.running() < 48 {
				t.Errorf("%d run", w.running())
			}
			w.wait(time.Minute)
		}
		if w.running() != 48 || !w.event(ReasonClusterBack) {
			t.Errorf("rebalance %v: %d run, %s", rebalance, w.running(), w.sizes())
		}
		if rebalance {
			w.want("16 16 16", "back")
		}
		w.quiet("settled")
	}
}

// Slightly more run for a while, never fewer: a replica leaves when another runs in its place.
func TestNeverFewerRun(t *testing.T) {
	w := even(t)
	w.in.Spec.Preferences = weighted(map[string]int32{"a": 1, "b": 1, "c": 0})
	w.pass()
	w.want("24 24 16", "up before down")
	w.in.Now = w.in.Now.Add(time.Second)
	w.pass()
	w.want("24 24 16", "nothing leaves before the others run")
	w.converge()
	w.want("24 24 0", "then it leaves")
}

// A decision needs counts, not pods, so it costs the same however many there are.
func TestADecisionCostsTheSameForManyPods(t *testing.T) {
	w := even(t)
	w.observe()
	before := testing.AllocsPerRun(10, func() { _, _ = Decide(w.in) })
	w.in.Spec.Replicas = new(int32(48_000))
	w.converge()
	w.observe()
	if after := testing.AllocsPerRun(10, func() { _, _ = Decide(w.in) }); after > before*1.1 {
		t.Errorf("%v allocations for 48,000 pods, %v for 48", after, before)
	}
}

// Pods that wait are normal for a while; then most of them move, and a couple stay as a probe.
func TestSomePodsStayAsAProbe(t *testing.T) {
	w := even(t)
	w.place("c").able = 6
	w.converge()
	d := w.pass()
	if want := w.in.Now.Add(normal); !d.Next.After(want) || d.Next.After(want.Add(time.Second)) {
		t.Errorf("next at %v, want right after %v", d.Next, want)
	}
	w.wait(normal + time.Second)
	w.want("16 16 16", "longer than normal")
	d = w.pass()
	if d.Next.Before(noon.Add(act)) || d.Next.After(noon.Add(act+time.Second)) {
		t.Errorf("next at %v, want right after %v", d.Next, noon.Add(act))
	}
	w.in.Now = noon.Add(act)
	w.converge()
	w.want("16 16 16", "exactly at the threshold")
	w.in.Now = d.Next
	w.converge()
	w.want("21 21 8", "past it")
	if w.running() != 48 || !w.event(ReasonFallbackStarted) || !w.event(ReasonMoved) {
		t.Errorf("%d run: %+v", w.running(), w.events)
	}
	w.quiet("the probe waits")

	w.place("c").able = 100
	w.converge()
	w.want("21 21 8", "the probe runs, but not for long yet")
	w.wait(stable - time.Second)
	w.want("21 21 8", "nearly")
	w.wait(time.Second)
	w.want("16 16 16", "the share is back")
	w.quiet("settled")
}

// A new cluster has no object yet, which is created.
func TestANewClusterGetsItsObject(t *testing.T) {
	w := even(t)
	w.join("d", nil)
	w.converge()
	w.want("12 12 12 12", "joined")

	w = even(t)
	w.in.Spec.Preferences.Rebalance = false
	w.join("d", nil)
	w.converge()
	w.want("16 16 16 -", "joined, but nothing moves")
	w.in.Spec.Replicas = new(int32(54))
	w.converge()
	w.want("16 16 16 6", "what is new goes there")
}

// A decision creates what is missing and moves what does not run, both at once.
func TestADecisionCreatesAndMovesAtOnce(t *testing.T) {
	w := even(t)
	w.place("a").able = 10
	w.converge()
	w.in.Now = w.in.Now.Add(act + time.Second)
	w.place("b").Local, w.place("b").pods = Local{}, nil
	w.run()
	d := w.pass()
	var created, moved bool
	for _, write := range d.Writes {
		created = created || write.Cluster == "b" && write.Create
		moved = moved || write.Cluster == "a" && write.To == 12
	}
	if !created || !moved {
		t.Errorf("%+v", d.Writes)
	}
}

// The pods of all clusters are looked at together: what does not run in two of them moves in one
// decision.
func TestPodsOfAllClustersMoveInOneDecision(t *testing.T) {
	w := even(t)
	w.place("a").able, w.place("b").able = 10, 4
	w.converge()
	w.in.Now = w.in.Now.Add(act + time.Second)
	w.run()
	d := w.pass()
	if len(d.Writes) != 3 {
		t.Errorf("%+v", d.Writes)
	}
	w.want("12 6 34", "in one decision")
}

// Nothing is stored or written while nothing happens, and time alone asks for no pass, for two days:
// in random worlds, blocked, with probes that wait, and restarts.
func TestIdle(t *testing.T) {
	t.Parallel()
	for seed := range *loops / 20 {
		w, blocked := loop(t, seed)
		w.rounds(blocked + 2)
		for range 4 {
			w.wait(stable + time.Minute)
		}
		stored, writes := w.in.Status.DeepCopy(), len(w.writes)
		for range 60 {
			w.in.Now = w.in.Now.Add(47*time.Minute + 13*time.Second)
			w.restart()
			w.run()
			d := w.pass()
			if !equalJSON(t, *stored, w.in.Status) || len(w.writes) != writes || len(d.Events) > 0 || !d.Next.IsZero() {
				t.Fatalf("seed %d: next %v, events %+v, writes %+v\nfrom %+v\nto   %+v", seed, d.Next, d.Events, d.Writes, *stored, w.in.Status)
			}
		}
	}
}

// What is settled says so, and asks for no further pass.
func TestASettledObjectAsksForNoPass(t *testing.T) {
	w := even(t)
	d := w.pass()
	if ok, reason, _ := w.condition(v1alpha1.ConditionSettled); !ok || reason != ReasonSettled || !d.Next.IsZero() {
		t.Errorf("%s, next %v", reason, d.Next)
	}
	stored := w.in.Status.DeepCopy()
	w.in.Now = w.in.Now.Add(time.Hour)
	w.pass()
	if a, b := *stored, w.in.Status; !equalJSON(t, a, b) {
		t.Errorf("from %+v to %+v", a, b)
	}
}

// Replicas are never moved into a cluster in which pods wait for longer than is normal, but its own
// share of new ones it gets.
func TestNothingMovesIntoAClusterWithWaitingPods(t *testing.T) {
	w := even(t)
	w.place("c").able = 0
	w.converge()
	w.in.Now = w.in.Now.Add(act - 2*time.Minute)
	w.place("b").able = 12 // four pods begin to wait
	for j := 12; j < 16; j++ {
		w.place("b").pods[j].Created = w.in.Now
	}
	w.converge()
	w.wait(2*time.Minute + time.Second)
	w.want("32 16 2", "b waits, so all of c's goes to a")

	w = even(t)
	w.place("b").able = 12
	w.converge()
	w.wait(2 * time.Minute)
	w.in.Spec.Replicas = new(int32(60))
	w.converge()
	w.want("20 20 20", "its own share")
}

// A scale-down takes replicas first where they do not run.
func TestScaleDownTakesWhatDoesNotRunFirst(t *testing.T) {
	for _, rebalance := range []bool{true, false} {
		w := even(t)
		w.in.Spec.Preferences.Rebalance = rebalance
		w.place("c").able = 6
		w.converge()
		w.in.Spec.Replicas = new(int32(38))
		w.converge()
		if w.running() != 38 {
			t.Errorf("rebalance %v: %d run of 38 that could: %s", rebalance, w.running(), w.sizes())
		}
		if !rebalance {
			w.want("16 16 6", "ten leave where they do not run")
		}
	}
}

// Two replicas at weights 2:1 with a minimum of one are one and one.
func TestTwoAtTwoToOne(t *testing.T) {
	p := weighted(nil)
	p.Clusters["a"], p.Clusters["b"] = entry(1, -1, 2), entry(1, -1, 1)
	w := abc(t, p)
	w.in.Spec.Replicas = new(int32(2))
	w.converge()
	w.want("1 1 -", "one each")
}

// A cluster that is marked NoSchedule keeps what it has and gets no more; one that is leaving is
// emptied.
func TestNoScheduleAndLeaving(t *testing.T) {
	w := even(t)
	w.place("c").NoSchedule = true
	w.quiet("marked")
	w.in.Spec.Replicas = new(int32(60))
	w.converge()
	w.want("22 22 16", "more asked for")
	if s := w.in.Status.Clusters[2]; !strings.Contains(s.Message, "NoSchedule") {
		t.Error(s.Message)
	}
	w.place("c").Leaving = true
	w.pass()
	w.want("30 30 16", "up before down")
	w.converge()
	w.want("30 30 0", "leaving")
}

// An object is not settled while pods that were to leave are still there.
func TestNotSettledWhilePodsLeave(t *testing.T) {
	w := even(t)
	w.in.Spec.Replicas = new(int32(30))
	w.pass()
	w.pass() // the local controllers have not deleted anything yet
	if ok, reason, message := w.condition(v1alpha1.ConditionSettled); ok || reason != ReasonStopping ||
		!strings.HasPrefix(message, "18 surplus pods have not ended yet") {
		t.Error(reason, message)
	}
	w.converge()
	if ok, reason, _ := w.condition(v1alpha1.ConditionSettled); !ok {
		t.Error(reason)
	}
}

// A write that keeps failing, in a cluster that runs some replicas already, counts as missing since it failed
// first: attempts do not begin the time anew, nor do pods that restart meanwhile.
func TestShareOfFailingWritesRunsElsewhere(t *testing.T) {
	w := newFakeFleet(t, specOf(6, everywhere(entry(-1, -1, 1))), "a", "b")
	w.converge()
	w.want("3 3", "before")
	w.place("b").refuses = "failed calling webhook"
	w.in.Spec.Replicas = new(int32(12))
	w.converge()
	for i := range int(act / time.Second) {
		w.want("6 3", "within the timeout nothing goes elsewhere")
		w.place("b").able = 3 - int32(i%2)
		w.wait(time.Second)
	}
	w.place("b").able = 3
	w.wait(2 * time.Second)
	w.want("9 3", "what could not be written runs elsewhere")
	if ok, reason, message := w.condition(v1alpha1.ConditionSettled); ok || reason != ReasonRefused ||
		!strings.Contains(message, "failed calling webhook") {
		t.Error(reason, message)
	}
	w.place("b").refuses, w.place("b").able = "", 100
	for range 3 {
		w.wait(stable + time.Second)
	}
	w.want("6 6", "its share is back")
	w.quiet("settled")
}

// A member that could never be reached is not a problem of every object, only of those that name it.
func TestUnusableMemberConcernsThoseWhoNameIt(t *testing.T) {
	for named, want := range map[bool]bool{false: true, true: false} {
		w := newFakeFleet(t, specOf(6, everywhere(entry(-1, -1, 1))), "a", "b", "broken")
		w.place("broken").Reach = Lost
		if named {
			w.in.Spec.Preferences.Clusters["broken"] = entry(-1, -1, 1)
		}
		w.converge()
		if ok, _, message := w.condition(v1alpha1.ConditionClustersReachable); ok != want {
			t.Errorf("named %v: %v %s", named, ok, message)
		}
	}
}

// A paused Deployment rolls nothing out, and is named.
func TestPausedDeploymentIsNamed(t *testing.T) {
	m := member{Cluster: Cluster{Name: "a", Local: Local{Exists: true, Paused: true, Outdated: 2}}}
	if text := m.stuck(act); !strings.Contains(text, "in a, the Deployment is paused") {
		t.Error(text)
	}
}

// What a cluster did not take is not wanted there any more when it is back. Then replicas leave the others at once, which
// they would not while it is not known whether those can start.
func TestARefusalThatIsOverHoldsNoReplica(t *testing.T) {
	t.Parallel()
	w := abc(t, everywhere(entry(-1, -1, 1)))
	w.in.Spec.Replicas = new(int32(30))
	w.converge()
	c := w.place("c")
	c.refuses = "the API server did not answer in time"
	w.in.Spec.Replicas = new(int32(36))
	w.pass()
	c.refuses, c.Reach = "", Lost
	w.in.Spec.Replicas = new(int32(30))
	w.converge()
	c.Reach = Reachable
	for range 20 { // nothing else happens: only what a decision asks for has another one made
		w.run()
		d := w.pass()
		if len(d.Writes) == 0 && (d.Next.IsZero() || d.Next.After(w.in.Now.Add(time.Second))) {
			break
		}
		w.in.Now = w.in.Now.Add(time.Second)
	}
	w.want("10 10 10", "back")
}
