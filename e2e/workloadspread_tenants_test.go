package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// What tenants try through WorkloadSpreads, each with a token of its own, against controllers with the
// rights of the manifests.
func TestTenantsOfWorkloadSpreads(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	w := newSpreadCluster(ctx, t)
	apply(ctx, t, w.plane, "../controller/admission")
	t.Run("the workload of somebody else", func(t *testing.T) { workloadOfSomebodyElse(ctx, t, w) })
	t.Run("the owner of a stranger's pods", func(t *testing.T) { ownerOfStrangers(ctx, t, w) })
	t.Run("patches that break pods", func(t *testing.T) { patchesThatBreakPods(ctx, t, w) })
	t.Run("labels outside of the selector", func(t *testing.T) { labelsOutsideOfTheSelector(ctx, t, w) })
}

// allOf is the right to do anything with a resource.
func allOf(group, resource string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{APIGroups: []string{group}, Resources: []string{resource}, Verbs: []string{"*"}}
}

// Who may not update a workload writes no WorkloadSpread for it, whatever that says and whatever version
// it names. A change of anything else than the spec is free, and who may update the workload writes all.
func workloadOfSomebodyElse(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "foreign", zone{"a", 20}, zone{"b", 20})
	m.create(ctx, t, m.web(2))
	spreader := tenantOf(ctx, t, w.plane, w, m.namespace, "spreader", allOf(v1alpha1.Group, "workloadspreads"))
	owner := tenantOf(ctx, t, w.plane, w, m.namespace, "owner", allOf(v1alpha1.Group, "workloadspreads"), allOf("apps", "deployments"))
	until(ctx, t, "the policy is in force", func() bool {
		return apierrors.IsForbidden(spreader.Create(ctx, m.bounded("Deployment", "a 1", "b"), client.DryRunAll))
	})
	change := func(f func(*v1alpha1.WorkloadSpread)) *v1alpha1.WorkloadSpread {
		o := m.bounded("Deployment", "a 1", "b")
		f(o)
		return o
	}
	command := &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"main","command":["sh"]}]}}`)}
	for name, o := range map[string]*v1alpha1.WorkloadSpread{
		"its command": change(func(o *v1alpha1.WorkloadSpread) { o.Spec.Subsets[0].Patch = command }),
		"another version": change(func(o *v1alpha1.WorkloadSpread) {
			o.Spec.TargetRef.APIVersion = "apps/v99"
			o.Spec.Subsets[0].Patch = command
		}),
		"where it runs": change(func(o *v1alpha1.WorkloadSpread) { o.Spec.Subsets = o.Spec.Subsets[:1] }),
		"any toleration": change(func(o *v1alpha1.WorkloadSpread) {
			o.Spec.Subsets[0].Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
		}),
		"its end":          change(func(o *v1alpha1.WorkloadSpread) { o.Spec.WhenFull = v1alpha1.WhenFullRefuse; nothing(o) }),
		"that pods move":   adaptive(m.bounded("Deployment", "a 1", "b"), 2, 120),
		"a kind without s": change(func(o *v1alpha1.WorkloadSpread) { o.Spec.TargetRef.Kind = "StatefulSet" }),
	} {
		if err := spreader.Create(ctx, o, client.DryRunAll); !apierrors.IsForbidden(err) ||
			!strings.Contains(err.Error(), "must be allowed to update its workload") {
			t.Errorf("%s: %v", name, err)
		}
	}
	unserved := change(func(o *v1alpha1.WorkloadSpread) { o.Spec.TargetRef.APIVersion = "apps/v99" })
	refusedAt(t, owner.Create(ctx, unserved, client.DryRunAll), "a version that is not served", "spec.targetRef", "is not served")

	o := m.bounded("Deployment", "a 1", "b")
	if err := owner.Create(ctx, o); err != nil {
		t.Fatal(err)
	}
	changing := func(by client.Client, f func(*v1alpha1.WorkloadSpread), opts ...client.PatchOption) error {
		changed := o.DeepCopy()
		f(changed)
		return by.Patch(ctx, changed, client.MergeFrom(o), opts...)
	}
	if err := changing(spreader, func(o *v1alpha1.WorkloadSpread) { o.Labels = map[string]string{"team": "x"} }); err != nil {
		t.Errorf("a label: %v", err)
	}
	for name, f := range map[string]func(*v1alpha1.WorkloadSpread){
		"no room":         func(o *v1alpha1.WorkloadSpread) { nothing(o); o.Spec.WhenFull = v1alpha1.WhenFullRefuse },
		"another maximum": func(o *v1alpha1.WorkloadSpread) { o.Spec.Subsets[0].MaxReplicas = ptr.To(intstr.FromInt32(2)) },
		"another version": func(o *v1alpha1.WorkloadSpread) { o.Spec.TargetRef.APIVersion = "apps/v2" },
		"other pods of it": func(o *v1alpha1.WorkloadSpread) {
			o.Spec.TargetFilter = &v1alpha1.WorkloadFilter{ReplicasPathList: []string{"spec.replicas"}}
		},
	} {
		if err := changing(spreader, f, client.DryRunAll); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := changing(owner, nothing); err != nil {
		t.Errorf("by who may update the workload: %v", err)
	}
}

// nothing leaves no room in any subset.
func nothing(o *v1alpha1.WorkloadSpread) {
	for i := range o.Spec.Subsets {
		o.Spec.Subsets[i].MaxReplicas = ptr.To(intstr.FromInt32(0))
	}
}

// Who creates pods in a namespace of its own, whose owner has the UID of a stranger's, takes nothing from
// the stranger: its pods go on to be spread.
func ownerOfStrangers(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "stranger", zone{"a", 40}, zone{"b", 40})
	own := w.market(ctx, t, "attacker", zone{"c", 1})
	attacker := tenantOf(ctx, t, w.plane, w, own.namespace, "attacker", allOf("", "pods"))
	own.spread(ctx, t, own.bounded("Deployment", "c"))
	m.spread(ctx, t, m.bounded("Deployment", "a 30", "b"))
	m.create(ctx, t, m.web(1))
	m.counts(ctx, t, "at first", map[string]int{"a": 1})
	first := m.replicas(ctx, t)[0]
	set := metav1.GetControllerOf(&first)
	deployment := &appsv1.Deployment{}
	if err := w.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: "web"}, deployment); err != nil {
		t.Fatal(err)
	}
	above := metav1.OwnerReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: deployment.UID, Controller: ptr.To(true)}
	for i, ref := range []metav1.OwnerReference{*set, above,
		{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: set.UID, Controller: ptr.To(true)},
		// A path to all pods of the cluster, which would be watched until the webhook has no more time.
		{APIVersion: "v1", Kind: "Pod", Name: "../../../watch/pods", UID: set.UID, Controller: ptr.To(true)}} {
		for range 3 { // both servers learn of it
			pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: own.namespace, GenerateName: fmt.Sprint("p", i, "-"),
				OwnerReferences: []metav1.OwnerReference{ref}}}
			pod.Spec.Containers = []v1.Container{{Name: "main", Image: "none"}}
			if err := attacker.Create(ctx, pod); err != nil && (!apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "does not exist")) {
				t.Errorf("a pod of an owner that is not there: %v", err)
			}
		}
	}
	m.resize(ctx, t, 35)
	m.counts(ctx, t, "after the attack", map[string]int{"a": 30, "b": 5})
	m.never(t, map[string]int{"": 0, "a": 30})
}

// resize sets the replicas of the Deployment web.
func (m *market) resize(ctx context.Context, t *testing.T, replicas int) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "web"}}
	if err := m.Patch(ctx, d, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))); err != nil {
		t.Fatal(err)
	}
}

// A patch with which the API server creates no pod is not stored. One that does not fit any more after a change of the
// workload is in the status, and pods do without it if the object says so. The controllers themselves create no
// pod.
func patchesThatBreakPods(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "patched", zone{"a", 20})
	d := m.web(2)
	d.Spec.Template.Spec.Containers[0].Resources.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}
	m.create(ctx, t, d)
	with := func(main string) *v1alpha1.WorkloadSpread {
		o := m.bounded("Deployment", "a")
		o.Spec.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"main",` + main + `}]}}`)}
		o.Spec.WhenPatchFails = v1alpha1.WhenPatchFailsAdmit
		return o
	}
	for name, main := range map[string]string{
		"a limit below the request": `"resources":{"limits":{"cpu":"1"}}`,
		"a volume that is missing":  `"volumeMounts":[{"name":"none","mountPath":"/x"}]`,
	} {
		refusedAt(t, m.Create(ctx, with(main)), name, "spec.subsets[0].patch", "the API server refuses a pod with the patch")
	}
	m.spread(ctx, t, with(`"resources":{"limits":{"cpu":"4"}}`))
	fits := func(want metav1.ConditionStatus) {
		t.Helper()
		until(ctx, t, "the condition about the patch is "+string(want), func() bool {
			o := &v1alpha1.WorkloadSpread{}
			if m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: "web"}, o) != nil || len(o.Status.SubsetStatuses) == 0 {
				return false
			}
			c := meta.FindStatusCondition(o.Status.SubsetStatuses[0].Conditions, v1alpha1.ConditionPatchFits)
			return c != nil && c.Status == want
		})
	}
	fits(metav1.ConditionTrue)
	more := `{"spec":{"template":{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"5"}}}]}}}}`
	if err := m.Patch(ctx, d, client.RawPatch("application/strategic-merge-patch+json", []byte(more))); err != nil {
		t.Fatal(err)
	}
	fits(metav1.ConditionFalse)
	until(ctx, t, "all pods are of the new template", func() bool {
		pods := m.replicas(ctx, t)
		return len(pods) == 2 && !slices.ContainsFunc(pods,
			func(p v1.Pod) bool { return p.Spec.Containers[0].Resources.Requests.Cpu().Value() != 5 || !runs(&p) })
	})
	if got := m.inSubsets(ctx, t); got["a"] != 2 {
		t.Errorf("without the patch the subsets have %v", got)
	}

	config, err := clientcmd.BuildConfigFromFlags("", w.kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	controllers, err := client.New(config, client.Options{Scheme: w.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "own"},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Image: "none"}}}}
	if err := controllers.Create(ctx, pod.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("a dry run of the controllers: %v", err)
	}
	if err := controllers.Create(ctx, pod); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "in dry runs only") {
		t.Errorf("a pod of the controllers: %v", err)
	}
}

