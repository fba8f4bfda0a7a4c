package webhooks_test

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/evenkeel/evenkeel/internal/webhooks"
)

// apiServer is an API server with a clock, and what replicas of a program share.
type apiServer struct {
	clock  *clocktesting.FakeClock
	client client.WithWatch
	// before is called before each call of a replica, with its verb.
	before func(verb string, o client.Object) error
	need   []string // namespaces that need webhooks
	blind  error    // why that is not known
	hosts  []string
}

var (
	secretKey        = client.ObjectKey{Namespace: "evenkeel-system", Name: webhooks.DefaultName}
	configurationKey = client.ObjectKey{Name: webhooks.DefaultName}
)

func newAPIServer(t testing.TB, objects ...client.Object) *apiServer {
	t.Helper()
	w := &apiServer{clock: clocktesting.NewFakeClock(time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC))}
	call := func(verb string, o client.Object) error {
		if w.before != nil {
			return w.before(verb, o)
		}
		return nil
	}
	w.client = apiServerWith(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
			return errors.Join(call("get", o), c.Get(ctx, key, o, options...))
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := call("create", o); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := call("update", o); err != nil {
				return err
			}
			return c.Update(ctx, o, options...)
		},
	}).Build()
	return w
}

// apiServerWith has these objects and some namespaces. As in a real one, namespaces can be found by name.
func apiServerWith(objects ...client.Object) *fake.ClientBuilder {
	for _, name := range []string{"shop", "bank", "team-0500"} {
		objects = append(objects, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	}
	return fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).
		WithIndex(&v1.Namespace{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} })
}

// keeper is one replica.
func (w *apiServer) keeper(t testing.TB, change ...func(*webhooks.Options)) *webhooks.Keeper {
	t.Helper()
	o := webhooks.Options{
		Namespace: "evenkeel-system", Exempt: []string{"kube-system"}, Clock: w.clock, Hosts: append([]string{"127.0.0.1"}, w.hosts...),
		Namespaces: func(context.Context) ([]string, error) { return w.need, w.blind },
		Webhooks: []webhooks.Webhook{
			{Name: "pods.evenkeel.dev", Mutating: true, Rules: rules("pods")},
			{Name: "pods.evenkeel.dev", Rules: rules("pods", "pods/eviction")},
			{Name: "spreads.evenkeel.dev", Rules: rules("workloadspreads"), Everywhere: true},
		},
	}
	for _, f := range change {
		f(&o)
	}
	k, err := webhooks.New(w.client, o)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func rules(resources ...string) []admissionv1.RuleWithOperations {
	return []admissionv1.RuleWithOperations{{
		Operations: []admissionv1.OperationType{admissionv1.Create},
		Rule: admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: resources,
			Scope: ptr.To(admissionv1.NamespacedScope)},
	}}
}

// installed are the configurations as the manifests make them.
func installed() []client.Object {
	at := admissionv1.WebhookClientConfig{Service: &admissionv1.ServiceReference{Namespace: "evenkeel-system", Name: webhooks.DefaultName}}
	return []client.Object{
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooks.DefaultName},
			Webhooks: []admissionv1.MutatingWebhook{
				{Name: "pods.evenkeel.dev", ClientConfig: at}, {Name: "other.example.com"},
			}},
		&admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: webhooks.DefaultName},
			Webhooks: []admissionv1.ValidatingWebhook{
				{Name: "pods.evenkeel.dev", ClientConfig: at}, {Name: "spreads.evenkeel.dev", ClientConfig: at},
			}},
	}
}

func (w *apiServer) mutating(t testing.TB) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	var c admissionv1.MutatingWebhookConfiguration
	if err := w.client.Get(context.Background(), configurationKey, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

func (w *apiServer) validating(t testing.TB) *admissionv1.ValidatingWebhookConfiguration {
	t.Helper()
	var c admissionv1.ValidatingWebhookConfiguration
	if err := w.client.Get(context.Background(), configurationKey, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

func (w *apiServer) secret(t testing.TB) *v1.Secret {
	t.Helper()
	var s v1.Secret
	if err := w.client.Get(context.Background(), secretKey, &s); err != nil {
		t.Fatal(err)
	}
	return &s
}

// trusts are the lists of authorities of all our webhooks.
func (w *apiServer) trusts(t testing.TB) [][]byte {
	v := w.validating(t)
	return [][]byte{w.mutating(t).Webhooks[0].ClientConfig.CABundle, v.Webhooks[0].ClientConfig.CABundle, v.Webhooks[1].ClientConfig.CABundle}
}

// untrusted is why the API server would refuse what a replica serves; nil if it would not.
func (w *apiServer) untrusted(t testing.TB, k *webhooks.Keeper) error {
	for _, text := range w.trusts(t) {
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(text)
		_, err := k.Certificate().Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: w.clock.Now(),
			DNSName: "evenkeel-webhooks.evenkeel-system.svc"})
		if err != nil {
			return err
		}
	}
	return nil
}

// names are the namespaces that a selector selects.
func names(s *metav1.LabelSelector) []string {
	if s == nil || len(s.MatchExpressions) != 1 || s.MatchExpressions[0].Key != v1.LabelMetadataName {
		return []string{"?"}
	}
	if s.MatchExpressions[0].Operator == metav1.LabelSelectorOpDoesNotExist {
		return nil
	}
	return slices.Clone(s.MatchExpressions[0].Values)
}

func (*apiServer) secretMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}
}

// spoil has the Secret hold garbage, or a certificate with the key of another one.
func (w *apiServer) spoil(t testing.TB, half bool) {
	t.Helper()
	s := &v1.Secret{}
	if err := w.client.Get(context.Background(), secretKey, s); err != nil {
		return // it was deleted
	}
	for key := range s.Data {
		if !half || key == "tls.key" {
			s.Data[key] = []byte("garbage")
		}
	}
	if err := w.client.Update(context.Background(), s); err != nil {
		t.Fatal(err)
	}
}
