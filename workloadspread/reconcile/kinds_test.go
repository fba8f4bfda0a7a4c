package reconcile

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// targeting is a WorkloadSpread of a workload called web.
func targeting(version, kind string, subsets ...v1alpha1.WorkloadSubset) *v1alpha1.WorkloadSpread {
	s := spreadOver(subsets...)
	s.Spec.TargetRef = v1alpha1.WorkloadReference{APIVersion: version, Kind: kind, Name: "web"}
	return s
}

// ownedBy is a pod of a controller, in a subset.
func ownedBy(version, kind, name, pod, subset string) *v1.Pod {
	p := replica(0, "", subset)
	p.Name, p.UID, p.Labels = pod, types.UID(pod), map[string]string{"app": "web"}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: name, UID: types.UID(name), Controller: new(true)}}
	return p
}

// orderedDown is the condition about the order of the scale-down.
func orderedDown(b *harness) string {
	return meta.FindStatusCondition(b.get().Status.Conditions, v1alpha1.ConditionScaleDownOrdered).Reason
}

// Of a StatefulSet in the middle of an update with a partition, pods count in the subset of their
// ordinal, and no deletion costs are written, which its controller does not read.
func TestStatefulSet(t *testing.T) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	set.Spec.Replicas, set.Spec.Ordinals = new(int32(4)), &appsv1.StatefulSetOrdinals{Start: 3}
	set.Status.UpdateRevision = "web-2"
	objects := []client.Object{set, targeting("apps/v1", "StatefulSet", subset("a", "2"), subset("b", ""))}
	for i := range 4 {
		pod := ownedBy("apps/v1", "StatefulSet", "web", fmt.Sprint("web-", 3+i), string("aabb"[i]))
		pod.Labels["controller-revision-hash"] = fmt.Sprint("web-", 1+i/2)
		objects = append(objects, pod)
	}
	b := newHarness(t, objects...)
	b.mustPass()
	s := b.get().Status
	if s.Filled != "a 2/2, b 2/-" || s.Replicas != 4 || len(s.VersionedSubsetStatuses) != 2 ||
		orderedDown(b) != workloadspread.ReasonByOrdinal {
		t.Errorf("the status is %+v", s)
	}
	if got := b.written(); got != "status" {
		t.Errorf("wrote %s", got)
	}
}

// Of an Indexed Job the pods that have succeeded make room, and as many pods as completions are
// missing are asked for.
func TestIndexedJob(t *testing.T) {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	job.Spec.Parallelism, job.Spec.Completions, job.Spec.CompletionMode = new(int32(4)), new(int32(6)), new(batchv1.IndexedCompletion)
	job.Status.Succeeded = 3
	objects := []client.Object{job, targeting("batch/v1", "Job", subset("a", "50%"), subset("b", ""))}
	for i := range 6 {
		pod := ownedBy("batch/v1", "Job", "web", fmt.Sprintf("web-%d-x", i), string("ababab"[i]))
		if i < 3 {
			pod.Status.Phase = v1.PodSucceeded
		}
		objects = append(objects, pod)
	}
	b := newHarness(t, objects...)
	b.mustPass()
	if s := b.get().Status; s.Filled != "a 1/2, b 2/-" || s.Replicas != 3 || orderedDown(b) != workloadspread.ReasonNotRead {
		t.Errorf("the status is %+v", s)
	}
	if got := b.written(); got != "status" {
		t.Errorf("wrote %s", got)
	}
}

// Any kind is a workload that owns pods at whatever distance; the filter leaves some of them out.
func TestAnyKindByItsPaths(t *testing.T) {
	s := targeting("example.com/v1beta1", "Rollout", subset("a", "50%"), subset("b", "")) // a version that is not served any more
	s.Spec.TargetFilter = &v1alpha1.WorkloadFilter{
		ReplicasPathList: []string{"spec.pools.0.size", "spec.pools.1.size"},
		Selector:         &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "web"}},
	}
	object := &unstructured.Unstructured{Object: map[string]any{
		"metadata": map[string]any{"namespace": "shop", "name": "web", "uid": "web"},
		"spec":     map[string]any{"pools": []any{map[string]any{"size": int64(3)}, map[string]any{"size": int64(5)}}},
	}}
	object.SetGroupVersionKind(rollout)
	set := replicaSet("r1", 1)
	set.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "Rollout", Name: "web", UID: "web",
		Controller: new(true)}}
	left := replica(3, "r1", "a")
	left.Labels["app"] = "canary"
	b := newHarness(t, s, object, set, replica(1, "r1", "a"), replica(2, "r1", "b"), left,
		ownedBy("example.com/v1", "Rollout", "web", "direct", "b"),
		ownedBy("example.com/v1", "Rollout", "other", "foreign", "b"))
	b.mustPass()
	if s := b.get().Status; s.Filled != "a 1/4, b 2/-" || s.Replicas != 8 || orderedDown(b) != workloadspread.ReasonNotRead {
		t.Errorf("the status is %+v", s)
	}
}

// In a rollout the newest ReplicaSet counts, also after a rollback, which makes an old one the newest:
// the old pods of the first subset go first while the rollout makes progress.
func TestCostsTurnAroundInARollout(t *testing.T) {
	objects := append(deployed(4), spreadOver(subset("a", "2"), subset("b", "")), replicaSet("r2", 2))
	for i := range 4 {
		objects = append(objects, replica(i, "r1", string("aabb"[i])))
	}
	objects = append(objects, replica(9, "r2", "a"))
	for _, o := range objects {
		if pod, ok := o.(*v1.Pod); ok {
			pod.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon)
		}
	}
	b := newHarness(t, objects...)
	b.mustPass()
	if got := b.costs(); got != "100 100 200 200 200" {
		t.Errorf("the costs are %s", got)
	}
	set := &appsv1.ReplicaSet{}
	if err := b.server.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "web-r1"}, set); err != nil {
		t.Fatal(err)
	}
	set.Annotations[revisionAnnotation] = "3"
	if err := b.server.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	b.mustPass()
	if got := b.costs(); got != "200 200 100 100 100" {
		t.Errorf("the costs are %s", got)
	}
}
