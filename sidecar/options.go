package sidecar

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

const (
	// DefaultParallel is how many calls to the cloud are made at the same time while its state is read.
	DefaultParallel = 32
	// DefaultBackendTimeout is how long a call to the cloud may take. Cluster Autoscaler is answered long before.
	DefaultBackendTimeout = time.Minute
	// InferredReadyAfter is how long after its registration a node counts as ready where readiness is inferred.
	InferredReadyAfter = time.Minute
)

// Options of a sidecar. The zero value chooses by name, uses the real clock and logs nothing; without a Journal every
// increase is granted in full.
type Options struct {
	// Chain chooses between sets of node groups.
	Chain expander.Chain
	// Similarity says which groups form sets.
	Similarity nodegroupset.Options
	// Backoff is how long a member that refused is left alone.
	Backoff backoff.Options
	// MaxNodeProvisionTime is the value of the flag given to Cluster Autoscaler; 0 means its default. What the cloud has
	// not begun to fulfil by then is taken back.
	MaxNodeProvisionTime time.Duration
	// MaxNodeStartupTime is the value of the flag given to Cluster Autoscaler; 0 means its default. For so long after its
	// registration it expects a node to become ready.
	MaxNodeStartupTime time.Duration
	// NotBalanced turns the split off (--balance-similar-node-groups=false): the sidecar then only chooses and forwards.
	NotBalanced bool
	// LevelScaleDown raises the minimums Cluster Autoscaler is told, so that it takes nodes from the largest members of a set.
	LevelScaleDown bool
	// MaxBalanceDeferral is how long smaller members wait for larger ones to shrink; 0 means DefaultMaxBalanceDeferral.
	MaxBalanceDeferral time.Duration
	// DryRun only tells what would be done.
	DryRun bool
	// Journal is where the books survive; nil means that they do not, and that nothing is granted in part.
	Journal Journal
	// Nodes tells which nodes are ready; nil means that it is inferred from the calls of Cluster Autoscaler.
	Nodes Nodes
	// Recorder publishes events; nil means none.
	Recorder Recorder
	// Connection names the connection a call came on; nil means that all come on one.
	Connection func(context.Context) string
	// Parallel bounds the calls to the cloud at the same time; 0 means DefaultParallel.
	Parallel int
	// BackendTimeout bounds a call to the cloud; 0 means DefaultBackendTimeout.
	BackendTimeout time.Duration
	// Metrics counts; nil means that nothing is counted.
	Metrics *Metrics
	Clock   clock.Clock
	Log     logr.Logger
}

// Backend is the real cloud. Prices and GPUs are passed on where it also implements cloudprovider.Pricing and
// externalgrpc.GPUs.
type Backend = cloudprovider.Provider

func (o *Options) setDefaults() {
	if o.MaxNodeProvisionTime == 0 {
		o.MaxNodeProvisionTime = cloudprovider.DefaultMaxNodeProvisionTime
	}
	if o.MaxNodeStartupTime == 0 {
		o.MaxNodeStartupTime = cloudprovider.DefaultMaxNodeStartupTime
	}
	if o.Parallel == 0 {
		o.Parallel = DefaultParallel
	}
	if o.BackendTimeout == 0 {
		o.BackendTimeout = DefaultBackendTimeout
	}
	if o.MaxBalanceDeferral == 0 {
		o.MaxBalanceDeferral = DefaultMaxBalanceDeferral
	}
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	if o.Connection == nil {
		o.Connection = func(context.Context) string { return "" }
	}
	if o.Recorder == nil {
		o.Recorder = noRecorder{}
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics(nil)
	}
}

type noRecorder struct{}

func (noRecorder) Event(bool, string, string) {}
