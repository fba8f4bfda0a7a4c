package federation

import (
	"strings"
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// autoscale has an autoscaler in cluster b want a number of replicas, and look every 15 seconds. It
// returns how often b was written.
func (w *fakeFleet) autoscale(wants int32, d time.Duration) (writes int) {
	before := len(w.writes)
	for range d / (15 * time.Second) {
		w.in.Now = w.in.Now.Add(15 * time.Second)
		if wants >= 0 {
			w.place("b").Local.Replicas = wants
		}
		w.converge()
	}
	for _, write := range w.writes[before:] {
		if write.Cluster == "b" {
			writes++
		}
	}
	return writes
}

// What a HorizontalPodAutoscaler in a member adds takes nothing away from the others, and what it takes away
// runs there. The status says what to do. It is put right from time to time, with few writes however long it
// goes on.
func TestSecondWriterKeepsItsShare(t *testing.T) {
	for _, rebalance := range []bool{true, false} {
		w := even(t)
		w.in.Spec.Preferences.Rebalance = rebalance
		if n := w.autoscale(24, 5*time.Minute); n != 4 {
			t.Errorf("%d writes", n)
		}
		w.want("16 24 16", "it keeps its share, and so do the others")
		if s := w.in.Status.Clusters[1]; s.Reason != ReasonSecondWriter || s.Desired != 16 ||
			!strings.Contains(s.Message, "HorizontalPodAutoscaler") {
			t.Errorf("%+v", s)
		}
		if ok, reason, message := w.condition(v1alpha1.ConditionSettled); ok || reason != ReasonSecondWriter ||
			!strings.HasPrefix(message, "b: ") {
			t.Error(reason, message)
		}
		events := 0
		for _, e := range w.events {
			if e.Reason == ReasonSecondWriter {
				events++
			}
		}
		if events != 1 {
			t.Errorf("%d events", events)
		}
		w.autoscale(1000, 3*time.Minute)
		w.want("16 1000 16", "it wants a great many")
		if n := w.autoscale(24, 24*time.Hour); n > 150 {
			t.Errorf("%d writes in a day", n)
		}
		w.autoscale(6, time.Minute)
		w.want("21 6 21", "it wants fewer")
		w.autoscale(-1, 3*time.Hour)
		if w.running() != 48 || w.in.Status.Clusters[1].Overwrites != nil {
			t.Errorf("it stopped: %s, %+v", w.sizes(), w.in.Status.Clusters[1].Overwrites)
		}
		if rebalance {
			w.want("16 16 16", "it stopped")
		}
		w.quiet("it stopped")
	}
}

// While the object is left alone nothing is stored again and again.
func TestSecondWriterLeavesTheStatusQuiet(t *testing.T) {
	w := even(t)
	w.autoscale(24, 2*time.Minute)
	w.converge()
	stored := w.in.Status.DeepCopy()
	w.autoscale(24, time.Minute)
	if !equalJSON(t, *stored, w.in.Status) {
		t.Errorf("from %+v to %+v", *stored, w.in.Status)
	}
}

// A change of the FederatedReplicaSet is written at once.
func TestSecondWriterAndAChangedObject(t *testing.T) {
	w := even(t)
	w.autoscale(24, 2*time.Minute)
	w.in.Generation++
	w.converge()
	w.want("16 16 16", "changed")
}

// Another content that is applied again and again is left alone as well.
func TestSecondWriterOfTheContent(t *testing.T) {
	w := even(t)
	for range 100 {
		w.place("b").Local.Revision = ""
		w.in.Now = w.in.Now.Add(5 * time.Second)
		w.converge()
	}
	if n := len(w.writes); n > 6 || w.in.Status.Clusters[1].Reason != ReasonSecondWriter {
		t.Errorf("%d writes, %+v", n, w.in.Status.Clusters[1])
	}
	w.place("b").Local.Revision = Revision(&w.in.Spec)
	w.wait(11 * time.Minute)
	if ok, reason, _ := w.condition(v1alpha1.ConditionSettled); !ok {
		t.Error(reason)
	}
}

// What is changed now and then is put right every time, and a write that fails is not taken for
// somebody else's change.
func TestWhatIsNoSecondWriter(t *testing.T) {
	w := even(t)
	for range 10 {
		w.place("b").Local.Replicas = 3
		w.wait(11 * time.Minute)
		w.want("16 16 16", "put right")
	}
	w = even(t)
	w.place("b").Local.Replicas, w.place("b").Local.Revision = 3, ""
	for range 10 { // the cluster does not answer
		w.observe()
		d, err := Decide(w.in)
		if err != nil {
			t.Fatal(err)
		}
		var answers []Answer
		for _, write := range d.Writes {
			answers = append(answers, Answer{Write: write})
		}
		w.in.Status, _ = Answered(d.Status, answers, w.in.Now)
		w.in.Now = w.in.Now.Add(time.Second)
	}
	if o := w.in.Status.Clusters[1].Overwrites; o == nil || o.Count != 1 {
		t.Errorf("%+v", o)
	}
	w.converge()
	w.want("16 16 16", "it answers")
}
