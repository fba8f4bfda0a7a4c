package e2e

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/e2e/process"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// A newcomer: the commands of the section "Install" of docs/workloadspread.md, as they are written. The API server
// refuses WorkloadSpreads until the webhooks answer, for which the second command waits; afterwards no pod is in no
// subset. What was stored before the webhooks were installed is checked then, and says what is wrong.
func TestWorkloadSpreadsAreInstalledAsThePageSays(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	plane := controlplane.Start(t, controlplane.Options{})
	c := balancerClient(ctx, t, plane)
	stored := storedBefore(ctx, t, c)
	page, err := os.ReadFile("../docs/workloadspread.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Install\n")
	_, block, _ := strings.Cut(section, "\n```sh\n")
	block, _, _ = strings.Cut(block, "\n```\n")
	if lines := strings.Split(block, "\n"); len(lines) != 4 || !strings.Contains(lines[1], "rollout status") {
		t.Fatalf("the commands are %q", lines)
	}
	type result struct {
		lines []string
		err   error
	}
	done := make(chan result, 1)
	go func() {
		lines, err := newKubectl(t, plane, c, metav1.NamespaceDefault).run(ctx, "set -e\n"+block)
		done <- result{lines, err}
	}()
	startsWhereItIsInstalled(ctx, t, plane, c)
	got := <-done
	if got.err != nil {
		t.Fatal(got.err)
	}
	t.Logf("%s", strings.Join(got.lines, "\n"))
	if !slices.ContainsFunc(got.lines, func(line string) bool {
		return strings.HasPrefix(line, "shop ") && strings.Contains(line, "Deployment")
	}) {
		t.Error("kubectl get ews does not show the WorkloadSpread")
	}
	in := map[string]int{}
	until(ctx, t, "there are ten pods", func() bool {
		var pods v1.PodList
		if err := c.List(ctx, &pods, client.InNamespace(metav1.NamespaceDefault), client.MatchingLabels{"app": "shop"}); err != nil {
			t.Fatal(err)
		}
		clear(in)
		for i := range pods.Items {
			a, _ := workloadspread.AssignmentOf(&pods.Items[i])
			in[a.Subset]++
		}
		return len(pods.Items) == 10
	})
	if in["normal"] != 8 || in["elastic"] != 2 {
		t.Errorf("the pods are in %v", in)
	}
	says(ctx, t, c, stored[0], func(o *v1alpha1.WorkloadSpread) []metav1.Condition { return o.Status.Conditions }, v1alpha1.ConditionSpecValid,
		"must not change spec.nodeName")
	says(ctx, t, c, stored[1], func(o *v1alpha1.WorkloadSpread) (all []metav1.Condition) {
		for _, s := range o.Status.SubsetStatuses {
			all = append(all, s.Conditions...)
		}
		return all
	}, v1alpha1.ConditionPatchFits, "must be less than or equal to cpu limit")
	again := stored[0].DeepCopy()
	again.ObjectMeta = metav1.ObjectMeta{Namespace: again.Namespace, Name: "again"}
	if err := c.Create(ctx, again); err == nil || !strings.Contains(err.Error(), "must not change spec.nodeName") {
		t.Errorf("the same one now: %v", err)
	}
}

// storedBefore are WorkloadSpreads that nobody has checked: one whose patch is never allowed, and one whose patch the
// API server refuses in the pods of its workload.
func storedBefore(ctx context.Context, t *testing.T, c client.Client) []*v1alpha1.WorkloadSpread {
	t.Helper()
	of := map[string]string{"app": "ledger"}
	ledger := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "ledger"}}
	ledger.Spec.Replicas, ledger.Spec.Selector, ledger.Spec.Template.Labels = ptr.To[int32](0), &metav1.LabelSelector{MatchLabels: of}, of
	ledger.Spec.Template.Spec.Containers = []v1.Container{{Name: "main", Image: "none"}}
	objects := []client.Object{ledger}
	var stored []*v1alpha1.WorkloadSpread
	for name, patch := range map[string]string{
		"never":   `{"spec":{"nodeName":"n"}}`,
		"refused": `{"spec":{"containers":[{"name":"main","resources":{"requests":{"cpu":"2"},"limits":{"cpu":"1"}}}]}}`,
	} {
		o := &v1alpha1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
		o.Spec.TargetRef = v1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "ledger"}
		if name == "never" {
			o.Spec.TargetRef.Name = "nothing"
		}
		o.Spec.Subsets = []v1alpha1.WorkloadSubset{{Name: "a", Patch: &runtime.RawExtension{Raw: []byte(patch)}}}
		stored, objects = append(stored, o), append(objects, o)
	}
	for _, o := range objects {
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(stored, func(a, b *v1alpha1.WorkloadSpread) int { return strings.Compare(a.Name, b.Name) })
	return stored
}

// startsWhereItIsInstalled plays the network and the node of the controllers: the webhooks lead to a process instead of the
// Service, and the node is there when the process is ready, so that the pods are ready then, and not before.
func startsWhereItIsInstalled(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, c client.Client, args ...string) *evenkeel.Controller {
	t.Helper()
	service := newOneAddress(ctx, t)
	url := "https://" + service.Addr().String()
	m, v := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	until(ctx, t, "the manifests are applied", func() bool {
		controllers := client.ObjectKey{Namespace: "evenkeel-system", Name: "evenkeel-controller"}
		name := client.ObjectKey{Name: webhooksName}
		return c.Get(ctx, controllers, &appsv1.Deployment{}) == nil && c.Get(ctx, name, m) == nil && c.Get(ctx, name, v) == nil
	})
	leads := func(to *admissionv1.WebhookClientConfig) {
		to.URL, to.Service = ptr.To(url+*to.Service.Path), nil
	}
	leads(&m.Webhooks[0].ClientConfig)
	leads(&v.Webhooks[0].ClientConfig)
	for _, o := range []client.Object{m, v} {
		if err := c.Update(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	until(ctx, t, "a WorkloadSpread is refused that nobody checks", func() bool {
		err := c.Create(ctx, changedSpread(t, `metadata: {namespace: default, name: early}`), client.DryRunAll)
		return err != nil && strings.Contains(err.Error(), "workloadspreads.evenkeel.dev")
	})
	address := process.FreeAddress(t)
	service.add(address)
	kubeconfig := plane.KubeconfigAs(t, "system:serviceaccount:evenkeel-system:evenkeel-controller", "system:serviceaccounts",
		"system:authenticated")
	started := evenkeel.StartController(t, evenkeel.ControllerOptions{Kubeconfig: kubeconfig,
		Args: append([]string{"--webhook-address=" + address, "--webhook-host=" + process.Loopback}, args...)})
	if err := plane.AddNodes(ctx, roomy("controllers")); err != nil {
		t.Fatal(err)
	}
	return started
}

// says waits until a condition of a WorkloadSpread is False with a message.
func says(ctx context.Context, t *testing.T, c client.Client, o *v1alpha1.WorkloadSpread,
	of func(*v1alpha1.WorkloadSpread) []metav1.Condition, kind, message string) {
	t.Helper()
	until(ctx, t, o.Name+" says what is wrong", func() bool {
		if err := c.Get(ctx, client.ObjectKeyFromObject(o), o); err != nil {
			t.Fatal(err)
		}
		is := meta.FindStatusCondition(of(o), kind)
		return is != nil && is.Status == metav1.ConditionFalse && strings.Contains(is.Message, message)
	})
}
