package join

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	v1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation/members"
)

// hostAndMember is a host and a member in memory. The member gives tokens, and denies what is asked for.
type hostAndMember struct {
	host, member Cluster
	denies       string // verb and resource
	fails        error  // of a token
}

func newHostAndMember(t *testing.T, inHost ...client.Object) *hostAndMember {
	t.Helper()
	w := &hostAndMember{}
	w.host.Client = w.cluster(t, "host", inHost...)
	w.member.Client = w.cluster(t, "member")
	w.member.Config = &rest.Config{Host: "https://paris.example.com:6443"}
	return w
}

func (w *hostAndMember) cluster(t *testing.T, uid string, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	objects = append(objects, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(uid)}})
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		SubResourceCreate: func(_ context.Context, _ client.Client, _ string, _, sub client.Object, _ ...client.SubResourceCreateOption) error {
			request := sub.(*authenticationv1.TokenRequest)
			request.Status.Token = "token-for-" + request.Spec.BoundObjectRef.Name
			request.Status.ExpirationTimestamp = metav1.NewTime(time.Unix(*request.Spec.ExpirationSeconds, 0))
			return w.fails
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if review, ok := o.(*authorizationv1.SelfSubjectAccessReview); ok {
				a := review.Spec.ResourceAttributes
				review.Status.Allowed = a.Verb+" "+a.Resource != w.denies
				return nil
			}
			return c.Create(ctx, o, opts...)
		},
	}).Build()
}

func (w *hostAndMember) join(t *testing.T, name string) ([]Step, error) {
	t.Helper()
	return Join(t.Context(), w.host, w.member, name, Options{As: w.as})
}

func (w *hostAndMember) as(*rest.Config) (client.Client, error) { return w.member.Client, nil }

// role is what the controllers may in the member.
func (w *hostAndMember) role(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	role := &rbacv1.ClusterRole{}
	if err := w.member.Client.Get(t.Context(), client.ObjectKey{Name: Account}, role); err != nil {
		t.Fatal(err)
	}
	return role
}

// objects counts what join makes, by kind.
func objects(t *testing.T, c client.Client) string {
	t.Helper()
	out := ""
	for _, list := range []client.ObjectList{&v1alpha1.MemberClusterList{}, &v1.SecretList{}, &v1.ServiceAccountList{},
		&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}} {
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		items, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(list)
		all, _ := items["items"].([]any)
		out += fmt.Sprint(len(all))
	}
	return out
}

func TestJoinAgainReplacesCredentials(t *testing.T) {
	w := newHostAndMember(t)
	tokens := map[string]bool{}
	for range 3 {
		if _, err := w.join(t, "paris"); err != nil {
			t.Fatal(err)
		}
		var s v1.Secret
		if err := w.host.Client.Get(t.Context(), client.ObjectKey{Namespace: "evenkeel-system", Name: "member-paris"}, &s); err != nil {
			t.Fatal(err)
		}
		config, _, err := members.ReadKubeconfig(s.Data["kubeconfig"], time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		tokens[config.BearerToken] = true
		if host, member := objects(t, w.host.Client), objects(t, w.member.Client); host != "11000" || member != "01111" {
			t.Errorf("host %s, member %s", host, member)
		}
	}
	if len(tokens) != 3 {
		t.Errorf("tokens %v", tokens)
	}
}

// The host learns of a member only when the new credentials suffice, and none are left behind.
func TestJoinChangesNothingInTheHostUnlessTheCredentialsSuffice(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*hostAndMember)
		says   string
	}{
		"a right is missing": {func(w *hostAndMember) { w.denies = "create replicasets" }, "does not allow to create replicasets"},
		"no token":           {func(w *hostAndMember) { w.fails = errors.New("no tokens here") }, "no tokens here"},
		"plain http":         {func(w *hostAndMember) { w.member.Config.Host = "http://paris.example.com" }, "without https"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // what is denied is asked for again and again for a while
				w := newHostAndMember(t)
				test.change(w)
				if _, err := w.join(t, "paris"); err == nil || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%v", err)
				}
				if host, member := objects(t, w.host.Client), objects(t, w.member.Client); host != "00000" || member != "00111" {
					t.Errorf("host %s, member %s", host, member)
				}
			})
		})
	}
}

