package webhooks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/metricset"
	"github.com/evenkeel/evenkeel/internal/serving"
)

const (
	// DefaultName is the name of the Secret, the Service and both configurations.
	DefaultName = "evenkeel-webhooks"
	// DefaultLifetime is how long a certificate is valid.
	DefaultLifetime = 90 * 24 * time.Hour
	// MinLifetime is the shortest lifetime: a rotation takes some seconds.
	MinLifetime = time.Hour

	// pollInterval is how often everything is read again although no change was reported.
	pollInterval = time.Minute
	// retryInterval is how soon it is read again after a failure.
	retryInterval = 5 * time.Second
	// forgetAfter is how long a namespace is still selected that has no need any more: another replica may
	// know better.
	forgetAfter = time.Minute
)

// Webhook is a webhook of a configuration: which requests the API server sends where.
type Webhook struct {
	// Name is that of the webhook in its configuration.
	Name string
	// Mutating says in which of the two configurations it is.
	Mutating bool
	// Rules are its requests. Their Scope must be set.
	Rules []admissionv1.RuleWithOperations
	// Everywhere means all namespaces, not only those of Options.Namespaces.
	Everywhere bool
}

// Options of a Keeper. Namespace, Webhooks and Namespaces must be set.
type Options struct {
	// Namespace has the Secret and the Service.
	Namespace string
	// Secret keeps the certificates, Service is how the API server finds the replicas, Configuration is the
	// name of the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration. Empty means
	// DefaultName.
	Secret, Service, Configuration string
	// Hosts are further names and addresses for which the certificate must be valid.
	Hosts []string
	// Lifetime of a certificate; 0 means DefaultLifetime.
	Lifetime time.Duration
	// Files are a certificate from elsewhere: then none is made, no Secret is read, and the authorities in
	// the configurations are left alone, unless CACert names a file with them.
	Files serving.Files
	// Webhooks are those of the configurations.
	Webhooks []Webhook
	// Namespaces returns those that need the webhooks.
	Namespaces func(context.Context) ([]string, error)
	// Exempt namespaces are never selected. Namespace is one of them.
	Exempt []string
	// Metrics record what happens; nil means that they are registered nowhere.
	Metrics *Metrics
	// Log is for what is done and what cannot be done. The zero value logs nothing.
	Log logr.Logger
	// Clock measures waits and checks certificates; nil means the real one.
	Clock clock.WithTicker
}

func (o *Options) setDefaults() error {
	o.Secret = cmp.Or(o.Secret, DefaultName)
	o.Service = cmp.Or(o.Service, DefaultName)
	o.Configuration = cmp.Or(o.Configuration, DefaultName)
	o.Lifetime = cmp.Or(o.Lifetime, DefaultLifetime)
	o.Clock = cmp.Or[clock.WithTicker](o.Clock, clock.RealClock{})
	o.Metrics = metricset.Or(o.Metrics, NewMetrics)
	switch {
	case o.Lifetime < MinLifetime:
		return fmt.Errorf("invalid lifetime %s of certificates: must be %s or more", o.Lifetime, MinLifetime)
	case len(validation.IsDNS1123Label(o.Namespace)) > 0:
		return fmt.Errorf("invalid namespace %q of the Secret and the Service", o.Namespace)
	case len(o.Webhooks) == 0 || o.Namespaces == nil:
		return errors.New("no webhooks, or no function for their namespaces")
	}
	for _, host := range o.Hosts {
		if err := serving.CheckHost(host); err != nil {
			return err
		}
	}
	return nil
}
