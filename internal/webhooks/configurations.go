package webhooks

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// kinds are those of the two configurations, as in metrics.
var kinds = []string{"mutating", "validating"}

// configuration is one of the two, as it was read.
type configuration struct {
	kind    string
	object  client.Object
	ours    []entry
	known   bool  // it is known whether the API server may call because of it
	exists  bool  // it may: there is a webhook of ours
	unsure  bool  // it is not known, or could not be set, which authorities it has
	problem error // why it does not do its work
}

// configurations reads both.
func (k *Keeper) configurations(ctx context.Context) []*configuration {
	both := []*configuration{
		{kind: kinds[0], object: &admissionv1.MutatingWebhookConfiguration{}},
		{kind: kinds[1], object: &admissionv1.ValidatingWebhookConfiguration{}},
	}
	both = slices.DeleteFunc(both, func(c *configuration) bool { return len(k.webhooks(c)) == 0 })
	for _, c := range both {
		err := k.client.Get(ctx, client.ObjectKey{Name: k.options.Configuration}, c.object)
		switch {
		case apierrors.IsNotFound(err):
			c.known = true
			c.problem = fmt.Errorf("there is no %s webhook configuration %s: install it with the manifests", c.kind, k.options.Configuration)
		case apierrors.IsForbidden(err):
			c.known, c.unsure = true, true // without the rights of this version there were never any rules
			c.problem = fmt.Errorf("the %s webhook configuration may not be read: install the rights of this version: %w", c.kind, err)
		case err != nil:
			c.unsure = true
			c.problem = fmt.Errorf("reading the %s webhook configuration %s: %w", c.kind, k.options.Configuration, err)
		default:
			c.known, c.ours = true, k.ours(c.object)
			c.exists = len(c.ours) > 0
		}
	}
	return both
}

// webhooks are those that a configuration must have.
func (k *Keeper) webhooks(c *configuration) (wanted []Webhook) {
	for _, w := range k.options.Webhooks {
		if w.Mutating == (c.kind == kinds[0]) {
			wanted = append(wanted, w)
		}
	}
	return wanted
}

// entry is a webhook of ours in a configuration.
type entry struct {
	*Webhook
	client   *admissionv1.WebhookClientConfig
	rules    *[]admissionv1.RuleWithOperations
	selector **metav1.LabelSelector
}

// ours are the webhooks of ours in a configuration: others have another name, or lead to a Service that is
// not that of this program.
func (k *Keeper) ours(o client.Object) (found []entry) {
	add := func(name string, mutating bool, e entry) {
		if to := e.client.Service; to != nil && (to.Namespace != k.options.Namespace || to.Name != k.options.Service) {
			return
		}
		i := slices.IndexFunc(k.options.Webhooks, func(w Webhook) bool { return w.Name == name && w.Mutating == mutating })
		if i >= 0 {
			e.Webhook = &k.options.Webhooks[i]
			found = append(found, e)
		}
	}
	switch o := o.(type) {
	case *admissionv1.MutatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			add(w.Name, true, entry{nil, &w.ClientConfig, &w.Rules, &w.NamespaceSelector})
		}
	case *admissionv1.ValidatingWebhookConfiguration:
		for i := range o.Webhooks {
			w := &o.Webhooks[i]
			add(w.Name, false, entry{nil, &w.ClientConfig, &w.Rules, &w.NamespaceSelector})
		}
	}
	return found
}

// known are the authorities in the configurations.
func known(both []*configuration) (known []*x509.Certificate) {
	for _, c := range both {
		for _, e := range c.ours {
			found, _ := cert.ParseCertsPEM(e.client.CABundle) // what is not usable is not known
			for _, authority := range found {
				if !slices.ContainsFunc(known, authority.Equal) {
					known = append(known, authority)
				}
			}
		}
	}
	return known
}

