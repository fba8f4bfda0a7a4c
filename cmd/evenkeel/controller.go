package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/balancer/reconcile"
	"github.com/evenkeel/evenkeel/deletioncost"
	deletion "github.com/evenkeel/evenkeel/deletioncost/reconcile"
	"github.com/evenkeel/evenkeel/federation/members"
	federation "github.com/evenkeel/evenkeel/federation/reconcile"
	"github.com/evenkeel/evenkeel/internal/controller"
	"github.com/evenkeel/evenkeel/internal/controller/podcache"
	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/workloadspread"
	spread "github.com/evenkeel/evenkeel/workloadspread/reconcile"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

// controllerNamespace is where the manifests install the controllers.
const controllerNamespace = members.DefaultNamespace

// controllerOptions are the flags of the controllers.
type controllerOptions struct {
	controllers []string
	kubeconfig  string
	pages       pageFlags
	plaintext   bool
	leaderElect bool
	manager     controller.Options
	members     members.Options
	webhooks    webhookFlags
	deletion    deletion.Options
	log         logFlags
}

func newController() *cobra.Command {
	o := controllerOptions{}
	cmd := &cobra.Command{
		Use:   "controller",
		Short: "Keep replicas level across targets: the controllers of evenkeel's APIs",
		Long: `Run the controllers of evenkeel's APIs against an API server: the Balancer, which shares one number of replicas
among several Deployments or other scalable objects, the FederatedReplicaSet, which does the same over several clusters,
MemberClusters, which are kept connected, and the WorkloadSpread, which spreads the pods of one workload over subsets.

Several replicas may run: one leads, the others stand by and take over. The definitions of the APIs must be installed
before (kubectl apply -k configs/crd).`,
		Example: `  evenkeel controller
  evenkeel controller --kubeconfig ~/.kube/config --controllers balancer
  evenkeel controller --kubeconfig ~/.kube/config --leader-elect=false --namespace shop`,
		GroupID: groupServers,
		Args:    noArguments,
		PreRunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().Changed("namespace") && len(o.manager.Namespaces) == 0 {
				return errors.New("--namespace is empty: name one, or omit the flag for all namespaces")
			}
			return o.validate(cmd.Flags())
		},
		RunE: o.log.serving(o.run),
	}
	o.addTo(cmd.Flags())
	return cmd
}

func (o *controllerOptions) addTo(f *pflag.FlagSet) {
	m := &o.manager
	f.StringSliceVar(&o.controllers, "controllers", []string{"*"},
		"controllers to run, comma-separated: * means all, -name excludes one; known are "+controllerNames())
	f.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file for the API server; empty means in-cluster configuration")
	f.StringSliceVarP(&m.Namespaces, "namespace", "n", nil, "watch only this namespace; may be repeated")
	f.IntVar(&m.Workers, "workers", controller.DefaultWorkers, "number of objects that each controller reconciles at the same time")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "elect a leader among several replicas; without it run only one")
	f.StringVar(&m.Lease, "leader-elect-resource-name", controller.DefaultLease, "name of the Lease that the leader holds")
	f.StringVar(&m.LeaseNamespace, "leader-elect-resource-namespace", "", "namespace of that Lease; empty means $POD_NAMESPACE, or else "+
		controllerNamespace)
	f.DurationVar(&m.LeaseDuration, "leader-elect-lease-duration", controller.DefaultLeaseDuration,
		"how long the others wait for a leader that does not renew the Lease")
	f.DurationVar(&m.RenewDeadline, "leader-elect-renew-deadline", controller.DefaultRenewDeadline,
		"how long a leader continues that cannot renew the Lease")
	f.DurationVar(&m.RetryPeriod, "leader-elect-retry-period", controller.DefaultRetryPeriod,
		"how often the leader renews the Lease, and the others try to acquire it")
	f.DurationVar(&o.members.ProbeInterval, "member-probe-interval", members.DefaultProbeInterval,
		"how often a member cluster is asked whether it answers")
	f.DurationVar(&o.members.ProbeTimeout, "member-probe-timeout", members.DefaultProbeTimeout, "how long the answer may take")
	f.DurationVar(&o.members.OfflineAfter, "member-offline-after", members.DefaultOfflineAfter,
		"how long a member cluster may not answer until it counts as lost")
	f.DurationVar(&o.members.StabilizationTime, "member-stabilization-time", members.DefaultStabilizationTime,
		"how long a lost member cluster must answer until it counts as returned")
	o.webhooks.addTo(f)
	f.StringVar((*string)(&o.deletion.Cluster), "deletion-cost", string(deletioncost.None),
		"which deletion costs are written where neither a workload nor its namespace says otherwise with the annotation "+deletioncost.Annotation+
			": spread, zone or none")
	f.Float64Var(&o.deletion.WritesPerSecond, "deletion-cost-qps", deletion.DefaultWritesPerSecond,
		"number of deletion costs that are written per second")
	o.pages.addTo(f, "127.0.0.1:8089", "/healthz, /readyz, /metrics and /status")
	f.BoolVar(&o.plaintext, "allow-plaintext", false, "allow --metrics-address without TLS and authorization on addresses other than loopback")
	f.DurationVar(&m.Grace, "grace", controller.DefaultGrace, "how long reconciliations in progress may take to finish at shutdown")
	o.log.addTo(f)
}

