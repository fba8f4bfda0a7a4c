package removal

import (
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Defaults: Cluster Autoscaler's of the flags of the same names.
const (
	DefaultUnneededTime         = 10 * time.Minute
	DefaultUnreadyTime          = 20 * time.Minute
	DefaultDelayAfterAdd        = 10 * time.Minute
	DefaultDelayAfterFailure    = 3 * time.Minute
	DefaultSystemPodTimeout     = time.Hour
	DefaultPodEvictionTime      = 2 * time.Minute
	DefaultUtilizationThreshold = Whole / 2
	DefaultMaxParallelism       = 10
	DefaultMaxDrainParallelism  = 1
)

// Whole is a share of all, in the unit of thresholds: millionths.
const Whole = 1_000_000

// Options configure scale-down. The zero value is Cluster Autoscaler's defaults. Times that are nil
// have their default.
type Options struct {
	// UnneededTime is how long a node must be unneeded before it may go, and
	// UnreadyTime how long if it is not ready. A group's own settings win.
	UnneededTime, UnreadyTime *time.Duration
	// UtilizationThreshold is the greatest share of its cpu and of its memory, in
	// millionths, that may be requested of a node that goes; nil is the default. A
	// group's own setting wins.
	UtilizationThreshold *int64
	// GPUUtilizationThreshold is the same for the GPUs of a node that has some, and GPULabel the key
	// of a label of such nodes.
	GPUUtilizationThreshold *int64
	GPULabel                string
	// DelayAfterAdd is how long nothing is removed after the cluster has grown.
	DelayAfterAdd *time.Duration
	// MaxParallelism is how many nodes may be on their way out at one time, and
	// MaxDrainParallelism how many of them with pods to move. 0 is the default.
	MaxParallelism, MaxDrainParallelism int
	// Nodes with these pods stay, unless they are allowed to go: pods of the
	// system, with local storage, of controllers that are not Kubernetes' own.
	AllowSystemPods, AllowLocalStorage, AllowCustomControllers bool
	// SystemPodTimeout is the age from which on a pod of the system without a budget may move.
	SystemPodTimeout *time.Duration
	// MinReplicas is how many replicas a ReplicaSet or ReplicationController must have for its pods
	// to be moved, and Replicas how many that of a pod has; it may be nil.
	MinReplicas int
	Replicas    func(*v1.Pod) int
	// PodEvictionTime is how long it is tried to evict the pods of a node whose budgets do not let
	// them go.
	PodEvictionTime *time.Duration
	// Seed varies what is arbitrary.
	Seed uint64
	// Order puts the nodes to try in order (ScaleDownNodeProcessor); nil leaves the
	// order to chance, but for those without pods to move, which come first.
	Order func(nodes []*v1.Node, moves func(*v1.Node) bool) []*v1.Node
	// Select has the last word on which of the nodes that may go do so now
	// (ScaleDownSetProcessor); nil leaves it to chance.
	Select func(nodes []Candidate, limit, drains int) nodegroupset.ShrinkResult
}

// Candidate is a node that may go now.
type Candidate struct {
	Node    *v1.Node
	Drain   bool // it has pods to move
	Unready bool
	Due     time.Time // when it could have gone first
}

// CoolDown is how long no node goes after the cluster has grown.
func (o *Options) CoolDown() time.Duration { return ptr.Deref(o.DelayAfterAdd, DefaultDelayAfterAdd) }

// EvictionTime is how long it is tried to evict the pods of a node.
func (o *Options) EvictionTime() time.Duration {
	return ptr.Deref(o.PodEvictionTime, DefaultPodEvictionTime)
}

// Settings are the defaults of what groups may have of their own.
func (o *Options) Settings() cloudprovider.GroupOptions {
	return cloudprovider.GroupOptions{
		ScaleDownUtilizationThreshold:    float64(ptr.Deref(o.UtilizationThreshold, DefaultUtilizationThreshold)) / Whole,
		ScaleDownGPUUtilizationThreshold: float64(ptr.Deref(o.GPUUtilizationThreshold, DefaultUtilizationThreshold)) / Whole,
		ScaleDownUnneededTime:            ptr.Deref(o.UnneededTime, DefaultUnneededTime),
		ScaleDownUnreadyTime:             ptr.Deref(o.UnreadyTime, DefaultUnreadyTime),
	}
}
