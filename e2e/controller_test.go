package e2e

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
)

// What the manifests of the controllers install, in a real cluster.
func TestControllerIsInstalled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	plane := controlplane.Start(t, controlplane.Options{Audit: true})
	c := balancerClient(ctx, t, plane)
	apply(ctx, t, plane, "../controller/rbac")
	t.Run("manifests", func(t *testing.T) {
		dryRun(ctx, t, plane, 50, "../controller/deploy", "../controller/ignore", "../controller/certificates", "../controller/namespaced",
			"../controller/kinds", "../controller/monitoring")
	})
	t.Run("users", func(t *testing.T) { usersMay(ctx, t, c) })
	t.Run("admission", func(t *testing.T) { whoMayScaleTargets(ctx, t, plane, c) })
	t.Run("namespaced", func(t *testing.T) { inOneNamespace(ctx, t, plane, c) })
	t.Run("metrics", func(t *testing.T) { metricsAreForThoseWhoMay(ctx, t, plane, c) })
}

// Who may edit or view the objects of a namespace may do so with Balancers.
func usersMay(ctx context.Context, t *testing.T, c client.Client) {
	for role, verb := range map[string]string{"admin": "delete", "edit": "patch", "view": "watch"} {
		until(ctx, t, role+" may "+verb+" Balancers", func() bool {
			var r rbacv1.ClusterRole
			return c.Get(ctx, client.ObjectKey{Name: role}, &r) == nil && slices.ContainsFunc(r.Rules, func(rule rbacv1.PolicyRule) bool {
				return slices.Contains(rule.Resources, "balancers") && slices.Contains(rule.Verbs, verb)
			})
		})
	}
	var view rbacv1.ClusterRole
	if err := c.Get(ctx, client.ObjectKey{Name: "view"}, &view); err != nil {
		t.Fatal(err)
	}
	for _, rule := range view.Rules {
		if slices.Contains(rule.Resources, "balancers") &&
			slices.ContainsFunc(rule.Verbs, func(verb string) bool { return !slices.Contains([]string{"get", "list", "watch"}, verb) }) {
			t.Errorf("who may view may %v", rule.Verbs)
		}
	}
}

// A controller of one namespace needs no right in any other, and leaves them alone.
func inOneNamespace(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, c client.Client) {
	bound := 0
	for _, o := range read(t, "../controller/namespaced") {
		if o.GetKind() == "RoleBinding" && o.GetNamespace() == metav1.NamespaceDefault && o.GetName() != "evenkeel-controller-members" {
			if err := c.Create(ctx, o); err != nil {
				t.Fatal(err)
			}
			bound++
		}
	}
	if bound != 2 {
		t.Fatalf("%d bindings in the namespace", bound)
	}
	if err := c.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "other"}}); err != nil {
		t.Fatal(err)
	}
	for _, namespace := range []string{"other", metav1.NamespaceDefault} {
		for _, o := range []client.Object{emptyDeployment(namespace, "a"), emptyDeployment(namespace, "b"), twoTargets(namespace)} {
			if err := c.Create(ctx, o); err != nil {
				t.Fatal(err)
			}
		}
	}
	const user = "system:serviceaccount:evenkeel-system:evenkeel-controller"
	kubeconfig := plane.KubeconfigAs(t, user, "system:serviceaccounts", "system:authenticated")
	controller := evenkeel.StartController(t, evenkeel.ControllerOptions{Kubeconfig: kubeconfig,
		Args: []string{"--namespace=default", "--logging-format=json"}})
	sizes := func(namespace string) []int32 {
		var found []int32
		for _, name := range []string{"a", "b"} {
			var d appsv1.Deployment
			if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &d); err != nil {
				t.Fatal(err)
			}
			found = append(found, *d.Spec.Replicas)
		}
		return found
	}
	until(ctx, t, "the Balancer of its namespace is kept", func() bool { return slices.Equal(sizes(metav1.NamespaceDefault), []int32{3, 2}) })
	if got := sizes("other"); !slices.Equal(got, []int32{0, 0}) {
		t.Errorf("in another namespace targets were given %v", got)
	}
	written := map[string]int{}
	until(ctx, t, "all that it has a right to write is written", func() bool {
		writes, err := plane.Writes(user, 0)
		if err != nil {
			t.Fatal(err)
		}
		clear(written)
		for _, w := range writes {
			if w.Code == http.StatusForbidden {
				t.Fatalf("it may not %s %s/%s %s", w.Verb, w.Resource, w.Subresource, w.Namespace)
			}
			written[w.Namespace+" "+w.Verb+" "+w.Resource+"/"+w.Subresource]++
		}
		return written["default update deployments/scale"] >= 2 && written["default patch balancers/status"] > 0 &&
			written["default create events/"] > 0 && written["evenkeel-system create leases/"] > 0 && written["evenkeel-system create events/"] > 0
	})
	if err := controller.Stop(); err != nil {
		t.Error(err)
	}
}

// emptyDeployment has no replicas.
func emptyDeployment(namespace, name string) *appsv1.Deployment {
	of := map[string]string{"app": "web", "target": name}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	d.Spec.Replicas = ptr.To[int32](0)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: of}
	d.Spec.Template.Labels = of
	d.Spec.Template.Spec.Containers = []v1.Container{{Name: "main", Image: "none"}}
	return d
}

// twoTargets is a Balancer that shares five replicas among two Deployments.
func twoTargets(namespace string) *v1alpha1.Balancer {
	b := &v1alpha1.Balancer{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
	b.Spec.Replicas = ptr.To[int32](5)
	b.Spec.Selector = v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "web"}}
	for _, name := range []string{"a", "b"} {
		b.Spec.Targets = append(b.Spec.Targets, v1alpha1.BalancerTarget{Name: name,
			ScaleTargetRef: v1alpha1.ScaleTargetReference{Kind: "Deployment", Name: name}})
	}
	b.Spec.Policy.PolicyName = v1alpha1.ProportionalPolicyName
	b.Spec.Policy.Proportions = &v1alpha1.ProportionalPolicy{TargetProportions: map[string]int32{"a": 1, "b": 1}}
	return b
}