func (o *controllerOptions) validate(f *pflag.FlagSet) error {
	m := &o.manager
	var ownNamespace error
	if m.LeaseNamespace != "" {
		ownNamespace = checkNamespaces("leader-elect-resource-namespace", m.LeaseNamespace)
	}
	_, cost := deletioncost.ParseRequest(string(o.deletion.Cluster))
	_, unknown := chosenControllers(knownControllers(everyController{}), o.controllers)
	return cmp.Or(
		o.pages.validate(), o.webhooks.validate(f), checkNamespaces("namespace", m.Namespaces...), ownNamespace,
		refuse(m.Workers < 1, "invalid --workers %d: must be 1 or more", m.Workers),
		refuse(!(o.deletion.WritesPerSecond > 0), "invalid --deletion-cost-qps %v: must be positive", o.deletion.WritesPerSecond),
		refuse(cost != nil, "invalid --deletion-cost: %w", cost),
		refuse(unknown != nil, "invalid --controllers: %w", unknown),
		positive(f, "grace", "member-probe-interval", "member-probe-timeout", "member-offline-after", "member-stabilization-time"),
		o.validateElection(),
	)
}

func checkNamespaces(flag string, names ...string) error {
	for _, name := range names {
		if len(validation.ValidateNamespaceName(name, false)) > 0 {
			return fmt.Errorf("invalid --%s %q: must be the name of a namespace", flag, name)
		}
	}
	return nil
}

// validateElection checks what leader election requires.
func (o *controllerOptions) validateElection() error {
	m := &o.manager
	if !o.leaderElect {
		return nil
	}
	return cmp.Or(
		refuse(m.Lease == "", "--leader-elect-resource-name is empty: the leader needs a Lease"),
		refuse(m.RetryPeriod <= 0, "invalid --leader-elect-retry-period %s: must be positive", m.RetryPeriod),
		refuse(m.LeaseDuration < time.Second, "invalid --leader-elect-lease-duration %s: must be 1s or more, because a Lease stores seconds",
			m.LeaseDuration),
		refuse(m.LeaseDuration <= m.RenewDeadline, "--leader-elect-lease-duration %s must be greater than --leader-elect-renew-deadline %s",
			m.LeaseDuration, m.RenewDeadline),
		// The period is randomly extended by up to a fifth.
		refuse(m.RenewDeadline <= m.RetryPeriod*6/5,
			"--leader-elect-renew-deadline %s must be greater than 1.2 times --leader-elect-retry-period %s", m.RenewDeadline, m.RetryPeriod),
	)
}

