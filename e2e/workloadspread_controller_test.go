package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// The controller of WorkloadSpreads with the real controllers of workloads and no webhook, and with no
// more rights than the manifests give it.
func TestWorkloadSpreadController(t *testing.T) {
	t.Parallel()
	ctx := t.Context() // parts wait for their turn before they begin, and each wait has a limit of its own
	w := newBalancerCluster(ctx, t)
	evenkeel.StartController(t, evenkeel.ControllerOptions{Kubeconfig: w.kubeconfig, Args: []string{"--controllers=workloadspread"}})
	t.Run("scale-down", func(t *testing.T) { emptiedFromTheEnd(ctx, t, w) })
}

// admissionGate holds pods until a test lets them go, as if a webhook had seen them.
const admissionGate = "example.com/gate"

// gated is a Deployment of pods that are held.
func (s *shop) gated(replicas int32) *appsv1.Deployment {
	d := s.deployment("web")
	d.Spec.Replicas = &replicas
	d.Spec.Template.Spec.NodeSelector = nil
	d.Spec.Template.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: admissionGate}}
	return d
}

// admit lets a pod go to a zone, as a pod of a subset of its name; an empty subset is none.
func (s *shop) admit(ctx context.Context, t *testing.T, pod *v1.Pod, zone, subset string) {
	t.Helper()
	before := pod.DeepCopy()
	pod.Spec.SchedulingGates = nil
	pod.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: s.node(zone)}
	if subset != "" {
		if pod.Annotations == nil {
			pod.Annotations = map[string]string{}
		}
		pod.Annotations[workloadspread.AnnotationSpread] = workloadspread.Assignment{Name: "web", Subset: subset}.String()
	}
	if err := s.Patch(ctx, pod, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func (s *shop) replicas(ctx context.Context, t *testing.T) []v1.Pod {
	t.Helper()
	var list v1.PodList
	if err := s.List(ctx, &list, client.InNamespace(s.namespace)); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(p v1.Pod) bool { return p.DeletionTimestamp != nil })
}

// held waits for so many pods that wait to be admitted.
func (s *shop) held(ctx context.Context, t *testing.T, n int) (held []v1.Pod) {
	t.Helper()
	until(ctx, t, fmt.Sprint(n, " pods wait"), func() bool {
		held = slices.DeleteFunc(s.replicas(ctx, t), func(p v1.Pod) bool { return len(p.Spec.SchedulingGates) == 0 })
		return len(held) == n
	})
	return held
}

func (s *shop) spreadOver(zones ...string) *v1alpha1.WorkloadSpread {
	o := &v1alpha1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	o.Spec.TargetRef = v1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	for _, z := range zones {
		o.Spec.Subsets = append(o.Spec.Subsets, v1alpha1.WorkloadSubset{Name: z, RequiredNodeSelector: &v1.NodeSelectorTerm{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{s.node(z)}}},
		}})
	}
	return o
}

func (s *shop) filled(ctx context.Context, t *testing.T, want string) {
	t.Helper()
	o := &v1alpha1.WorkloadSpread{}
	until(ctx, t, "the status is "+want, func() bool {
		err := s.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: "web"}, o)
		return err == nil && o.Status.Filled == want
	})
}

func (s *shop) scaleTo(ctx context.Context, t *testing.T, replicas int32) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"}}
	if err := s.Patch(ctx, d, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))); err != nil {
		t.Fatal(err)
	}
}

// byZone are the pods in each zone.
func (s *shop) byZone(ctx context.Context, t *testing.T) map[string]int {
	t.Helper()
	n := map[string]int{}
	for _, p := range s.replicas(ctx, t) {
		n[p.Spec.NodeSelector[v1.LabelTopologyZone]]++
	}
	return n
}

// Pods that nobody admitted are found by their nodes, and the real controller of ReplicaSets deletes
// first the surplus, then the last subset.
func emptiedFromTheEnd(ctx context.Context, t *testing.T, w *balancerCluster) {
	s := w.open(ctx, t, "scaledown", zone{"a", 110}, zone{"b", 110})
	s.create(ctx, t, s.gated(8))
	for i, pod := range s.held(ctx, t, 8) {
		s.admit(ctx, t, &pod, string("aaaaabbb"[i]), "")
	}
	o := s.spreadOver("a", "b")
	o.Spec.Subsets[0].MaxReplicas = ptr.To(intstr.FromInt32(4))
	s.create(ctx, t, o)
	s.filled(ctx, t, "a 5/4, b 3/-")
	costs := func() map[string]int {
		n := map[string]int{}
		for _, p := range s.replicas(ctx, t) {
			n[p.Annotations[workloadspread.AnnotationCost]]++
		}
		return n
	}
	until(ctx, t, "the costs are written", func() bool { return maps.Equal(costs(), map[string]int{"200": 4, "-100": 1, "100": 3}) })
	for _, step := range []struct{ replicas, a, b int32 }{{7, 4, 3}, {5, 4, 1}, {3, 3, 0}} {
		until(ctx, t, "all pods run", func() bool { // those that do not are deleted first
			return !slices.ContainsFunc(s.replicas(ctx, t), func(p v1.Pod) bool { return !runs(&p) })
		})
		s.scaleTo(ctx, t, step.replicas)
		until(ctx, t, fmt.Sprint(step.replicas, " pods are left"), func() bool { return len(s.replicas(ctx, t)) == int(step.replicas) })
		if got := s.byZone(ctx, t); got[s.node("a")] != int(step.a) || got[s.node("b")] != int(step.b) {
			t.Errorf("with %d replicas there are %v", step.replicas, got)
		}
		s.filled(ctx, t, fmt.Sprintf("a %d/4, b %d/-", step.a, step.b))
	}
}