// complete sets what the Keeper owns of a configuration, and reports whether that changed anything. If
// authorities is nil, those that are there stay; if there are none, there are no rules either, unless the
// certificate comes from elsewhere.
func (k *Keeper) complete(c *configuration, authorities []byte, namespaces []string) (changed bool) {
	before := c.object.DeepCopyObject()
	var missing []string
	present := map[string]bool{}
	for _, e := range c.ours {
		present[e.Name] = true
		if authorities != nil {
			e.client.CABundle = authorities
		}
		if len(e.client.CABundle) == 0 && k.options.Files.Cert == "" {
			continue
		}
		*e.rules = e.Rules
		if !e.Everywhere {
			*e.selector = only(namespaces)
		}
	}
	for _, w := range k.webhooks(c) {
		if !present[w.Name] {
			missing = append(missing, w.Name)
		}
	}
	switch {
	case len(present) == 0:
		c.problem = fmt.Errorf("the %s webhook configuration %s has none of the webhooks of Service %s/%s, and is left alone", c.kind,
			k.options.Configuration, k.options.Namespace, k.options.Service)
	case len(missing) > 0:
		c.problem = fmt.Errorf("the %s webhook configuration %s lacks %v: install the manifests of this version", c.kind, k.options.Configuration,
			missing)
	}
	return !equality.Semantic.DeepEqual(before, c.object)
}

// only selects namespaces by their names.
func only(namespaces []string) *metav1.LabelSelector {
	byName := metav1.LabelSelectorRequirement{Key: v1.LabelMetadataName, Operator: metav1.LabelSelectorOpDoesNotExist}
	if len(namespaces) > 0 {
		byName.Operator, byName.Values = metav1.LabelSelectorOpIn, namespaces
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{byName}}
}

// selected are the namespaces that a configuration selects now.
func selected(c *configuration) (namespaces []string) {
	for _, e := range c.ours {
		if e.Everywhere || *e.selector == nil {
			continue
		}
		for _, r := range (*e.selector).MatchExpressions {
			if r.Key == v1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpIn {
				namespaces = append(namespaces, r.Values...)
			}
		}
	}
	return namespaces
}

// namespaces are those to select: those that need it, those that were announced, and those that are
// selected now and needed it a short while ago.
func (k *Keeper) namespaces(ctx context.Context, both []*configuration) ([]string, error) {
	wanted := map[string]bool{}
	now := k.options.Clock.Now()
	needed, err := k.options.Namespaces(ctx)
	for _, name := range needed {
		wanted[name] = true
	}
	k.mu.Lock()
	for name, since := range k.announced {
		if now.Sub(since) < forgetAfter {
			wanted[name] = true
		} else {
			delete(k.announced, name)
		}
	}
	k.mu.Unlock()
	unneeded := map[string]time.Time{} // since when
	for _, c := range both {
		for _, name := range selected(c) {
			if wanted[name] {
				continue
			}
			since, before := k.unneeded[name]
			if !before {
				since = now
			}
			unneeded[name] = since
		}
	}
	k.unneeded = unneeded
	for name, since := range unneeded {
		if err != nil || now.Sub(since) < forgetAfter {
			wanted[name] = true
		}
	}
	for _, name := range append(k.options.Exempt, k.options.Namespace) {
		delete(wanted, name)
	}
	if err != nil {
		err = fmt.Errorf("finding the namespaces that need webhooks: %w", err)
	}
	return slices.Sorted(maps.Keys(wanted)), err
}

// write completes the configurations. It returns a conflict if one was changed since it was read.
func (k *Keeper) write(ctx context.Context, both []*configuration, authorities []byte, namespaces []string) error {
	var problems []error
	for _, c := range both {
		if c.problem != nil || !k.complete(c, authorities, namespaces) {
			continue
		}
		err := k.client.Update(ctx, c.object)
		switch {
		case apierrors.IsConflict(err) || apierrors.IsNotFound(err):
			problems = append(problems, errChanged)
		case err != nil:
			c.unsure = true
			c.problem = errors.Join(c.problem, fmt.Errorf("the %s webhook configuration cannot be completed: %w", c.kind, err))
		default:
			k.completed(c.kind, string(authorities)+" "+strings.Join(namespaces, ","), len(namespaces))
		}
	}
	return errors.Join(problems...)
}

// completed notes what a configuration was completed with. If it was completed with the same before,
// somebody else had changed it.
func (k *Keeper) completed(kind, with string, namespaces int) {
	if k.last[kind] == with {
		k.options.Log.Info("Restored a webhook configuration that something else had changed", "kind", kind, "name", k.options.Configuration)
		k.options.Metrics.repairs.WithLabelValues(kind).Inc()
		return
	}
	k.last[kind] = with
	k.options.Log.Info("Updated a webhook configuration", "kind", kind, "name", k.options.Configuration, "namespaces", namespaces)
}