// everyController has the options of each controller.
type everyController struct {
	balancer  reconcile.Options
	members   members.Options
	federated federation.Options
	spreads   spread.Options
	status    func(manager.Manager) (*store.Store, error) // of WorkloadSpreads
	deletion  deletion.Options
}

// knownControllers are all controllers.
func knownControllers(o everyController) []controller.Controller {
	clusters := members.New(o.members)
	return []controller.Controller{reconcile.New(o.balancer), federation.New(clusters, o.federated), clusters, spread.New(o.status, o.spreads),
		deletion.New(o.deletion)}
}

// chosenControllers are the controllers that are named. That of FederatedReplicaSets needs that of
// the members: it brings it with it if it is named itself, and is left out otherwise.
func chosenControllers(known []controller.Controller, names []string) ([]controller.Controller, error) {
	chosen, err := controller.Select(known, names)
	is := func(name string) func(controller.Controller) bool {
		return func(c controller.Controller) bool { return c.Name() == name }
	}
	switch {
	case err != nil || slices.ContainsFunc(chosen, is(members.Name)):
	case slices.Contains(names, federation.Name) && slices.Contains(names, "-"+members.Name):
		err = fmt.Errorf("%q needs %q, which is excluded", federation.Name, members.Name)
	case slices.Contains(names, federation.Name):
		chosen = append(chosen, known[slices.IndexFunc(known, is(members.Name))])
	default:
		chosen = slices.DeleteFunc(chosen, is(federation.Name))
	}
	return chosen, err
}

func controllerNames() string {
	var names []string
	for _, c := range knownControllers(everyController{}) {
		names = append(names, c.Name())
	}
	return strings.Join(names, ", ")
}

// run runs the controllers until ctx is done.
func (o *controllerOptions) run(ctx context.Context, log logr.Logger) error {
	klog.SetLoggerWithOptions(log, klog.ContextualLogger(true)) // for libraries that use only this logger
	config, err := restConfig(o.kubeconfig, "give --kubeconfig")
	if err != nil {
		return err
	}
	registry, metrics := newRegistry()
	hooks, err := newSpreadWebhooks(o.webhooks, o.ownNamespace(), registry, log)
	if err != nil {
		return err
	}
	hooks.partial = len(o.manager.Namespaces) > 0
	m, err := o.build(config, registry, log, hooks)
	if err != nil {
		return err
	}
	lead := func(ctx context.Context) error {
		err := m.Run(ctx)
		if errors.Is(err, controller.ErrNoNamespace) {
			return &usageError{err, "create it, name another with --leader-elect-resource-namespace, or run alone with --leader-elect=false"}
		}
		return err
	}
	web := serving.HTTPOptions{
		Plaintext: o.plaintext, Gatherer: controller.Gatherer(registry), Metrics: metrics,
		Health: map[string]func() error{"passes": m.Healthy}, Ready: map[string]func() error{"caches": m.Ready},
	}
	serveStatus(&web, func() any { return controllerStatusOf(checksOf(web.Ready), m.Status(), time.Now().UTC()) })
	if err := o.pages.guard(&web, config, log); err != nil {
		return err
	}
	var servers listeners
	defer servers.stop()
	if hooks.served() {
		web.Ready["webhooks"] = hooks.ready
	}
	if err := hooks.listen(ctx, registry, metrics, &servers); err != nil {
		return err
	}
	if err := o.pages.listen(ctx, web, &servers); err != nil {
		return err
	}
	log.Info("Controllers begin", append([]any{"controllers", o.controllers}, servers.addresses...)...)
	servers.servers = append(servers.servers, runnerFunc(func(ctx context.Context) error {
		err := lead(hooks.outlive(ctx))
		if err != nil {
			servers.stop() // a replica that has lost the leadership must end at once
		}
		return err
	}))
	return servers.run(ctx)
}

