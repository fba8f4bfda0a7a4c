package sidecar

import (
	"cmp"
	"context"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/internal/metricset"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/steering"
)

const (
	// DefaultParallel is how many calls to the cloud are made at the same time while its state is
	// read.
	DefaultParallel = 32
	// DefaultBackendTimeout is how long a call to the cloud may take. Cluster Autoscaler is
	// answered long before.
	DefaultBackendTimeout = time.Minute
)

// Options of a sidecar. The zero value chooses by name, uses the real clock and logs nothing;
// without a Journal every increase is granted in full.
type Options struct {
	// Options of the state that decides.
	steering.Options
	// Journal is where its state survives; nil means that it does not, and that nothing is granted
	// in part.
	Journal Journal
	// Nodes reports which nodes are ready; nil means that it is inferred from the calls of Cluster
	// Autoscaler.
	Nodes Nodes
	// Policies replace those of Similarity when they change; they are looked at once per loop. nil
	// means that they do not change.
	Policies Followed[[]nodegroupset.SetPolicy]
	// Chains replace the expander chain when they change; they are looked at once per loop. nil means
	// that it does not change.
	Chains Followed[expander.Chain]
	// Recorder publishes events; nil means none.
	Recorder Recorder
	// Notices shows what is done about pods that wait for nodes, if NoticePods is set; nil means nowhere.
	Notices PodNotices
	// Connection names the connection a call came on; nil means that all come on one.
	Connection func(context.Context) string
	// Before136 reports whether a call is from a release of Cluster Autoscaler before 1.36; nil means
	// that none is. It then counts all nodes on their way, also those it has not asked for.
	Before136 func(context.Context) bool
	// Record is given every event of the state that decides, with its answer; nil means nobody. It is called in the midst of a
	// call and must not keep Cluster Autoscaler waiting.
	Record func(*steering.Recorded)
	// Parallel bounds the calls to the cloud at the same time; 0 means DefaultParallel.
	Parallel int
	// BackendTimeout bounds a call to the cloud; 0 means DefaultBackendTimeout.
	BackendTimeout time.Duration
	// Metrics counts; nil means that nothing is counted.
	Metrics *Metrics
	Clock   clock.Clock
	Log     logr.Logger
}

// Backend is the real cloud. Prices and GPUs are passed on where it also implements
// cloudprovider.Pricing and cloudprovider.GPUs.
type Backend = cloudprovider.Provider

func (o *Options) setDefaults() {
	o.Parallel = cmp.Or(o.Parallel, DefaultParallel)
	o.BackendTimeout = cmp.Or(o.BackendTimeout, DefaultBackendTimeout)
	o.Clock = cmp.Or[clock.Clock](o.Clock, clock.RealClock{})
	o.Recorder = cmp.Or[Recorder](o.Recorder, noRecorder{})
	if o.Connection == nil {
		o.Connection = func(context.Context) string { return "" }
	}
	if o.Before136 == nil {
		o.Before136 = func(context.Context) bool { return false }
	}
	o.Metrics = metricset.Or(o.Metrics, NewMetrics)
}

type noRecorder struct{}

func (noRecorder) Event(bool, string, string) {}
