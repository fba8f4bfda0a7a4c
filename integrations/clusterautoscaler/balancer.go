package clusterautoscaler

import (
	"errors"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/internal/linked"

	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/cluster-autoscaler/pkg/cloudprovider"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	coreoptions "sigs.k8s.io/cluster-autoscaler/pkg/core/options"
	"sigs.k8s.io/cluster-autoscaler/pkg/processors"
	"sigs.k8s.io/cluster-autoscaler/pkg/simulator/framework"
)

// DefaultMaxBalanceDeferral is how long a node that may be removed waits for balance at most,
// unless told otherwise.
const DefaultMaxBalanceDeferral = deferral.Default

// Options are evenkeel's own, which have no place in the autoscaler's. The zero value works.
type Options struct {
	// MaxBalanceDeferral is how long a node that may be removed is kept at most because removing it
	// would make its set uneven. Nil is DefaultMaxBalanceDeferral; 0 keeps no node.
	MaxBalanceDeferral *time.Duration
	// DisabledLabelPacks are the names of label packs that do not apply.
	DisabledLabelPacks []string
	// NodeGroupPolicies is a file of NodeGroupPolicies, which declare sets of node groups; empty for
	// none. It is read again when it changes.
	NodeGroupPolicies string
	// DisableSpreadSplit turns the plan for all pending pods off: those with a topology spread over
	// zones get nodes as the autoscaler estimates them, one zone after the other.
	DisableSpreadSplit bool
	// PodConditions has the condition NodeProvisioningInProgress of pods written, which says whether a
	// node is on its way for a pod.
	PodConditions bool
	// Pods is how they are written; nil means a client of the API server that KubeClientOpts of the
	// autoscaler's options name.
	Pods coreclient.PodsGetter
	// Clock is the time; nil is the computer's.
	Clock clock.PassiveClock
}

// Balancer is evenkeel in one autoscaler: its processors and what they remember.
type Balancer struct {
	enabled     bool // --balance-similar-node-groups
	maxDeferral time.Duration
	clock       clock.PassiveClock
	journal     *linked.Journal
	sets        *sets
	groupSet    *groupSet
	shift       *linked.ZonalShift[cloudprovider.NodeGroup]
	conditions  bool
	pods        coreclient.PodsGetter // nil: a client of client
	client      config.KubeClientOptions
	installed   atomic.Bool
	given       cloudprovider.CloudProvider // by LinkProvider
}

// New returns the balancer for an autoscaler with these options, which honours all of --balance-similar-node-groups,
// --balancing-ignore-label, --balancing-label and the three ratios. Options that cannot be used are refused with an error that
// names the flag.
func New(options config.AutoscalingOptions, o Options) (*Balancer, error) {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	flags := flagsOf(options, o)
	maxDeferral, err := flags.Deferral()
	if err != nil {
		return nil, err
	}
	similarity, err := flags.Similarity()
	if err != nil {
		return nil, err
	}
	journal := linked.NewJournal(o.Clock)
	sets, err := linked.NewSets[*framework.NodeInfo, cloudprovider.NodeGroup](similarity, templateOf, journal)
	if err != nil {
		return nil, err
	}
	policies, follow, err := flags.Policies()
	if err != nil {
		return nil, err
	}
	sets.Declare(policies, follow)
	shift, err := linked.NewZonalShift[cloudprovider.NodeGroup](sets.SetOf, sets.TermsOf, o.Clock, journal)
	if err != nil {
		return nil, err
	}
	g := &groupSet{sets: sets, journal: journal, shift: shift, need: need{shift: shift, sets: sets}}
	g.need.deadlines = linked.NewDeadlines(sets.Declared, shift.Away, backoff.Options{
		Initial: options.InitialNodeGroupBackoffDuration, Max: options.MaxNodeGroupBackoffDuration, Reset: options.NodeGroupBackoffResetTimeout,
	}, journal)
	if !o.DisableSpreadSplit {
		g.spread = &spread{groupSet: g, clock: o.Clock}
		g.need.spread = g.spread
	}
	return &Balancer{
		enabled: options.BalanceSimilarNodeGroups, maxDeferral: maxDeferral, clock: o.Clock, journal: journal, sets: sets,
		groupSet: g, shift: shift, conditions: o.PodConditions, pods: o.Pods, client: options.KubeClientOpts,
	}, nil
}

// ServeHTTP shows which node groups are similar and how large they are, why others are not and what
// would join them, and what was decided lately: as JSON where the parameter format is json or the
// client prefers application/json, as a page for people otherwise. The page has no scripts, and
// whatever it shows is escaped.
func (b *Balancer) ServeHTTP(w http.ResponseWriter, r *http.Request) { b.journal.ServeHTTP(w, r) }

// Install puts the balancer into the autoscaler that the options are for, in place of what balances
// there already. The cloud provider must be set, because quotas are read from it; the processors
// are made as the autoscaler would if there are none. Nothing else is filled in: what the
// autoscaler or a fork adds by default stays its own. With --balance-similar-node-groups off
// nothing is changed.
func (b *Balancer) Install(options *coreoptions.AutoscalerOptions) error {
	if options.CloudProvider == nil {
		return errors.New("install evenkeel: the options have no cloud provider; set AutoscalerOptions.CloudProvider before")
	}
	return b.install(options)
}

func (b *Balancer) install(options *coreoptions.AutoscalerOptions) error {
	if !b.enabled {
		return nil
	}
	if options.Processors == nil {
		options.Processors = processors.DefaultProcessors(options.AutoscalingOptions)
	}
	if options.AutoscalingKubeClients != nil {
		if recorder := options.AutoscalingKubeClients.LogRecorder; recorder != nil {
			b.journal.WriteEvents(recorder)
		}
	}
	b.installScaleUp(options)
	b.installScaleDown(options.Processors)
	b.installReport(options.Processors)
	b.installed.Store(true)
	klog.InfoS("Similar node groups are balanced by evenkeel", "maxBalanceDeferral", b.maxDeferral)
	return b.installConditions(options.Processors)
}

// installScaleUp sets what shares scale-ups. The labels of --balancing-label are honoured by the
// balancer; left in the options they would make the autoscaler replace it.
func (b *Balancer) installScaleUp(options *coreoptions.AutoscalerOptions) {
	options.BalancingLabels = nil
	b.groupSet.quotas = &quotas{options: options}
	options.Processors.NodeGroupSetProcessor = b.groupSet
	b.installSpread(options.Processors)
	b.installPending(options.Processors)
	b.installDeadlines(options.Processors)
}