// The controllers write the status of a MemberCluster while it is changed, and use the new
// credentials from then on: they stay valid whatever happens afterwards.
func TestJoinAgainWhileTheControllersWrite(t *testing.T) {
	for name, test := range map[string]struct {
		conflicts int
		says      string
	}{"a conflict": {1, ""}, "conflicts again and again": {1000, "the object has been modified"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newHostAndMember(t)
				if _, err := w.join(t, "paris"); err != nil {
					t.Fatal(err)
				}
				left := test.conflicts
				w.host.Client = interceptor.NewClient(w.host.Client.(client.WithWatch), interceptor.Funcs{
					Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
						if _, ok := o.(*v1alpha1.MemberCluster); ok && left > 0 {
							left--
							return apierrors.NewConflict(schema.GroupResource{Group: "evenkeel.dev", Resource: "memberclusters"}, o.GetName(),
								errors.New("the object has been modified"))
						}
						return c.Update(ctx, o, opts...)
					},
				})
				_, err := Join(t.Context(), w.host, w.member, "paris", Options{As: w.as, FixedNodes: new(true)})
				if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
					t.Errorf("%v", err)
				}
				var s v1.Secret
				if err := w.host.Client.Get(t.Context(), client.ObjectKey{Namespace: "evenkeel-system", Name: "member-paris"}, &s); err != nil {
					t.Fatal(err)
				}
				var anchors v1.SecretList
				if err := w.member.Client.List(t.Context(), &anchors); err != nil {
					t.Fatal(err)
				}
				if !slices.ContainsFunc(anchors.Items, func(a v1.Secret) bool {
					return strings.Contains(string(s.Data["kubeconfig"]), "token-for-"+
						a.Name)
				}) {
					t.Error("the token that the host uses is revoked")
				}
			})
		})
	}
}

func TestJoinRefusesBeforeItChangesAnything(t *testing.T) {
	joined := func(name, uid string) *v1alpha1.MemberCluster {
		m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		m.Status.ClusterUID = uid
		return m
	}
	for name, test := range map[string]struct {
		there  *v1alpha1.MemberCluster
		change func(*hostAndMember)
		says   string
	}{
		"the host itself": {joined("x", ""), func(w *hostAndMember) { w.member.Client = w.host.Client }, "lead to the same cluster"},
		"another host": {joined("x", ""), func(w *hostAndMember) {
			_ = w.member.Client.Create(context.Background(),
				&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: Account, Labels: map[string]string{labelHost: "other"}}})
		}, "a member of another host, the cluster whose namespace kube-system has the UID other"},
		"joined already":      {joined("rome", "member"), func(*hostAndMember) {}, "joined already, as rome"},
		"the name is taken":   {joined("paris", "another"), func(*hostAndMember) {}, "paris is another cluster"},
		"the name is its own": {joined("paris", "member"), func(*hostAndMember) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newHostAndMember(t, test.there)
			test.change(w)
			steps, err := w.join(t, "paris")
			if test.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if !errors.Is(err, ErrUnsuitable) || !strings.Contains(err.Error(), test.says) || len(steps) > 0 {
				t.Errorf("%v %v", err, steps)
			}
			if got := objects(t, w.member.Client); got != "00000" && got != "10000" && got != "00001" {
				t.Errorf("member %s", got)
			}
		})
	}
}

func TestLeaveTakesEverythingBack(t *testing.T) {
	w := newHostAndMember(t)
	if _, err := w.join(t, "paris"); err != nil {
		t.Fatal(err)
	}
	if _, err := Leave(t.Context(), w.host, w.member, "paris", LeaveOptions{}); err != nil {
		t.Fatal(err)
	}
	if host, member := objects(t, w.host.Client), objects(t, w.member.Client); host != "00000" || member != "00000" {
		t.Errorf("host %s, member %s", host, member)
	}
	if _, err := Leave(t.Context(), w.host, w.member, "paris", LeaveOptions{}); !errors.Is(err, ErrNotMember) {
		t.Errorf("again: %v", err)
	}
}

// A Secret that somebody else has made stays.
func TestLeaveKeepsSecretsOfOthers(t *testing.T) {
	m := &v1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "paris"}}
	m.Spec.KubeconfigSecretRef.Name = "by-hand"
	w := newHostAndMember(t, m, &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "evenkeel-system", Name: "by-hand"}})
	steps, err := Leave(t.Context(), w.host, Cluster{}, "paris", LeaveOptions{})
	if err != nil || fmt.Sprint(steps) != "[{host membercluster/paris deleted} {host secret/by-hand, which join did not make kept}]" {
		t.Errorf("%v %v", steps, err)
	}
}

func TestLocal(t *testing.T) {
	for server, want := range map[string]bool{
		"https://127.0.0.1:6443": true, "https://localhost:6443": true, "https://[::1]:6443": true, "https://c.localhost": true,
		"https://10.0.0.1:6443": false, "https://paris.example.com": false, "::": false,
	} {
		if got := Local(server); got != want {
			t.Errorf("%s: %v", server, got)
		}
	}
}