// A WorkloadSpread is there before its workload, and its patch has a label by which the workload finds its
// pods. Nobody answers the webhooks, whose failure policy is Ignore: the controller finds the pods later,
// and leaves the label as it is.
func labelsOutsideOfTheSelector(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "outside", zone{"a", 20})
	o := m.bounded("Deployment", "a")
	o.Spec.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"app":"other","of":"a"},"annotations":{"x":"y"}}}`)}
	m.spread(ctx, t, o)
	ignore := `[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]`
	if err := w.Patch(ctx, &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooksName}},
		client.RawPatch("application/json-patch+json", []byte(ignore))); err != nil {
		t.Fatal(err)
	}
	for _, s := range w.servers {
		s.Kill()
	}
	evenkeel.StartController(t, evenkeel.ControllerOptions{Kubeconfig: w.kubeconfig, Args: []string{"--controllers=workloadspread"}})
	d := m.web(3)
	d.Spec.Template.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: m.node("a")}
	m.create(ctx, t, d)
	m.counts(ctx, t, "once they are classified", map[string]int{"a": 3})
	before := m.replicas(ctx, t)
	for _, p := range before {
		if p.Labels["app"] == "other" || metav1.GetControllerOf(&p) == nil {
			t.Errorf("pod %s has labels %v, owners %v", p.Name, p.Labels, p.OwnerReferences)
		}
	}
	m.resize(ctx, t, 4)
	m.counts(ctx, t, "with one more", map[string]int{"a": 4})
	var all v1.PodList
	if err := m.List(ctx, &all, client.InNamespace(m.namespace)); err != nil || len(all.Items) != 4 {
		t.Errorf("%d pods: %v", len(all.Items), err)
	}
}
