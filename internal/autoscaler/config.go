package autoscaler

import (
	"context"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
)

// Connection has the servers that a process of Cluster Autoscaler calls.
type Connection struct {
	// Provider is the external cloud provider. If it implements cloudprovider.GPUs, GPULabel and
	// GPUTypes are asked too.
	Provider cloudprovider.Provider
	// Expander answers BestOptions; nil is --expander=random.
	Expander expander.Chooser
	// Intercept makes a call, as the interceptor of a gRPC connection does; nil only makes it.
	Intercept func(ctx context.Context, c Call, do func(context.Context) error) error
}

// Config describes the cluster and the process.
type Config struct {
	// Clock is read only.
	Clock clock.PassiveClock
	// Cloud has the real sizes, independent of the provider that Cluster Autoscaler calls.
	Cloud      cloudprovider.Provider
	Connection Connection
	World      World
	// DaemonSets run on the nodes of a group that has none yet.
	DaemonSets []*appsv1.DaemonSet
	// Ordered is how many nodes of a group, by its ID, were asked for before the start, and are on
	// their way still.
	Ordered map[string]int
	Seed    uint64 // of everything that is random in Cluster Autoscaler
	// Unreported leaves Reports empty, which saves time and calls.
	Unreported bool
	Options    Options
}

// Options are Cluster Autoscaler's flags, and parameters of the simulation. The zero value, with a
// Checker, is the defaults of release 1.36, without scale-down.
type Options struct {
	ScanInterval     time.Duration // --scan-interval; 0 is 10 s
	Timeout          time.Duration // deadline of every call; 0 is 5 s
	ProvisionTime    time.Duration // --max-node-provision-time; 0 is 15 min
	MaxNodesTotal    int           // --max-nodes-total; 0 is no limit
	MaxNodesPerScale int           // --max-nodes-per-scaleup; 0 is 1000
	Balance          bool          // --balance-similar-node-groups
	TiesByName       bool          // of groups of one size the chosen one grows first, then by name, instead of the one that was smallest
	Backoff          backoff.Options
	EnforceMinSize   bool // --enforce-node-group-min-size
	Salvo            bool // --salvo-scale-up: several scale-ups in a loop, without counting pods anew
	// Before136 counts upcoming nodes of every group, leaves target sizes alone when a scale-up
	// times out, and does not count nodes on their way out when minimums of the cluster are kept.
	Before136 bool
	// Before135 does not ask for the GPU label to find out which groups may grow, but before an
	// increase: without ready nodes, the first question comes after that of the expander.
	Before135 bool
	// Quotas are limits over several groups, such as that of --cores-total.
	Quotas []Quota
	// Strategies are those of --expander, used where Connection has no Expander; nil is random. What
	// they find equal is drawn from Config.Seed.
	Strategies *expander.Chain
	// Removal are the options of scale-down (--scale-down-enabled); nil removes no node.
	Removal *removal.Options
	// Checker answers for the scheduler.
	Checker *predicates.Checker
	// Similarity are the flags by which Cluster Autoscaler itself compares groups, in its build for
	// Cloud, which is as providerIDs begin there. Label packs and policies do not count.
	Similarity nodegroupset.Options
	Cloud      string
	// Explain selects pods of which PodOutcome.Tried is filled; it may be nil.
	Explain func(*v1.Pod) bool
	// Progress is called while a scale-up is worked out; it may be nil.
	Progress func(predicates.Step)
	// Linked is evenkeel in Cluster Autoscaler's own process; nil is Cluster Autoscaler as it is.
	Linked *Linked
	// StartupTaints are the keys of taints that a node carries only while it starts (--startup-taint).
	StartupTaints []string
}

// startupTime is the default of --max-node-startup-time.
const startupTime = 15 * time.Minute

// Call is one call of Cluster Autoscaler.
type Call struct {
	Method string   // of the provider, or one of those below
	Group  string   // empty for methods that name none
	Delta  int      // of IncreaseSize and DecreaseTargetSize
	Nodes  []string // names of the nodes of DeleteNodes and NodeGroupForNode
}

// Methods that package fake does not have.
const (
	MethodBestOptions = "BestOptions"
	MethodGPULabel    = "GPULabel"
	MethodGPUTypes    = "GPUTypes"
)

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, value time.Duration) {
		if *d == 0 {
			*d = value
		}
	}
	set(&o.ScanInterval, 10*time.Second)
	set(&o.Timeout, 5*time.Second)
	set(&o.ProvisionTime, 15*time.Minute)
	if o.MaxNodesPerScale == 0 {
		o.MaxNodesPerScale = 1000
	}
	return o
}

// groupDefaults are what Cluster Autoscaler sends as defaults with every question for a group's
// options.
func (o Options) groupDefaults() cloudprovider.GroupOptions {
	var down removal.Options
	if o.Removal != nil {
		down = *o.Removal
	}
	out := down.Settings()
	out.MaxNodeProvisionTime, out.MaxNodeStartupTime = o.ProvisionTime, startupTime
	return out
}
