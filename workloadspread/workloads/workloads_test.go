package workloads_test

import (
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/owners"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

func controlledBy(kind, name, uid string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: types.UID(uid), Controller: new(true)}}
}

// A pod belongs to the first WorkloadSpread that selects it and whose workload is really above it: a reference that
// has the UID of another controller, or its name, hides that one from nobody, and takes no seat.
func TestPodsOfAWorkload(t *testing.T) {
	pod := func(name, controller, uid string) *v1.Pod {
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web", "pod": name},
			OwnerReferences: controlledBy("ReplicaSet", controller, uid)}}
	}
	of := func(name, kind, workload string) *v1alpha1.WorkloadSpread {
		o := spread()
		o.Name, o.Spec.TargetRef = name, v1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: kind, Name: workload}
		return o
	}
	alone := pod("alone", "web-1", "r1")
	alone.OwnerReferences = nil
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1.AddToScheme, appsv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	first, web := of("first", "ReplicaSet", "web-1"), of("web", "Deployment", "web")
	first.Spec.TargetFilter = &v1alpha1.WorkloadFilter{Selector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pod": "taken"}}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		first, web, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "d"}},
		&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "r1",
			OwnerReferences: controlledBy("Deployment", "web", "d")}},
		alone, pod("a-made-up", "made-up", "r1"), pod("another-uid", "web-1", "r2"), pod("own", "web-1", "r1"), pod("taken", "web-1", "r1"),
		pod("z-made-up", "made-up", "r1"),
	).Build()
	r := workloads.Reader{Spreads: c, Pods: c, Owners: owners.New(c, nil)}
	for _, selector := range []labels.Selector{nil, labels.SelectorFromSet(labels.Set{"app": "web"})} {
		pods, ahead, err := r.PodsOf(t.Context(), web, selector)
		if err != nil || len(pods) != 1 || pods[0].Name != "own" || fmt.Sprint(ahead) != "[first]" {
			t.Errorf("%v, ahead %v, %v", pods, ahead, err)
		}
	}
	if pods, _, err := r.PodsOf(t.Context(), web, labels.SelectorFromSet(labels.Set{"app": "api"})); err != nil || len(pods) > 0 {
		t.Errorf("of another selector: %v, %v", pods, err)
	}
}
