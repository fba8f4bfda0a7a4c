package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/internal/controller"
	"github.com/evenkeel/evenkeel/internal/provisioning/live"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/workloadspread/admission"
	"github.com/evenkeel/evenkeel/workloadspread/schedule"
)

// followEvery is how often the autoscaler is looked at for the simulation.
const followEvery = 10 * time.Second

// simulationFlags are the flags of the simulation of new pods of WorkloadSpreads.
type simulationFlags struct {
	off          bool
	timeout      time.Duration
	provision    time.Duration
	virtual      string
	autoscaler   string
	taints       []string
	cloudAddress string
	cloudFiles   serving.Files
}

func (o *simulationFlags) addTo(f *pflag.FlagSet) {
	f.BoolVar(&o.off, "disable-simulation-schedule", false,
		"do not simulate where new pods of adaptive WorkloadSpreads would run; this needs no rights to read volumes")
	f.DurationVar(&o.timeout, "simulation-timeout", schedule.DefaultTimeout,
		"how long the simulation of a new pod may take; after that the subsets are taken in order")
	f.StringVar(&o.virtual, "simulation-virtual-nodes", "type=virtual-kubelet",
		"label selector of nodes that have room for any pod that may run there; empty for none")
	f.StringVar(&o.autoscaler, "simulation-autoscaler", "auto", "whether an autoscaler brings nodes: auto to find out, always, or never")
	f.StringArrayVar(&o.taints, "startup-taint", nil,
		"taint of nodes that are not ready yet, as passed to Cluster Autoscaler; may be repeated")
	f.DurationVar(&o.provision, "max-node-provision-time", cloudprovider.DefaultMaxNodeProvisionTime,
		"how long a node counts as being on its way, as passed to Cluster Autoscaler")
	f.StringVar(&o.cloudAddress, "cloud-address", "",
		"external cloud provider, host:port, to learn what node groups can still bring; empty if there is none")
	addCertificate(f, &o.cloudFiles, "cloud-", "client certificate for --cloud-address",
		"authority that must have signed the certificate of --cloud-address; enables TLS")
}

func (o *simulationFlags) validate() error {
	_, err := labels.Parse(o.virtual)
	return cmp.Or(
		refuse(err != nil, "invalid --simulation-virtual-nodes %q: must be a label selector, such as type=virtual-kubelet: %w", o.virtual, err),
		refuse(o.timeout <= 0, "invalid --simulation-timeout %s: must be positive; --disable-simulation-schedule switches the simulation off",
			o.timeout),
		refuse(o.provision <= 0, "invalid --max-node-provision-time %s: must be positive", o.provision),
		refuse(!slices.Contains([]string{"auto", "always", "never"}, o.autoscaler),
			"invalid --simulation-autoscaler %q: must be auto, always or never", o.autoscaler),
		refuse(o.cloudAddress == "" && o.cloudFiles != (serving.Files{}), "--cloud-cert, --cloud-key and --cloud-cacert need --cloud-address"),
		checkPair("cloud-", o.cloudFiles), checkOptional("cloud-address", o.cloudAddress),
	)
}

// options returns the options of the simulation.
func (o *simulationFlags) options(log logr.Logger, registry prometheus.Registerer) (schedule.Options, error) {
	out := schedule.Options{
		Timeout: o.timeout, ProvisionTime: o.provision, StartupTaints: o.taints, Log: log,
		Autoscaler: schedule.Autoscaler(strings.ToUpper(o.autoscaler[:1]) + o.autoscaler[1:]),
	}
	if o.virtual != "" {
		var err error
		if out.Unlimited, err = labels.Parse(o.virtual); err != nil {
			return out, err
		}
	}
	var err error
	out.Metrics, err = schedule.NewMetrics(registry)
	return out, err
}

// lacks is why nothing can be simulated: a right that is missing must not keep everything else from
// running.
func (*simulationFlags) lacks(ctx context.Context, live client.Client) error {
	var needs []controller.Need
	for _, o := range schedule.Kinds() {
		kind, err := live.GroupVersionKindFor(o)
		if err != nil {
			return err
		}
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		needs = append(needs, controller.Need{List: list})
	}
	return controller.Lacks(ctx, live, needs...)
}

// start makes the simulation, which runs in every replica, and feeds it from the cache of the manager.
func (o *simulationFlags) start(mgr manager.Manager, reader client.Reader, options schedule.Options) (admission.Simulator, error) {
	ctx := context.Background()
	s, err := schedule.New(ctx, options)
	if err != nil {
		return nil, err
	}
	if err := s.Watch(ctx, mgr.GetCache()); err != nil {
		return nil, err
	}
	var cloud cloudprovider.Provider
	if o.cloudAddress != "" {
		connection, err := serving.Dial(o.cloudAddress, o.cloudFiles, clock.RealClock{})
		if err != nil {
			return nil, &usageError{fmt.Errorf("--cloud-address=%s: %w", o.cloudAddress, err), "see the flags that begin with --cloud"}
		}
		cloud = externalgrpc.NewClient(connection)
	}
	status := live.New(reader, clock.RealClock{}).Status
	return s, errors.Join(mgr.Add(everywhere(s.Run)), mgr.Add(everywhere(func(ctx context.Context) error {
		return s.Follow(ctx, followEvery, cloud, status)
	})))
}

// everywhere runs in every replica, whether it leads or not.
type everywhere func(context.Context) error

// Start implements manager.Runnable.
func (e everywhere) Start(ctx context.Context) error { return e(ctx) }

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (everywhere) NeedLeaderElection() bool { return false }
