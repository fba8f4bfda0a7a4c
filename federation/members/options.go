package members

import (
	"cmp"
	"context"
	"net"
	"time"

	utilclock "k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/metricset"
)

// Defaults of Options.
const (
	// DefaultNamespace is where the manifests install the controllers.
	DefaultNamespace = "evenkeel-system"
	// DefaultProbeInterval is how often a cluster is asked whether it answers.
	DefaultProbeInterval = 10 * time.Second
	// DefaultProbeTimeout is how long it may take.
	DefaultProbeTimeout = 5 * time.Second
	// DefaultOfflineAfter is how long a cluster may not answer until its replicas start elsewhere.
	DefaultOfflineAfter = time.Minute
	// DefaultStabilizationTime is how long a cluster must answer until it gets replicas back.
	DefaultStabilizationTime = time.Minute
	// DefaultCallTimeout is how long a call to a cluster may take.
	DefaultCallTimeout = 10 * time.Second
)

// clock is virtual in tests by testing/synctest.
var clock utilclock.RealClock

// Options of Members. The zero value works.
type Options struct {
	// Namespace is where the Secrets are; empty means DefaultNamespace.
	Namespace string
	// ProbeInterval and ProbeTimeout are how often a cluster is asked whether it answers, and how
	// long that may take; 0 means the defaults.
	ProbeInterval, ProbeTimeout time.Duration
	// OfflineAfter is how long a cluster may not answer until it counts as lost, and
	// StabilizationTime how long it must answer then until it does not; 0 means the defaults.
	OfflineAfter, StabilizationTime time.Duration
	// CallTimeout is how long a call may take, unless it is a watch; 0 means DefaultCallTimeout.
	CallTimeout time.Duration
	// Metrics record what happens; nil means that they are registered nowhere.
	Metrics *Metrics

	// dial opens connections in place of the network, in tests.
	dial func(ctx context.Context, network, address string) (net.Conn, error)
}

func (o *Options) setDefaults() {
	o.Namespace = cmp.Or(o.Namespace, DefaultNamespace)
	o.ProbeInterval = cmp.Or(o.ProbeInterval, DefaultProbeInterval)
	o.ProbeTimeout = cmp.Or(o.ProbeTimeout, DefaultProbeTimeout)
	o.OfflineAfter = cmp.Or(o.OfflineAfter, DefaultOfflineAfter)
	o.StabilizationTime = cmp.Or(o.StabilizationTime, DefaultStabilizationTime)
	o.CallTimeout = cmp.Or(o.CallTimeout, DefaultCallTimeout)
	o.Metrics = metricset.Or(o.Metrics, NewMetrics)
}
