package scaleup

import (
	"fmt"
	"time"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/backoff"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/predicates"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// Defaults of Cluster Autoscaler's flags of the same names.
const (
	DefaultMaxNodesPerScaleUp   = 1000
	DefaultOkTotalUnreadyCount  = 3
	DefaultMaxUnreadyPercentage = 45
)

// Options configure the pipeline. The zero value has Cluster Autoscaler's defaults, except that it
// balances similar groups and that cores and memory are not limited.
type Options struct {
	// DisableBalancing leaves the chosen group alone
	// (--balance-similar-node-groups=false).
	DisableBalancing bool
	// DisableSpreadSplit orders nodes for pods with a hard spread constraint, or required affinity,
	// over domains wider than a host as for other pods: estimated for one group and levelled
	// (--spread-aware-split=false).
	DisableSpreadSplit bool
	// Similarity says when two groups are similar.
	Similarity nodegroupset.Options
	// Expander chooses among the options; the zero value is that of expander.Default, least-waste.
	Expander expander.Chain
	// Limits bound how far groups may grow together.
	Limits Limits
	// Backoff says how long a group that refused is left alone.
	Backoff backoff.Options
	// ZonalShift says how fast a zone that was shifted away comes back, and what is detected.
	ZonalShift zonalshift.Options
	// MaxNodeProvisionTime is how long an ordered node may take to register and
	// become ready; 0 is cloudprovider.DefaultMaxNodeProvisionTime.
	MaxNodeProvisionTime time.Duration
	// StartupTimes are how long new nodes take, by group, where it is known. Those of other groups
	// may come at any time.
	StartupTimes map[string]StartupTime
	// NodeNames, where not nil, returns the names of nodes of a group before they are there: of the
	// given number of nodes that were ordered last, the oldest first, then of those ordered next.
	// They decide between nodes with the same score for the predicates.Scheduler.
	NodeNames func(group string, ordered int) func(i int) string
	// SequentialResize resizes the groups of a split one after the other, by
	// name, for worlds that have to play out the same every time; otherwise
	// they are resized at the same time.
	SequentialResize bool
	// StartupTaints are keys of taints that a node carries only while it
	// starts; they are removed from templates.
	StartupTaints []string
	// Progress, where not nil, is called now and then while a round is planned. It
	// must be quick.
	Progress func(predicates.Step)

	round       uint64 // of the expander's draws
	maxWork     int    // instead of defaultMaxWork, where not 0
	asEstimated bool   // without simulating the scheduler, as Cluster Autoscaler orders, to compare with it
}

// Limits bound growth. A zero number means no limit.
type Limits struct {
	// MaxNodesPerScaleUp bounds one round; 0 is DefaultMaxNodesPerScaleUp.
	MaxNodesPerScaleUp int
	// MaxNodesTotal bounds all nodes of the cluster, those on their way and
	// those of no node group included.
	MaxNodesTotal int
	// MaxCoresTotal bounds the cores of all nodes.
	MaxCoresTotal int64
	// MaxMemoryTotal bounds the memory of all nodes, in bytes.
	MaxMemoryTotal int64
	// Quotas bound groups together.
	Quotas []Quota
}

// Quota is a limit shared by several groups. Groups and Zones select the
// groups it counts: those named and those whose template lies in a named
// zone; with neither it counts every group. A zero limit means no limit.
type Quota struct {
	Name     string
	Groups   []string
	Zones    []string
	Nodes    int64
	MilliCPU int64
	Memory   int64 // bytes
}

func (l Limits) validate() error {
	fields := []struct {
		name  string
		value int64
	}{
		{"maxNodesPerScaleup", int64(l.MaxNodesPerScaleUp)},
		{"maxNodesTotal", int64(l.MaxNodesTotal)},
		{"maxCoresTotal", l.MaxCoresTotal},
		{"maxMemoryTotal", l.MaxMemoryTotal},
	}
	names := map[string]bool{}
	for i, q := range l.Quotas {
		path := fmt.Sprintf("quotas[%d].", i)
		if q.Name == "" || names[q.Name] {
			return apportion.Invalid(path+"name", q.Name, "must be set and unique")
		}
		names[q.Name] = true
		fields = append(fields, []struct {
			name  string
			value int64
		}{{path + "nodes", q.Nodes}, {path + "milliCPU", q.MilliCPU}, {path + "memory", q.Memory}}...)
	}
	for _, f := range fields {
		if f.value < 0 {
			return apportion.Invalid(f.name, f.value, "must not be negative")
		}
	}
	return nil
}
