package e2e

import (
	"context"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// tenantOf is a client of a new service account with some rights in a namespace. It shows a token that the
// API server has issued, and returns when the rights are in force.
func tenantOf(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, c client.Client, namespace, name string,
	rules ...rbacv1.PolicyRule) client.Client {
	t.Helper()
	account := &v1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	at, token := metav1.ObjectMeta{Namespace: namespace, Name: name}, &authenticationv1.TokenRequest{}
	marker := rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"list"}}
	for _, o := range []client.Object{
		account, &rbacv1.Role{ObjectMeta: at, Rules: append(rules, marker)},
		&rbacv1.RoleBinding{
			ObjectMeta: at, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}},
		},
	} {
		if err := c.Create(ctx, o); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.SubResource("token").Create(ctx, account, token); err != nil {
		t.Fatal(err)
	}
	config := rest.AnonymousClientConfig(plane.Config)
	config.BearerToken = token.Status.Token
	its, err := client.New(config, client.Options{Scheme: c.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the rights of "+name+" are in force", func() bool {
		return its.List(ctx, &v1.ConfigMapList{}, client.InNamespace(namespace)) == nil
	})
	return its
}
