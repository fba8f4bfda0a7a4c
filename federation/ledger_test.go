package federation

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// half is a pod that asks for half a core and a gigabyte.
var half = runtime.RawExtension{Raw: []byte(`{"containers":[{"name":"web","image":"web:1","resources":{"requests":{"cpu":"500m","memory":"1Gi"}}}]}`)}

// sweep decides about 500 new objects with four replicas each, one after the other, before any of
// their pods exists. It returns how many replicas each cluster gets.
func sweep(t *testing.T, decide func(Input) (Decision, error)) (given map[string]int32, unplaced int32) {
	t.Helper()
	given = map[string]int32{}
	for i := range 500 {
		spec := specOf(4, weighted(map[string]int32{"a": 6, "b": 3, "c": 1}))
		spec.Template.Spec = half
		d, err := decide(Input{Key: fmt.Sprintf("shop/web-%d", i), Spec: spec, Clusters: []Cluster{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Now: noon})
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range d.Writes {
			given[w.Cluster] += w.To
		}
		unplaced += d.Status.Unplaced
	}
	return given, unplaced
}

// 500 objects that are scaled in one sweep never all choose the same room.
func TestLedgerSharesTheRoomOfASweep(t *testing.T) {
	// Room for 400, 900 and 800 replicas; the cores decide in a and b, the memory in c.
	free := map[string]Resources{
		"a": {MilliCPU: 200_000, Memory: 1 << 50, Pods: 10_000},
		"b": {MilliCPU: 450_000, Memory: 1 << 50, Pods: 10_000},
		"c": {MilliCPU: 900_000, Memory: 800 << 30, Pods: 10_000},
	}
	ledger := NewLedger(5 * time.Minute)
	given, unplaced := sweep(t, func(in Input) (Decision, error) { return ledger.Decide(in, free) })
	t.Logf("with a ledger %v", given)
	if given["a"] > 400 || given["b"] > 900 || given["c"] > 800 || given["a"]+given["b"]+given["c"] != 2000 || unplaced != 0 {
		t.Errorf("%v, %d unplaced", given, unplaced)
	}
	forgetful, _ := sweep(t, func(in Input) (Decision, error) { return NewLedger(time.Minute).Decide(in, free) })
	t.Logf("without %v", forgetful)
	if forgetful["a"] <= 400 {
		t.Errorf("without a ledger %v: the room suffices for all, and the test shows nothing", forgetful)
	}
}

// What runs is no assumption any more, what does not run for long uses nothing, and what is deleted
// neither.
func TestLedgerForgets(t *testing.T) {
	free := map[string]Resources{"a": {MilliCPU: 2000, Memory: 1 << 40, Pods: 100}} // room for four
	spec := specOf(4, nil)
	spec.Template.Spec = half
	in := func(key string, now time.Time) Input {
		return Input{Key: key, Spec: spec, Clusters: []Cluster{{Name: "a"}}, Now: now}
	}
	ledger := NewLedger(5 * time.Minute)
	place := func(key string, now time.Time) int32 {
		t.Helper()
		d, err := ledger.Decide(in(key, now), free)
		if err != nil {
			t.Fatal(err)
		}
		return 4 - d.Status.Unplaced
	}
	if a, b := place("x/1", noon), place("x/2", noon); a != 4 || b != 0 {
		t.Errorf("%d, %d", a, b)
	}
	if again := place("x/1", noon.Add(time.Second)); again != 4 {
		t.Errorf("its own assumption counts against it: %d", again)
	}
	if late := place("x/2", noon.Add(5*time.Minute+time.Second)); late != 4 {
		t.Errorf("after its lifetime %d", late)
	}
	ledger.Forget("x/2")
	if other := place("x/3", noon.Add(6*time.Minute)); other != 4 {
		t.Errorf("after the other is deleted %d", other)
	}
	// When the pods run, the cluster itself shows that its room is used up.
	running := in("x/3", noon.Add(7*time.Minute))
	four := podhealth.Counts{Timeout: act, Existing: 4, Running: 4, Ready: 4}
	running.Clusters[0].Local = Local{Exists: true, Replicas: 4, Written: new(int32(4)), Revision: Revision(&spec), Normal: four, Act: four}
	used := map[string]Resources{"a": {Memory: 1 << 40, Pods: 96}}
	d, err := ledger.Decide(running, used)
	if err != nil || len(d.Writes) != 0 || d.Status.Unplaced != 0 {
		t.Errorf("%+v, %v", d, err)
	}
	if n := len(ledger.assumed["a"]); n != 0 {
		t.Errorf("%d assumptions are left", n)
	}
}

func TestRequestsOf(t *testing.T) {
	got, err := RequestsOf(&v1alpha1.PodTemplate{Spec: half})
	if want := (Resources{MilliCPU: 500, Memory: 1 << 30, Pods: 1}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := RequestsOf(&v1alpha1.PodTemplate{Spec: runtime.RawExtension{Raw: []byte(`{"containers": 1}`)}}); err == nil {
		t.Error("a pod that is none has no error")
	}
}
