package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/internal/webhooks"
	"github.com/evenkeel/evenkeel/workloadspread/admission"
	"github.com/evenkeel/evenkeel/workloadspread/schedule"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

const (
	// maxReview is above the size of an AdmissionReview of two of the largest objects.
	maxReview = 8 << 20
	// webhookConnections is more than API servers open: one for each pod that is created at a time.
	webhookConnections = 4096
	// askNamespaces is how long the cache may take to be filled before the namespaces count as unknown.
	askNamespaces = time.Second
)

// exemptNamespaces have no WorkloadSpreads: pods that a cluster needs to run do not depend on webhooks.
var exemptNamespaces = []string{metav1.NamespaceSystem, metav1.NamespacePublic, "kube-node-lease"}

// webhookFlags are the flags of the webhooks of WorkloadSpreads.
type webhookFlags struct {
	simulation                     simulationFlags
	address                        string
	service, secret, configuration string
	hosts                          []string
	lifetime, drain                time.Duration
	files                          serving.Files
	clientCACert                   string
}

func (o *webhookFlags) addTo(f *pflag.FlagSet) {
	f.StringVar(&o.address, "webhook-address", "",
		"where the webhooks of WorkloadSpreads are served, with TLS; empty to disable: then no pod is put into a subset when it is created")
	f.StringVar(&o.service, "webhook-service-name", webhooks.DefaultName,
		"Service in the own namespace by which the API server reaches the webhooks")
	f.StringVar(&o.configuration, "webhook-configuration-name", webhooks.DefaultName,
		"name of the MutatingWebhookConfiguration and the ValidatingWebhookConfiguration to complete")
	f.StringVar(&o.secret, "webhook-secret-name", webhooks.DefaultName,
		"Secret in the own namespace with the certificate that is made and renewed for the webhooks")
	f.StringSliceVar(&o.hosts, "webhook-host", nil, "further name or IP address by which the API server reaches the webhooks; may be repeated")
	f.DurationVar(&o.lifetime, "webhook-cert-lifetime", webhooks.DefaultLifetime,
		"validity of the certificate that is made for the webhooks; it is renewed when a third of it is left")
	addCertificate(f, &o.files, "webhook-",
		"certificate of --webhook-address that you provide: none is made, and the caBundle of the configurations is not changed",
		"authorities of --webhook-cert, to be kept in the caBundle of the configurations")
	f.StringVar(&o.clientCACert, "webhook-client-cacert", "",
		"authorities of client certificates of API servers: nobody without one gets an answer of the webhooks")
	f.DurationVar(&o.drain, "webhook-shutdown-delay", 5*time.Second,
		"how long the webhooks are still answered at shutdown, until API servers call other replicas")
	o.simulation.addTo(f)
}

func (o *webhookFlags) validate(f *pflag.FlagSet) error {
	if err := cmp.Or(checkFiles("webhook-", o.files), o.simulation.validate(), notNegative(f, "webhook-shutdown-delay")); err != nil {
		return err
	}
	for _, name := range []struct{ flag, value string }{
		{"webhook-service-name", o.service}, {"webhook-configuration-name", o.configuration}, {"webhook-secret-name", o.secret},
	} {
		if problems := validation.IsDNS1123Subdomain(name.value); len(problems) > 0 {
			return fmt.Errorf("invalid --%s %q: %s", name.flag, name.value, problems[0])
		}
	}
	return cmp.Or(
		checkHosts("webhook-host", o.hosts),
		refuse(o.lifetime < webhooks.MinLifetime, "invalid --webhook-cert-lifetime %s: must be %s or more", o.lifetime, webhooks.MinLifetime),
		checkOptional("webhook-address", o.address),
		refuse(o.address == "" && o.files.Cert != "", "--webhook-cert needs --webhook-address: without it nothing is served"),
		refuse(o.address == "" && o.clientCACert != "", "--webhook-client-cacert needs --webhook-address: without it nothing is served"),
	)
}

