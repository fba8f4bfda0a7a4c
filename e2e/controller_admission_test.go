package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// A user who may write Balancers makes the controller scale only what the user may scale.
func whoMayScaleTargets(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, c client.Client) {
	apply(ctx, t, plane, "../controller/admission")
	const namespace = "deputy"
	if err := c.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	scale := func(resources []string, names ...string) []rbacv1.PolicyRule {
		return []rbacv1.PolicyRule{
			{APIGroups: []string{"apps", "example.com"}, Resources: resources, ResourceNames: names, Verbs: []string{"update"}},
			{APIGroups: []string{v1alpha1.Group}, Resources: []string{"balancers"}, Verbs: []string{"*"}},
		}
	}
	all := []string{"a", "b", "c", "d", "e", "f", "g", "h", "i"}
	for user, rules := range map[string][]rbacv1.PolicyRule{
		"writer":  scale([]string{"pods/scale"}),
		"scaler":  scale([]string{"deployments/scale"}),
		"named":   scale([]string{"deployments/scale"}, all...),
		"several": scale([]string{"deployments/scale", "statefulsets/scale", "policies/scale"}),
	} {
		if err := grant(ctx, c, namespace, user, rules); err != nil {
			t.Fatal(err)
		}
	}
	of := func(name string, kinds string, targets ...string) *v1alpha1.Balancer {
		b := twoTargets(namespace)
		b.Name, b.Spec.Targets, b.Spec.Policy.Proportions.TargetProportions = name, nil, map[string]int32{targets[0]: 1}
		for i, target := range targets {
			ref := v1alpha1.ScaleTargetReference{Kind: strings.Fields(kinds)[i%len(strings.Fields(kinds))], Name: target}
			if ref.Kind == "Policy" {
				ref.APIVersion = "example.com/v1"
			}
			b.Spec.Targets = append(b.Spec.Targets, v1alpha1.BalancerTarget{Name: target, ScaleTargetRef: ref})
		}
		return b
	}
	as := func(user string) client.Client {
		config := rest.CopyConfig(plane.Config)
		config.Impersonate.UserName, config.Impersonate.Groups = user, []string{"system:authenticated"}
		its, err := client.New(config, client.Options{Scheme: c.Scheme()})
		if err != nil {
			t.Fatal(err)
		}
		return its
	}
	until(ctx, t, "the policy is in force", func() bool { // until its rights are, the user is refused anyway
		err := as("writer").Create(ctx, of("first", "Deployment", "a"), client.DryRunAll)
		return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "must be allowed to update the scale")
	})
	until(ctx, t, "the rights are in force", func() bool {
		return as("several").Create(ctx, of("first", "Deployment", "a"), client.DryRunAll) == nil
	})
	for i, c := range []struct {
		user  string
		kinds string
		names []string
		says  string // empty if it is allowed
	}{
		{"writer", "Deployment", all[:1], "must be allowed to update the scale of each target, which are apps/deployments a"},
		{"scaler", "Deployment", all, ""},
		{"scaler", "Deployment StatefulSet", all[:2], "apps/deployments a, apps/statefulsets b"},
		{"named", "Deployment", all[:8], ""},
		{"named", "Deployment", all, "or have eight targets at most"},
		{"named", "Deployment", []string{"a", "z"}, "apps/deployments z"},
		{"several", "Deployment StatefulSet Policy", all, ""},
		{"several", "Deployment StatefulSet ReplicaSet Policy", all, "apps/replicasets c"},
		{"scaler", "Policy", all[:1], "example.com/policies a"},
	} {
		err := as(c.user).Create(ctx, of(fmt.Sprint("case-", i), c.kinds, c.names...), client.DryRunAll)
		if allowed := err == nil; allowed != (c.says == "") || !allowed &&
			(!apierrors.IsForbidden(err) || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s, %s: %v, wanted %q", c.user, c.kinds, err, c.says)
		}
	}

	// An update is checked as well, if it changes the spec.
	b := of("kept", "Deployment", "a")
	if err := c.Create(ctx, b); err != nil {
		t.Fatal(err)
	}
	b.Labels = map[string]string{"team": "x"}
	if err := as("writer").Update(ctx, b); err != nil {
		t.Error(err)
	}
	b.Spec.Replicas = new(int32(100))
	if err := as("writer").Update(ctx, b); !apierrors.IsForbidden(err) {
		t.Errorf("who may not scale the target changed the replicas: %v", err)
	}
	if err := c.Delete(ctx, b); err != nil {
		t.Fatal(err)
	}
}

// grant gives a user rights in a namespace.
func grant(ctx context.Context, c client.Client, namespace, user string, rules []rbacv1.PolicyRule) error {
	at := metav1.ObjectMeta{Namespace: namespace, Name: user}
	if err := c.Create(ctx, &rbacv1.Role{ObjectMeta: at, Rules: rules}); err != nil {
		return err
	}
	return c.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: at,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}},
	})
}
