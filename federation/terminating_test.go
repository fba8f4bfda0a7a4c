package federation

import (
	"testing"
	"time"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// A local object that is being deleted is not written. It is created again at once when it is gone, and if
// that takes longer than replicas may take to start, they run elsewhere.
func TestTerminatingObjectIsNotWritten(t *testing.T) {
	w := newFakeFleet(t, specOf(8, weighted(map[string]int32{"a": 1, "b": 1})), "a", "b")
	w.converge()
	w.want("4 4", "evenly")
	a := w.place("a")
	terminate := func() { a.Local = Local{Terminating: true} }

	terminate()
	w.in.Spec.Replicas = new(int32(10))
	w.wait(10 * time.Second)
	w.want("- 5", "what is new goes to b only, as a is being deleted")
	if _, reason, message := w.condition(v1alpha1.ConditionSettled); reason != ReasonDeleting {
		t.Errorf("settled: %s: %s", reason, message)
	}
	a.Local = Local{}
	w.converge()
	w.want("5 5", "it is gone")

	terminate()
	w.wait(time.Second)
	w.wait(act + time.Second)
	w.want("- 10", "it is stuck")
}
