package workloadspread

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// An Indexed Job runs to its end, with pods that fail and come again under their index: no more than
// two of them are in the first subset at a time, which is used as long as there is work for it.
func TestIndexedJobRunsToItsEnd(t *testing.T) {
	const completions, parallelism = 20, 5
	for seed := range uint64(50) {
		r := rand.New(rand.NewPCG(seed, 14))
		spec := deployment("2", "")
		spec.TargetRef.APIVersion, spec.TargetRef.Kind = "batch/v1", "Job"
		object := map[string]any{"spec": map[string]any{"parallelism": int64(parallelism), "completions": int64(completions),
			"completionMode": "Indexed"}, "status": map[string]any{}}
		w := newFakeCluster(t, spec, 0)
		running, done := map[int]*v1.Pod{}, map[int]bool{}
		for step := 0; len(done) < completions; step++ {
			if step > 200 {
				t.Fatalf("seed %d: %d of %d are done", seed, len(done), completions)
			}
			object["status"].(map[string]any)["succeeded"] = int64(len(done))
			workload, err := Observe(spec, object)
			if err != nil || workload.Replicas != min(parallelism, int32(completions-len(done))) {
				t.Fatalf("%+v, %v", workload, err)
			}
			state := func() State { return State{Spec: spec, Status: &w.stored, Workload: workload, Now: w.now} }
			for index := 0; index < completions && len(running) < int(workload.Replicas); index++ {
				if done[index] || running[index] != nil {
					continue
				}
				id := fmt.Sprintf("%d-%d", index, step)
				a := Admit(state(), NewPod{ID: id, Revision: OneRevision, Ordinal: int32(index)})
				if a.Refused || a.Subset < 0 {
					t.Fatalf("seed %d: index %d: %s", seed, index, a.Message)
				}
				if a.Changed {
					w.store(a.Status)
				}
				pod := &v1.Pod{}
				pod.Name, pod.UID, pod.CreationTimestamp = fmt.Sprintf("job-%d-x%d", index, step), types.UID(id), stamp(w.now)
				if pod, err = Inject(pod, &spec.Subsets[a.Subset], Assignment{Name: "spread", Subset: spec.Subsets[a.Subset].Name, ID: id},
					nil); err != nil {
					t.Fatal(err)
				}
				pod.Spec.NodeName, pod.Status.Phase = "n", v1.PodRunning
				running[index] = pod
			}
			first := 0
			var pods []*v1.Pod
			for index, pod := range running {
				if a, _ := AssignmentOf(pod); a.Subset == "a" {
					first++
				}
				switch r.IntN(6) {
				case 0: // it fails, and comes again
					pod.Status.Phase = v1.PodFailed
					delete(running, index)
				case 1, 2:
					pod.Status.Phase = v1.PodSucceeded
					done[index] = true
					delete(running, index)
				}
				pods = append(pods, pod)
			}
			if want := min(2, len(pods)); first > 2 || step == 0 && first != want {
				t.Fatalf("seed %d: subset a has %d pods", seed, first)
			}
			d := Decide(Input{Name: "spread", State: state(), Pods: pods})
			if len(d.Costs)+len(d.Delete) > 0 {
				t.Fatalf("seed %d: %+v", seed, d)
			}
			w.store(d.Status)
			w.now = w.now.Add(time.Second)
		}
	}
}
