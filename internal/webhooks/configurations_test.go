package webhooks_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/internal/webhooks"
)

// Pods of a namespace are sent while something there needs it, and a minute longer; those of exempt
// namespaces never.
func TestOnlyNamespacesWithNeedAreSelected(t *testing.T) {
	w := newAPIServer(t, installed()...)
	k := w.keeper(t)
	selected := func(want ...string) {
		t.Helper()
		k.Sync(t.Context())
		m, v := w.mutating(t), w.validating(t)
		if got := names(m.Webhooks[0].NamespaceSelector); !slices.Equal(got, want) {
			t.Errorf("%v are selected, not %v", got, want)
		}
		if got := names(v.Webhooks[0].NamespaceSelector); !slices.Equal(got, want) {
			t.Errorf("%v are selected for validation, not %v", got, want)
		}
		if v.Webhooks[1].NamespaceSelector != nil || m.Webhooks[1].NamespaceSelector != nil {
			t.Error("a selector for what is everywhere, or not ours")
		}
	}
	selected()
	w.need = []string{"shop", "kube-system", "bank", "evenkeel-system"}
	selected("bank", "shop")
	w.need = []string{"shop"}
	selected("bank", "shop")
	w.clock.Step(59 * time.Second)
	selected("bank", "shop")
	w.clock.Step(time.Second)
	selected("shop")
	w.blind, w.need = errors.New("the cache is not filled"), nil
	w.clock.Step(time.Hour)
	selected("shop")
	w.blind = nil
	selected("shop") // it may be that another replica knows better
	w.clock.Step(time.Minute)
	selected()
}

// A namespace is covered before its first object is, and forgotten if none comes.
func TestCover(t *testing.T) {
	w := newAPIServer(t, installed()...)
	k, other := w.keeper(t), w.keeper(t)
	k.Sync(t.Context())
	other.Sync(t.Context())
	if err := k.Cover(t.Context(), "shop"); err != nil {
		t.Fatal(err)
	}
	if got := names(w.mutating(t).Webhooks[0].NamespaceSelector); !slices.Equal(got, []string{"shop"}) {
		t.Errorf("selected: %v", got)
	}
	other.Sync(t.Context()) // it does not know of the namespace, and does not take it away
	w.clock.Step(30 * time.Second)
	other.Sync(t.Context())
	if got := names(w.mutating(t).Webhooks[0].NamespaceSelector); !slices.Equal(got, []string{"shop"}) {
		t.Errorf("selected by another replica: %v", got)
	}
	w.clock.Step(2 * time.Minute)
	k.Sync(t.Context())
	w.clock.Step(2 * time.Minute)
	k.Sync(t.Context())
	if got := names(w.mutating(t).Webhooks[0].NamespaceSelector); got != nil {
		t.Errorf("not forgotten: %v", got)
	}
	if err := k.Cover(t.Context(), "kube-system"); err == nil || !strings.Contains(err.Error(), "namespace kube-system is exempt") {
		t.Errorf("an exempt one: %v", err)
	}
	before := w.mutating(t).ResourceVersion
	for _, name := range []string{"none", "", "no/name", strings.Repeat("n", 70)} {
		if err := k.Cover(t.Context(), name); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("namespace %q does not exist", name)) {
			t.Errorf("%q: %v", name, err)
		}
	}
	if k.Sync(t.Context()); w.mutating(t).ResourceVersion != before {
		t.Errorf("namespaces that do not exist changed what is selected to %v", names(w.mutating(t).Webhooks[0].NamespaceSelector))
	}
	w.before = func(verb string, o client.Object) error {
		if verb == "update" {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "webhooks"}, o.GetName(), nil)
		}
		return nil
	}
	if err := k.Cover(t.Context(), "bank"); err == nil || !strings.Contains(err.Error(), "cannot be completed") {
		t.Errorf("without the right: %v", err)
	}
}