// ownNamespace is that of the program: its Lease and Secrets are there.
func (o *controllerOptions) ownNamespace() string {
	return cmp.Or(o.manager.LeaseNamespace, os.Getenv("POD_NAMESPACE"), controllerNamespace)
}

// every returns the options of the controllers, with their metrics registered.
func (o *controllerOptions) every(registry prometheus.Registerer, namespace string) (everyController, error) {
	perNamespace := len(o.manager.Namespaces) > 0
	every := everyController{
		balancer: reconcile.Options{PerNamespace: perNamespace}, members: o.members, spreads: spread.Options{PerNamespace: perNamespace},
	}
	every.members.Namespace = namespace
	every.deletion = o.deletion
	every.deletion.PerNamespace = perNamespace
	var problems [5]error
	every.balancer.Metrics, problems[0] = reconcile.NewMetrics(registry)
	every.members.Metrics, problems[1] = members.NewMetrics(registry)
	every.federated.Metrics, problems[2] = federation.NewMetrics(registry)
	every.spreads.Metrics, problems[3] = spread.NewMetrics(registry)
	every.deletion.Metrics, problems[4] = deletion.NewMetrics(registry)
	return every, errors.Join(problems[:]...)
}

// podAnnotations are those of pods that controllers read.
var podAnnotations = []string{workloadspread.AnnotationSpread, workloadspread.AnnotationCost, deletioncost.AnnotationWritten}

// build makes the manager of the selected controllers.
func (o *controllerOptions) build(config *rest.Config, registry prometheus.Registerer, log logr.Logger,
	hooks *spreadWebhooks) (*controller.Manager, error) {
	namespace := o.ownNamespace()
	running, err := controller.NewMetrics(registry)
	if err != nil {
		return nil, err
	}
	every, err := o.every(registry, namespace)
	if err != nil {
		return nil, err
	}
	every.status = hooks.setUp(config)
	chosen, err := chosenControllers(knownControllers(every), o.controllers)
	if err != nil {
		return nil, err
	}
	hooks.wanted = slices.ContainsFunc(chosen, func(c controller.Controller) bool { return c.Name() == spread.Name })
	options := o.manager
	options.Log, options.Metrics, options.NoLeaderElection = log, running, !o.leaderElect
	options.Trim = map[client.Object]cache.TransformFunc{
		&v1.Pod{}: podcache.Trim(podAnnotations, provisioning.ConditionType), &v1.Node{}: podcache.TrimNode,
	}
	options.Confined = map[client.Object]string{&v1.Secret{}: namespace}
	options.LeaseNamespace = namespace
	options.Needs = map[string][]controller.Need{
		reconcile.Name:  {{List: &v1alpha1.BalancerList{}}},
		members.Name:    {{List: &v1alpha1.MemberClusterList{}}, {List: &v1.SecretList{}, Namespace: namespace}},
		federation.Name: {{List: &v1alpha1.FederatedReplicaSetList{}}, {List: &v1alpha1.MemberClusterList{}}},
		spread.Name:     {{List: &v1alpha1.WorkloadSpreadList{}}, {List: &v1.NodeList{}}},
		deletion.Name:   {{List: &appsv1.ReplicaSetList{}}, {List: &appsv1.DeploymentList{}}, {List: &v1.NodeList{}}},
	}
	if len(o.manager.Namespaces) == 0 {
		options.Needs[deletion.Name] = append(options.Needs[deletion.Name], controller.Need{List: &v1.NamespaceList{}})
	}
	for _, kind := range []client.Object{&appsv1.ReplicaSet{}, &appsv1.Deployment{}, &v1.Namespace{}} {
		options.Trim[kind] = deletion.Trim
	}
	options.Scheme = runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(options.Scheme), v1alpha1.AddToScheme(options.Scheme)); err != nil {
		return nil, err
	}
	m, err := controller.New(config, chosen, options)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("%w: install the definitions first, kubectl apply -k configs/crd", err)
	}
	return m, err
}