// spreadWebhooks are the webhooks of WorkloadSpreads. Every replica serves them, whether it leads or
// not.
type spreadWebhooks struct {
	flags     webhookFlags
	namespace string // of the program
	admission admission.Options
	store     *store.Metrics
	simulated schedule.Options
	partial   bool // some namespaces are watched only
	log       logr.Logger

	wanted bool // the controller of WorkloadSpreads is chosen
	config *rest.Config
	keeper *webhooks.Keeper    // nil if nothing is served
	server *serving.HTTPServer // nil if nothing is served
	ended  chan struct{}       // closed when the server has ended
	// cache and handlers are there once WorkloadSpreads can be read.
	cache    atomic.Pointer[cache.Cache]
	handlers atomic.Pointer[http.ServeMux]
}

func newSpreadWebhooks(flags webhookFlags, namespace string, registry prometheus.Registerer, log logr.Logger) (*spreadWebhooks, error) {
	w := &spreadWebhooks{flags: flags, namespace: namespace, log: log, ended: make(chan struct{})}
	w.admission = admission.Options{Namespace: namespace, Log: log, Cover: w.cover}
	var problems [3]error
	w.admission.Metrics, problems[0] = admission.NewMetrics(registry)
	w.store, problems[1] = store.NewMetrics(registry)
	w.simulated, problems[2] = flags.simulation.options(log, registry)
	return w, errors.Join(problems[:]...)
}

// setUp returns a function that makes the handlers, and the store that they share with the controller.
// It is called when the controller is set up: its kinds are installed then.
func (w *spreadWebhooks) setUp(config *rest.Config) func(manager.Manager) (*store.Store, error) {
	w.config = config
	return func(mgr manager.Manager) (*store.Store, error) {
		live, err := controller.UnfencedClient(config, mgr.GetScheme())
		if err != nil {
			return nil, err
		}
		status := store.New(mgr.GetCache(), live, w.store)
		if w.flags.address == "" {
			w.log.Info("Webhooks are not served, so pods are put into subsets only after they are bound: set --webhook-address")
			return status, nil
		}
		return status, w.handle(mgr, live, status)
	}
}

// handle makes the handlers.
func (w *spreadWebhooks) handle(mgr manager.Manager, live client.Client, status *store.Store) error {
	ctx := context.Background()
	switch {
	case w.flags.simulation.off:
	case w.partial:
		w.log.Info("Nothing is simulated for new pods: with --namespace it is not known what runs on the nodes")
	default:
		if lack := w.flags.simulation.lacks(ctx, live); lack != nil {
			w.log.Error(lack,
				"Nothing is simulated for new pods: install the rights of this version and restart, or set --disable-simulation-schedule")
			break
		}
		var err error
		if w.admission.Simulator, err = w.flags.simulation.start(mgr, live, w.simulated); err != nil {
			return err
		}
	}
	w.admission.Events = mgr.GetEventRecorder("evenkeel-webhooks")
	answers := admission.New(mgr.GetCache(), live, status, w.admission)
	if err := answers.Watch(ctx, mgr.GetCache()); err != nil {
		return err
	}
	informer, err := mgr.GetCache().GetInformer(ctx, &v1alpha1.WorkloadSpread{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching WorkloadSpreads: %w", err)
	}
	if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.keeper.Wake() }, DeleteFunc: func(any) { w.keeper.Wake() },
	}); err != nil {
		return fmt.Errorf("watching WorkloadSpreads: %w", err)
	}
	mux := http.NewServeMux()
	for pattern, handler := range webhooks.WhenReady(answers.Handlers(), func() error { return w.filled(mgr.GetCache()) }) {
		mux.Handle(pattern, handler)
	}
	watched := mgr.GetCache()
	w.cache.Store(&watched)
	w.handlers.Store(mux)
	return nil
}

