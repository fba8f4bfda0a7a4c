package simulate

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// Defaults of a Scenario.
const (
	DefaultDuration        = time.Hour
	DefaultScanInterval    = 10 * time.Second
	DefaultBootTime        = 40 * time.Second
	DefaultReadyDelay      = 20 * time.Second
	DefaultTerminationTime = 30 * time.Second
)

// Setup is a scenario as values, with its files read: all that a run needs. The zero value is an
// empty cluster without a cloud.
type Setup struct {
	Name string
	// Duration is the maximum duration of the run; 0 means DefaultDuration.
	Duration time.Duration

	Cloud fake.Config
	// RegistersAs has, by group, the registered nodes if they differ from the cloud's template.
	// Only capacity, allocatable, labels and taints are used.
	RegistersAs map[string]*v1.Node
	// Shifts are the zones that users shift away, at times of the run's clock.
	Shifts []zonalshift.Mark

	Autoscaler
	// SchedulerConfig is a KubeSchedulerConfiguration with one profile, YAML or JSON; empty means the
	// default profile.
	SchedulerConfig []byte
	Objects

	// ExplainPod is the name of a pod, with or without its namespace, of which the report has the story.
	ExplainPod string
	// Notes are remarks for the user about the files.
	Notes  []string
	Expect *v1alpha1.ScenarioExpect
}

// Autoscaler is what decides about nodes, and with which flags.
type Autoscaler struct {
	// Mode is which autoscaler decides; empty is Linked.
	Mode Mode
	// Version is the release of Cluster Autoscaler, one of Versions; empty is the newest.
	Version string
	Options Options
	// ScanInterval is the time between two rounds; 0 means DefaultScanInterval.
	ScanInterval time.Duration
	// Seed is of everything that is random in Cluster Autoscaler.
	Seed uint64
	// Salvo is --salvo-scale-up: several scale-ups in a loop.
	Salvo bool
	// LeftAlone determines which pods no node is ordered for.
	LeftAlone autoscaler.PodFilter
	// ScaleDown are the options of scale-down; nil means that it is off.
	ScaleDown *removal.Options
}

// Objects are the objects of the API server, besides the nodes of groups.
type Objects struct {
	// Nodes belong to no node group and do not change.
	Nodes []*v1.Node
	// Pods exist at the start: pending, or bound to a node by spec.nodeName.
	Pods       []*v1.Pod
	alike      alike // more of them
	DaemonSets []*appsv1.DaemonSet
	// DerivedDaemonSets are those of DaemonSets, by namespace/name, that are known only from their
	// pods.
	DerivedDaemonSets sets.Set[string]
	Workloads         []Workload
	// Buffers are CapacityBuffers.
	Buffers []Buffer
	// Requests are ProvisioningRequests.
	Requests []Request
	// Budgets are the PodDisruptionBudgets; their status is not read.
	Budgets []*policyv1.PodDisruptionBudget
	// Spreads are WorkloadSpreads, each over one of Workloads.
	Spreads []Spread
	// Storage are the claims, volumes, classes and objects of storage drivers that
	// exist at the start, as predicates.Options has them.
	Storage []runtime.Object
}

// Workload is a set of equal pods whose number changes over time.
type Workload struct {
	Name, Namespace string
	// Pod is the pod, except for its name.
	Pod *v1.Pod
	// Kind is Deployment, ReplicaSet, StatefulSet or Job; empty means Deployment.
	Kind string
	// Start is the number of the first pod of a StatefulSet.
	Start int
	// Steps are the changes of their number, in order of time.
	Steps []Step
	// Rollouts are when new revisions begin, in order of time. MaxSurge and MaxUnavailable are those
	// of a Deployment; nil means 25 %.
	Rollouts                 []time.Duration
	MaxSurge, MaxUnavailable *intstr.IntOrString
	// Revisions, oldest first, are those of a workload that exists at the start; nil means that there
	// is one, which is that of Pod. Owned reports whether a pod of the start belongs to it.
	Revisions []Revision
	// Claims are the templates of the claims that each pod has for itself; they
	// make the workload a StatefulSet.
	Claims []v1.PersistentVolumeClaim
}

// Revision is a revision of a workload that exists at the start.
type Revision struct {
	// Hash is the label pod-template-hash of its pods, empty if they have none.
	Hash string
	// Pod is the pod, except for its name.
	Pod *v1.Pod
	// Replicas is how many pods it is to have at the start.
	Replicas int
}

// Spread is a WorkloadSpread, and the index of its workload; -1 if there is none.
type Spread struct {
	Object   *v1alpha1.WorkloadSpread
	Workload int
}

// Step is a number of replicas that starts at a moment.
type Step struct {
	At       time.Duration
	Replicas int
}
