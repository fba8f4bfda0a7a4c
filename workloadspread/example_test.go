package workloadspread_test

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

var now = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// spread has eight pods on normal machines, and the rest on elastic ones.
func spread() *v1alpha1.WorkloadSpreadSpec {
	return &v1alpha1.WorkloadSpreadSpec{
		TargetRef: v1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		Subsets: []v1alpha1.WorkloadSubset{
			{Name: "normal", MaxReplicas: new(intstr.FromInt32(8)), RequiredNodeSelector: machines("normal")},
			{Name: "elastic", RequiredNodeSelector: machines("elastic")},
		},
	}
}

func machines(kind string) *v1.NodeSelectorTerm {
	return &v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "machines", Operator: v1.NodeSelectorOpIn,
		Values: []string{kind}}}}
}

// Two subsets with a base of two, then 20/80, at some numbers of replicas.
func ExampleLimits() {
	spec := &v1alpha1.WorkloadSpreadSpec{
		Distribution: v1alpha1.DistributeWeighted,
		Subsets: []v1alpha1.WorkloadSubset{
			{Name: "on-demand", Base: new(int32(2)), Weight: new(int32(20))},
			{Name: "spot", Weight: new(int32(80))},
		},
	}
	for _, replicas := range []int32{1, 2, 7, 12, 102} {
		fmt.Println(replicas, workloadspread.Limits(spec, replicas, nil))
	}
	// Output:
	// 1 [1 0]
	// 2 [2 0]
	// 7 [3 4]
	// 12 [4 8]
	// 102 [22 80]
}

// The ninth pod finds the first subset full.
func ExampleAdmit() {
	status := &v1alpha1.WorkloadSpreadStatus{}
	for i := range 9 {
		a := workloadspread.Admit(workloadspread.State{
			Spec: spread(), Status: status, Workload: workloadspread.Workload{Found: true, Replicas: 9}, Now: now,
		}, workloadspread.NewPod{ID: fmt.Sprint("web-", i), Revision: workloadspread.OneRevision})
		status = a.Status
		if i >= 7 {
			fmt.Println(spread().Subsets[a.Subset].Name, a.Changed)
		}
	}
	// Output:
	// normal true
	// elastic false
}

// A pod that is being deleted makes room for the one that replaces it.
func ExampleRecount() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-3", Annotations: map[string]string{
		workloadspread.AnnotationSpread: workloadspread.Assignment{Name: "web", Subset: "normal"}.String(),
	}}}
	for _, deleted := range []*metav1.Time{nil, {Time: now}} {
		pod.DeletionTimestamp = deleted
		status, _ := workloadspread.Recount(workloadspread.State{
			Spec: spread(), Workload: workloadspread.Workload{Found: true, Replicas: 9}, Now: now, Status: &v1alpha1.WorkloadSpreadStatus{},
		}, "web", workloadspread.OneRevision, []*v1.Pod{pod})
		fmt.Println(status.Filled)
	}
	// Output:
	// normal 1/8, elastic 0/-
	// normal 0/8, elastic 0/-
}

func ExampleInject() {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-"}}
	pod, err := workloadspread.Inject(pod, &spread().Subsets[1], workloadspread.Assignment{Name: "web", Subset: "elastic", ID: "1"}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pod.Annotations[workloadspread.AnnotationSpread])
	fmt.Println(pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchExpressions)
	// Output:
	// {"name":"web","subset":"elastic","id":"1"}
	// [{machines In [elastic]}]
}

// Nobody has counted yet, and one of two pods is surplus.
func ExampleDecide() {
	spec := spread()
	spec.Subsets[0].MaxReplicas = new(intstr.FromInt32(1))
	in := workloadspread.Input{Name: "web", State: workloadspread.State{
		Spec: spec, Status: &v1alpha1.WorkloadSpreadStatus{}, Workload: workloadspread.Workload{Found: true, Replicas: 2}, Now: now,
	}}
	for _, name := range []string{"web-1", "web-2"} {
		a := workloadspread.Assignment{Name: "web", Subset: "normal"}
		in.Pods = append(in.Pods, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name,
			Annotations: map[string]string{workloadspread.AnnotationSpread: a.String()}}})
	}
	d := workloadspread.Decide(in)
	fmt.Println(d.Status.Filled)
	for _, c := range d.Costs {
		fmt.Println(c.Pod.Name, c.Cost)
	}
	// Output:
	// normal 2/1, elastic 0/-
	// web-1 200
	// web-2 -100
}

func ExampleValidate() {
	spec := spread()
	spec.Subsets[1].MaxReplicas = new(intstr.FromString("40%"))
	fmt.Println(workloadspread.Validate(spec, nil).ToAggregate())
	// Output: spec.subsets[1].maxReplicas: Invalid value: "40%": must be a number in all subsets, or a percentage in all subsets
}

// A Job needs no more pods than completions are missing.
func ExampleObserve() {
	spec := &v1alpha1.WorkloadSpreadSpec{TargetRef: v1alpha1.WorkloadReference{APIVersion: "batch/v1", Kind: "Job", Name: "sum"}}
	job := map[string]any{
		"spec":   map[string]any{"parallelism": int64(5), "completions": int64(20)},
		"status": map[string]any{"succeeded": int64(17)},
	}
	w, err := workloadspread.Observe(spec, job)
	fmt.Println(w.Replicas, err)
	// Output: 3 <nil>
}

// The pods of a StatefulSet go by ordinal, and keep their subset whatever its size is.
func ExampleSubsetOfOrdinal() {
	for _, ordinal := range []int32{0, 7, 8} {
		fmt.Println(ordinal, spread().Subsets[workloadspread.SubsetOfOrdinal(spread(), ordinal, nil)].Name)
	}
	// Output:
	// 0 normal
	// 7 normal
	// 8 elastic
}