// filled fails until the cache is filled.
func (*spreadWebhooks) filled(c cache.Cache) error {
	ctx, cancel := context.WithTimeout(context.Background(), askNamespaces)
	defer cancel()
	if !c.WaitForCacheSync(ctx) {
		return errors.New("the caches are not filled yet")
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (w *spreadWebhooks) ServeHTTP(answer http.ResponseWriter, r *http.Request) {
	if mux := w.handlers.Load(); mux != nil {
		mux.ServeHTTP(answer, r)
		return
	}
	http.Error(answer, "not ready: the controller workloadspread does not run", http.StatusServiceUnavailable)
}

func (w *spreadWebhooks) cover(ctx context.Context, namespace string) error {
	return w.keeper.Cover(ctx, namespace)
}

// namespaces are those with a WorkloadSpread.
func (w *spreadWebhooks) namespaces(ctx context.Context) (names []string, err error) {
	c := w.cache.Load()
	if c == nil {
		return nil, errors.New("the controller workloadspread does not run")
	}
	if err := w.filled(*c); err != nil {
		return nil, err
	}
	var spreads v1alpha1.WorkloadSpreadList
	if err := (*c).List(ctx, &spreads, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range spreads.Items {
		names = append(names, spreads.Items[i].Namespace)
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// served reports whether the webhooks are wanted.
func (w *spreadWebhooks) served() bool { return w.flags.address != "" && w.wanted }

// listen opens the server, if one is wanted.
func (w *spreadWebhooks) listen(ctx context.Context, registry prometheus.Registerer, metrics *serving.Metrics, to *listeners) error {
	if !w.served() {
		return nil
	}
	measures, err := webhooks.NewMetrics(registry)
	if err != nil {
		return err
	}
	live, err := controller.UnfencedClient(w.config, clientgoscheme.Scheme)
	if err != nil {
		return err
	}
	f := &w.flags
	w.keeper, err = webhooks.New(live, webhooks.Options{
		Namespace: w.namespace, Secret: f.secret, Service: f.service, Configuration: f.configuration,
		Hosts: f.hosts, Lifetime: f.lifetime, Files: f.files, Webhooks: webhooksOfSpreads(),
		Namespaces: w.namespaces, Exempt: exemptNamespaces, Metrics: measures, Log: w.log,
	})
	if err != nil {
		return err
	}
	options := serving.HTTPOptions{
		Files: serving.Files{Cert: f.files.Cert, Key: f.files.Key, CACert: f.clientCACert}, Certificate: w.keeper.Certificate,
		Handlers: map[string]http.Handler{"/": w},
		Drain:    f.drain, MaxBody: maxReview, Connections: webhookConnections, Metrics: metrics, Name: "webhooks",
	}
	w.server, err = serving.ListenHTTP(ctx, f.address, options)
	if err != nil {
		return listenError("webhook-address", f.address, err)
	}
	to.add(options.Name, w.server.Address(), w, w.server.Stop)
	to.servers = append(to.servers, w.keeper)
	return nil
}

// ready fails while the API server may call, and there is no certificate to present.
func (w *spreadWebhooks) ready() error { return errors.Join(w.keeper.Ready(), w.server.Problem()) }

// Run serves until ctx is done.
func (w *spreadWebhooks) Run(ctx context.Context) error {
	defer close(w.ended)
	return w.server.Run(ctx)
}

// outlive returns a context that is done when the server has ended: what answers read must be kept up to
// date until then.
func (w *spreadWebhooks) outlive(ctx context.Context) context.Context {
	if w.server == nil {
		return ctx
	}
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer cancel()
		<-ctx.Done()
		<-w.ended
	}()
	return longer
}

// webhooksOfSpreads are the webhooks that the manifests have, with what the API server sends to each.
func webhooksOfSpreads() []webhooks.Webhook {
	rule := func(group, version string, resources []string, operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
		return admissionv1.RuleWithOperations{Operations: operations, Rule: admissionv1.Rule{
			APIGroups: []string{group}, APIVersions: []string{version}, Resources: resources, Scope: ptr.To(admissionv1.NamespacedScope),
		}}
	}
	return []webhooks.Webhook{
		{Name: "create.pods.evenkeel.dev", Mutating: true, Rules: []admissionv1.RuleWithOperations{
			rule("", "v1", []string{"pods"}, admissionv1.Create),
		}},
		{Name: "workloadspreads.evenkeel.dev", Everywhere: true, Rules: []admissionv1.RuleWithOperations{
			rule(v1alpha1.Group, "*", []string{"workloadspreads"}, admissionv1.Create, admissionv1.Update),
		}},
	}
}