// A thousand namespaces are one selector; ten that come at once are few writes.
func TestThousandNamespaces(t *testing.T) {
	w := newAPIServer(t, installed()...)
	k := w.keeper(t)
	for i := range 1000 {
		w.need = append(w.need, fmt.Sprintf("team-%04d", i))
	}
	k.Sync(t.Context())
	if got := names(w.mutating(t).Webhooks[0].NamespaceSelector); len(got) != 1000 || !slices.IsSorted(got) {
		t.Errorf("%d are selected", len(got))
	}
	writes := 0
	w.before = func(verb string, _ client.Object) error {
		if verb == "update" {
			writes++
		}
		return nil
	}
	if err := k.Cover(t.Context(), "team-0500"); err != nil || writes > 0 {
		t.Errorf("%d writes for what is covered, %v", writes, err)
	}
}

// What others change of our fields is restored; what is theirs is left alone.
func TestConfigurationsAreRestored(t *testing.T) {
	w := newAPIServer(t, installed()...)
	registry := prometheus.NewRegistry()
	metrics, err := webhooks.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	w.need = []string{"shop"}
	k := w.keeper(t, func(o *webhooks.Options) { o.Metrics = metrics })
	k.Sync(t.Context())
	whole := w.mutating(t)
	for name, change := range map[string]func(*admissionv1.MutatingWebhook){
		"authorities": func(w *admissionv1.MutatingWebhook) { w.ClientConfig.CABundle = nil },
		"others":      func(w *admissionv1.MutatingWebhook) { w.ClientConfig.CABundle = []byte("garbage") },
		"rules":       func(w *admissionv1.MutatingWebhook) { w.Rules = nil },
		"selector":    func(w *admissionv1.MutatingWebhook) { w.NamespaceSelector = nil },
	} {
		c := w.mutating(t)
		change(&c.Webhooks[0])
		if err := w.client.Update(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		k.Sync(t.Context())
		got := w.mutating(t)
		if !bytes.Equal(got.Webhooks[0].ClientConfig.CABundle, whole.Webhooks[0].ClientConfig.CABundle) || len(got.Webhooks[0].Rules) != 1 ||
			!slices.Equal(names(got.Webhooks[0].NamespaceSelector), w.need) {
			t.Errorf("%s: %+v", name, got.Webhooks[0])
		}
		if got.Webhooks[1].Rules != nil || got.Webhooks[1].ClientConfig.CABundle != nil {
			t.Errorf("%s: the webhook of others was changed", name)
		}
	}
	c := w.mutating(t)
	fail, seconds := admissionv1.Ignore, int32(7)
	c.Webhooks[0].FailurePolicy, c.Webhooks[0].TimeoutSeconds = &fail, &seconds
	c.Webhooks[0].MatchConditions = []admissionv1.MatchCondition{{Name: "x", Expression: "true"}}
	if err := w.client.Update(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	k.Sync(t.Context())
	if got := w.mutating(t); got.ResourceVersion != c.ResourceVersion {
		t.Error("what the installer decides was changed")
	}
	want := `
# HELP evenkeel_webhook_configuration_ready 1 if a webhook configuration, mutating or validating, is installed and complete, else 0.
# TYPE evenkeel_webhook_configuration_ready gauge
evenkeel_webhook_configuration_ready{configuration="mutating"} 1
evenkeel_webhook_configuration_ready{configuration="validating"} 1
# HELP evenkeel_webhook_configuration_repairs_total How often a webhook configuration was restored that something else had changed.
# TYPE evenkeel_webhook_configuration_repairs_total counter
evenkeel_webhook_configuration_repairs_total{configuration="mutating"} 4
evenkeel_webhook_configuration_repairs_total{configuration="validating"} 0
# HELP evenkeel_webhook_namespaces Namespaces whose pods the API server sends to the webhooks.
# TYPE evenkeel_webhook_namespaces gauge
evenkeel_webhook_namespaces 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "evenkeel_webhook_configuration_ready",
		"evenkeel_webhook_configuration_repairs_total", "evenkeel_webhook_namespaces"); err != nil {
		t.Error(err)
	}
}

// A configuration that has our name and leads elsewhere is left alone, and this is said.
func TestNamesakeIsLeftAlone(t *testing.T) {
	objects := installed()
	namesake := objects[0].(*admissionv1.MutatingWebhookConfiguration)
	namesake.Webhooks[0].ClientConfig.Service = &admissionv1.ServiceReference{Namespace: "other", Name: webhooks.DefaultName}
	w := newAPIServer(t, objects...)
	w.need = []string{"shop"}
	k := w.keeper(t)
	k.Sync(t.Context())
	if c := w.mutating(t); c.Webhooks[0].ClientConfig.CABundle != nil || c.Webhooks[0].Rules != nil {
		t.Errorf("it was changed: %+v", c.Webhooks[0])
	}
	if v := w.validating(t); v.Webhooks[0].ClientConfig.CABundle == nil {
		t.Error("the other configuration is not complete")
	}
	err := k.Cover(t.Context(), "bank")
	if err == nil || !strings.Contains(err.Error(),
		"mutating webhook configuration evenkeel-webhooks has none of the webhooks of Service "+
			"evenkeel-system/evenkeel-webhooks, and is left alone") {
		t.Error(err)
	}
}

// A configuration from older manifests lacks a webhook: the others work, and this is said.
func TestWebhookThatIsMissingIsNamed(t *testing.T) {
	objects := installed()
	old := objects[1].(*admissionv1.ValidatingWebhookConfiguration)
	old.Webhooks = old.Webhooks[:1]
	w := newAPIServer(t, objects...)
	k := w.keeper(t)
	k.Sync(t.Context())
	if v := w.validating(t); v.Webhooks[0].ClientConfig.CABundle == nil {
		t.Error("the webhook that is there is not complete")
	}
	if err := k.Cover(t.Context(), "bank"); err == nil ||
		!strings.Contains(err.Error(), "lacks [spreads.evenkeel.dev]: install the manifests of this version") {
		t.Error(err)
	}
}

// Without a usable Secret there are no authorities, and without these no rules: the API server would
// refuse all pods. What is complete already stays so.
func TestNoRulesWithoutAuthorities(t *testing.T) {
	w := newAPIServer(t, installed()...)
	w.need = []string{"shop"}
	broken := func(_ string, o client.Object) error {
		if _, is := o.(*v1.Secret); is {
			return context.DeadlineExceeded
		}
		return nil
	}
	w.before = broken
	k := w.keeper(t)
	if k.Sync(t.Context()); w.mutating(t).Webhooks[0].Rules != nil {
		t.Error("rules without authorities")
	}
	w.before = nil
	k.Sync(t.Context())
	w.before, w.need = broken, []string{"bank", "shop"}
	k.Sync(t.Context())
	w.before = nil
	if got := w.mutating(t).Webhooks[0]; got.ClientConfig.CABundle == nil || !slices.Equal(names(got.NamespaceSelector), w.need) {
		t.Errorf("%+v", got)
	}
}

// With a certificate from elsewhere nothing is made, and the authorities are left alone unless they are
// given, too.
func TestCertificateFromElsewhere(t *testing.T) {
	w := newAPIServer(t, installed()...)
	files := serving.Files{Cert: "tls.crt", Key: "tls.key"}
	k := w.keeper(t, func(o *webhooks.Options) { o.Files = files })
	k.Sync(t.Context())
	if got := w.mutating(t).Webhooks[0]; got.ClientConfig.CABundle != nil || len(got.Rules) != 1 || k.Ready() != nil {
		t.Errorf("%+v, %v", got, k.Ready())
	}
	files.CACert = filepath.Join(t.TempDir(), "ca.crt")
	authority, err := serving.NewAuthority(w.clock.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{authority.Cert, append(slices.Clone(authority.Cert), authority.Cert...)} {
		if err := os.WriteFile(files.CACert, text, 0o600); err != nil {
			t.Fatal(err)
		}
		k = w.keeper(t, func(o *webhooks.Options) { o.Files = files })
		k.Sync(t.Context())
		if got := w.mutating(t).Webhooks[0].ClientConfig.CABundle; !bytes.Equal(got, bytes.TrimSpace(text)) {
			t.Errorf("the authorities are %s", got)
		}
	}
	if err := os.WriteFile(files.CACert, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	k.Sync(t.Context())
	if got := w.mutating(t).Webhooks[0].ClientConfig.CABundle; len(got) == 0 {
		t.Error("authorities were replaced by garbage")
	}
	if err := w.client.Get(t.Context(), secretKey, &v1.Secret{}); !apierrors.IsNotFound(err) {
		t.Errorf("a Secret: %v", err)
	}
}
