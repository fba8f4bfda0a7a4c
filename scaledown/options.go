package scaledown

import (
	"fmt"
	"math"
	"time"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/deferral"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Defaults: Cluster Autoscaler's of the flags of the same names.
const (
	DefaultUnneededTime         = 10 * time.Minute
	DefaultUnreadyTime          = 20 * time.Minute
	DefaultDelayAfterAdd        = 10 * time.Minute
	DefaultDelayAfterFailure    = 3 * time.Minute
	DefaultUtilizationThreshold = Whole / 2
	DefaultMaxParallelism       = 10
	DefaultMaxDrainParallelism  = 1
)

// Whole is a share of all, in the unit of thresholds: millionths.
const Whole = 1_000_000

// Options configure scale-down. The zero value is Cluster Autoscaler's defaults
// with balancing on. Times that are nil have their default.
type Options struct {
	// DisableBalancing removes nodes in Cluster Autoscaler's order, whatever
	// becomes of the sets.
	DisableBalancing bool
	// Similarity says when two groups are similar.
	Similarity nodegroupset.Options
	// UnneededTime is how long a node must be unneeded before it may go, and
	// UnreadyTime how long if it is not ready. A group's own settings win.
	UnneededTime, UnreadyTime *time.Duration
	// UtilizationThreshold is the greatest share of its cpu and of its memory, in
	// millionths, that may be requested of a node that goes; nil is the default. A
	// group's own setting wins.
	UtilizationThreshold *int64
	// DelayAfterAdd is how long nothing is removed after the cluster has grown.
	DelayAfterAdd *time.Duration
	// MaxParallelism is how many nodes may be on their way out at one time, and
	// MaxDrainParallelism how many of them with pods to move. 0 is the default.
	MaxParallelism, MaxDrainParallelism int
	// MaxBalanceDeferral is how long a node that may go waits for its set to stay
	// level: see deferral.Limit.
	MaxBalanceDeferral *time.Duration
	// Nodes with these pods stay, unless they are allowed to go: pods of the
	// system, with local storage, of controllers that are not Kubernetes' own.
	AllowSystemPods, AllowLocalStorage, AllowCustomControllers bool
	// Seed varies what is arbitrary.
	Seed uint64
}

func (o *Options) validate() error {
	if _, err := nodegroupset.NewIndex(o.Similarity); err != nil {
		return err
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
	}{
		{"unneededTime", o.UnneededTime}, {"unreadyTime", o.UnreadyTime},
		{"delayAfterAdd", o.DelayAfterAdd},
	} {
		if d.value != nil && *d.value < 0 {
			return apportion.Invalid(d.name, *d.value, "must not be negative")
		}
	}
	if _, err := deferral.Limit(o.MaxBalanceDeferral); err != nil {
		return apportion.Invalid("maxBalanceDeferral", *o.MaxBalanceDeferral, err.Error())
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"maxParallelism", o.MaxParallelism}, {"maxDrainParallelism", o.MaxDrainParallelism}} {
		if n.value < 0 || n.value > math.MaxInt32 {
			return apportion.Invalid(n.name, n.value, fmt.Sprintf("must be 0 to %d", math.MaxInt32))
		}
	}
	if t := o.UtilizationThreshold; t != nil && (*t < 0 || *t > Whole) {
		return apportion.Invalid("utilizationThreshold", *t, fmt.Sprintf("must be 0 to %d", int64(Whole)))
	}
	return nil
}

// patience is how long a node waits for its set to stay level at most. The options have been
// checked.
func (o *Options) patience() time.Duration {
	limit, _ := deferral.Limit(o.MaxBalanceDeferral)
	return limit
}

// settings are the defaults of what groups may have of their own.
func (o *Options) settings() cloudprovider.GroupOptions {
	return cloudprovider.GroupOptions{
		ScaleDownUtilizationThreshold: float64(given(o.UtilizationThreshold, DefaultUtilizationThreshold)) / Whole,
		ScaleDownUnneededTime:         given(o.UnneededTime, DefaultUnneededTime),
		ScaleDownUnreadyTime:          given(o.UnreadyTime, DefaultUnreadyTime),
	}
}

func given[T any](value *T, otherwise T) T {
	if value == nil {
		return otherwise
	}
	return *value
}
