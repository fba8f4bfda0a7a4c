package v1alpha1

import (
	"encoding/json"
	"time"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// KindScenario is the kind of a document that `evenkeel simulate` plays.
const KindScenario = "Scenario"

// Scenario is a cluster, a cloud and what happens to them: the input of a simulation in virtual
// time. All times are offsets from its start.
type Scenario struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec ScenarioSpec `json:"spec"`
}

// ScenarioSpec is the content of a Scenario.
type ScenarioSpec struct {
	// Description is what the scenario shows, in a sentence or two.
	Description string `json:"description,omitempty"`
	// Duration is how long the simulation lasts. It ends earlier if nothing more can happen.
	// Default 1h.
	Duration *metav1.Duration `json:"duration,omitempty"`
	// Now is when the run starts, in the times that nodes and pods of files have. Default: the newest
	// of those.
	Now *metav1.Time `json:"now,omitempty"`
	// Autoscaler is which autoscaler decides.
	Autoscaler ScenarioAutoscaler `json:"autoscaler,omitzero"`
	// Options of the autoscaler, by Cluster Autoscaler's flag names.
	Options ScenarioOptions `json:"options,omitzero"`
	// Policies declare sets of node groups, as the sets of NodeGroupPolicies.
	Policies []NodeGroupSetPolicy `json:"policies,omitempty"`

	// Machines are machine types that node groups refer to by name.
	Machines []ScenarioMachine `json:"machines,omitempty"`
	// NodeGroups are the groups of the cloud.
	NodeGroups []ScenarioNodeGroup `json:"nodeGroups,omitempty"`
	// NodeGroupsFrom reads groups from files.
	NodeGroupsFrom []NodeGroupsSource `json:"nodeGroupsFrom,omitempty"`
	// GroupLabel is the label of a node whose value names its node group.
	GroupLabel string `json:"groupLabel,omitempty"`

	// Objects are nodes, pods, daemon sets, priority classes, claims, volumes and the like, as
	// kubectl prints them: the same as in a file that nodesFrom, podsFrom, daemonSetsFrom and
	// storageFrom name.
	Objects []json.RawMessage `json:"objects,omitempty"`
	// NodesFrom reads the nodes that exist at the start.
	NodesFrom []FileSource `json:"nodesFrom,omitempty"`
	// PodsFrom reads the pods that exist at the start.
	PodsFrom []PodsSource `json:"podsFrom,omitempty"`
	// DaemonSetsFrom reads the daemon sets that run on every node they fit.
	DaemonSetsFrom []FileSource `json:"daemonSetsFrom,omitempty"`
	// DaemonSets run on every node they fit.
	DaemonSets []ScenarioDaemonSet `json:"daemonSets,omitempty"`
	// StorageFrom reads claims, volumes, CSI nodes and storage capacities, and the services,
	// replica sets and namespaces by which the scheduler recognizes pods that belong together.
	// Files named elsewhere are searched for them too.
	StorageFrom []StorageSource `json:"storageFrom,omitempty"`
	// StorageClasses are the classes of the workloads' claims.
	StorageClasses []storagev1.StorageClass `json:"storageClasses,omitempty"`
	// Workloads are sets of equal pods that come and go.
	Workloads []ScenarioWorkload `json:"workloads,omitempty"`
	// WorkloadSpreads are over workloads of the scenario, or of its objects. Their status is ignored.
	WorkloadSpreads []WorkloadSpread `json:"workloadSpreads,omitempty"`

	// Quotas bound node groups together. The cloud enforces them and the autoscaler knows them.
	Quotas []ScenarioQuota `json:"quotas,omitempty"`
	// Faults are what goes wrong in the cloud.
	Faults ScenarioFaults `json:"faults,omitzero"`

	// Expect is what must hold at the end.
	Expect *ScenarioExpect `json:"expect,omitempty"`
}

// ScenarioAutoscaler is which autoscaler decides in a scenario.
type ScenarioAutoscaler struct {
	// Mode is stock for Cluster Autoscaler alone, expander for one with evenkeel as its expander, linked for
	// one that evenkeel is linked into, or sidecar for one with evenkeel as its expander and its cloud
	// provider. The default is linked.
	Mode string `json:"mode,omitempty"`
	// Version is the release of Cluster Autoscaler: 1.34, 1.35 or 1.36, the default. Mode linked needs
	// 1.36.
	Version string `json:"version,omitempty"`
}

// ScenarioOptions are Cluster Autoscaler's flags in camelCase. An omitted option has Cluster
// Autoscaler's default, except balanceSimilarNodeGroups; spreadAwareSplit is not an option of it.
type ScenarioOptions struct {
	// BalanceSimilarNodeGroups is on by default.
	BalanceSimilarNodeGroups *bool `json:"balanceSimilarNodeGroups,omitempty"`
	// SpreadAwareSplit plans nodes per zone for pods with a topology spread. It is on by default.
	SpreadAwareSplit *bool `json:"spreadAwareSplit,omitempty"`
	// SalvoScaleUp has one loop scale up several times.
	SalvoScaleUp bool `json:"salvoScaleUp,omitempty"`
	// Expander is a list of strategies, as "priority,least-waste".
	Expander string `json:"expander,omitempty"`
	// Priorities of the priority expander: a priority to a list of regular expressions of group
	// names, as in its ConfigMap.
	Priorities map[string][]string `json:"priorities,omitempty"`
	// RandomSeed seeds the random expander and the arbitrary choices of scale-down.
	RandomSeed uint64 `json:"randomSeed,omitempty"`

	// ScanInterval is the time between two rounds. Default 10s.
	ScanInterval *metav1.Duration `json:"scanInterval,omitempty"`
	// MaxNodesPerScaleup bounds one round. Default 1000.
	MaxNodesPerScaleup int32 `json:"maxNodesPerScaleup,omitempty"`
	// MaxNodegroupBinpackingDuration has no effect, because an estimate takes no virtual time.
	MaxNodegroupBinpackingDuration *metav1.Duration `json:"maxNodegroupBinpackingDuration,omitempty"`
	// MaxNodesTotal bounds all nodes; 0 is no bound.
	MaxNodesTotal int32 `json:"maxNodesTotal,omitempty"`
	// CoresTotal bounds the cores of all nodes, as "min:max" or "max".
	CoresTotal string `json:"coresTotal,omitempty"`
	// MemoryTotal bounds the memory of all nodes in GiB, as "min:max" or "max".
	MemoryTotal string `json:"memoryTotal,omitempty"`
	// GPUTotal bounds the GPUs of each kind, as "kind:min:max". The kind is the value of the GPU label
	// of nodes.
	GPUTotal []string `json:"gpuTotal,omitempty"`

	// SimilarityOptions are what counts as similar.
	SimilarityOptions `json:",inline"`
	// DisabledLabelPacks are built-in lists of ignored labels that are turned off.
	DisabledLabelPacks []string `json:"disabledLabelPacks,omitempty"`

	// A group that refused is backed off for InitialNodeGroupBackoffDuration (5m), doubling up to
	// MaxNodeGroupBackoffDuration (30m), and reset after NodeGroupBackoffResetTimeout (3h).
	InitialNodeGroupBackoffDuration *metav1.Duration `json:"initialNodeGroupBackoffDuration,omitempty"`
	MaxNodeGroupBackoffDuration     *metav1.Duration `json:"maxNodeGroupBackoffDuration,omitempty"`
	NodeGroupBackoffResetTimeout    *metav1.Duration `json:"nodeGroupBackoffResetTimeout,omitempty"`
	// MaxNodeProvisionTime is how long a node may take to register. Default 15m.
	MaxNodeProvisionTime *metav1.Duration `json:"maxNodeProvisionTime,omitempty"`
	// ExpendablePodsPriorityCutoff: no node is ordered for pods of a lower priority. Default -10.
	ExpendablePodsPriorityCutoff *int32 `json:"expendablePodsPriorityCutoff,omitempty"`
	// BypassedSchedulerNames are schedulers other than kube-scheduler whose pods count before the
	// scheduler has marked them unschedulable.
	BypassedSchedulerNames []string `json:"bypassedSchedulerNames,omitempty"`
	// AllowedSchedulerNames, if not empty, are the only schedulers whose pods count.
	AllowedSchedulerNames []string `json:"allowedSchedulerNames,omitempty"`
	// StartupTaints are keys of taints that a node carries only while it starts.
	StartupTaints []string `json:"startupTaints,omitempty"`

	// SchedulerConfig is the scheduler's configuration, as in --scheduler-config-file: it has one
	// profile. Default is the default profile.
	SchedulerConfig *SchedulerConfig `json:"schedulerConfig,omitempty"`

	ScaleDownOptions  `json:",inline"`
	ZonalShiftOptions `json:",inline"`
}

// ZonalShiftOptions are how zones that were shifted away come back, and which are shifted away
// without a user. They are evenkeel's own flags.
type ZonalShiftOptions struct {
	// In each interval, default 5m, a group that has come back makes up for this many nodes of what
	// it lacks, default 1, or for this percentage of it, default 25, whichever is more.
	ZonalShiftReturnInterval   *metav1.Duration `json:"zonalShiftReturnInterval,omitempty"`
	ZonalShiftReturnNodes      *int32           `json:"zonalShiftReturnNodes,omitempty"`
	ZonalShiftReturnPercentage *int32           `json:"zonalShiftReturnPercentage,omitempty"`
	// A zone is shifted away when this percentage of its nodes is not ready any more, or when all its
	// groups refuse. Both are off by default.
	ZonalShiftDetectUnreadyPercentage int32 `json:"zonalShiftDetectUnreadyPercentage,omitempty"`
	ZonalShiftDetectRefusals          bool  `json:"zonalShiftDetectRefusals,omitempty"`
	// ZonalShiftDetectAfter is how long that must last, default 1m, and ZonalShiftDetectCalm how long
	// all must be well before the zone comes back, default 10m.
	ZonalShiftDetectAfter *metav1.Duration `json:"zonalShiftDetectAfter,omitempty"`
	ZonalShiftDetectCalm  *metav1.Duration `json:"zonalShiftDetectCalm,omitempty"`
}

// ScaleDownOptions are which nodes are removed, and when.
type ScaleDownOptions struct {
	// ScaleDownEnabled removes nodes that are not needed. It is off by default.
	ScaleDownEnabled bool `json:"scaleDownEnabled,omitempty"`
	// ScaleDownUnneededTime is how long a node must be unneeded. Default 10m.
	ScaleDownUnneededTime *metav1.Duration `json:"scaleDownUnneededTime,omitempty"`
	// ScaleDownUnreadyTime is the same for a node that is not ready. Default 20m.
	ScaleDownUnreadyTime *metav1.Duration `json:"scaleDownUnreadyTime,omitempty"`
	// ScaleDownUtilizationThreshold is the share of cpu or memory, 0 to 1, above which a node's
	// requests make it needed. Default 0.5.
	ScaleDownUtilizationThreshold json.Number `json:"scaleDownUtilizationThreshold,omitempty"`
	// ScaleDownGPUUtilizationThreshold is the same for the GPUs of nodes that have some. Default 0.5.
	ScaleDownGPUUtilizationThreshold json.Number `json:"scaleDownGpuUtilizationThreshold,omitempty"`
	// ScaleDownDelayAfterAdd is how long no node is removed after groups have grown. Default 10m.
	ScaleDownDelayAfterAdd *metav1.Duration `json:"scaleDownDelayAfterAdd,omitempty"`
	// MaxScaleDownParallelism bounds the nodes that are being removed, default 10, and
	// MaxDrainParallelism those of them that had pods, default 1.
	MaxScaleDownParallelism *int32 `json:"maxScaleDownParallelism,omitempty"`
	MaxDrainParallelism     *int32 `json:"maxDrainParallelism,omitempty"`
	// MaxBalanceDeferral is how long a node waits for its set to stay level. Default 10m; Cluster
	// Autoscaler has no such flag.
	MaxBalanceDeferral *metav1.Duration `json:"maxBalanceDeferral,omitempty"`
	// Nodes with system pods, with local storage, or with pods of custom controllers are not
	// removed. All three are on by default.
	SkipNodesWithSystemPods           *bool `json:"skipNodesWithSystemPods,omitempty"`
	SkipNodesWithLocalStorage         *bool `json:"skipNodesWithLocalStorage,omitempty"`
	SkipNodesWithCustomControllerPods *bool `json:"skipNodesWithCustomControllerPods,omitempty"`
	// BlockingSystemPodDistruptionTimeout is the age from which on a system pod without a budget no
	// longer keeps its node. Default 1h. The name is spelt like the flag.
	BlockingSystemPodDistruptionTimeout *metav1.Duration `json:"blockingSystemPodDistruptionTimeout,omitempty"`
	// MinReplicaCount is how many replicas a ReplicaSet or ReplicationController must have for its
	// pods to be moved. Default 0.
	MinReplicaCount int32 `json:"minReplicaCount,omitempty"`
	// MaxPodEvictionTime is how long pods that their budgets hold back are tried to be evicted.
	// Default 2m.
	MaxPodEvictionTime *metav1.Duration `json:"maxPodEvictionTime,omitempty"`
}

// ScenarioMachine is a machine type.
type ScenarioMachine struct {
	// Name is also the label node.kubernetes.io/instance-type.
	Name string `json:"name"`
	// Resources are the node's capacity. cpu and memory are required, pods defaults to 110.
	Resources v1.ResourceList `json:"resources"`
	// Allocatable is the part of Resources that pods may use, if that is less.
	Allocatable v1.ResourceList   `json:"allocatable,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Taints      []v1.Taint        `json:"taints,omitempty"`
	// VolumeLimits are how many volumes a node can attach, by storage driver.
	VolumeLimits map[string]int32 `json:"volumeLimits,omitempty"`
	// Price of one node per hour.
	Price *resource.Quantity `json:"price,omitempty"`
}

// ScenarioNodeGroup is one group of the cloud. Its nodes are described by a machine (with labels
// and taints on top) or by a whole template.
type ScenarioNodeGroup struct {
	Name string `json:"name"`
	// Zone is the label topology.kubernetes.io/zone of its nodes.
	Zone string `json:"zone,omitempty"`
	// Zones are those of a group over several zones, instead of Zone. Each of its nodes is in one.
	Zones []string `json:"zones,omitempty"`
	// Distribution is how the cloud chooses the zone of a new node of such a group: Balanced, the
	// default, takes the zone with the fewest of its nodes among those with machines, Even waits for
	// machines in the zone with the fewest, Any takes the first zone with machines.
	Distribution string `json:"distribution,omitempty"`
	Min          int32  `json:"min,omitempty"`
	Max          *int32 `json:"max"`
	// Size nodes exist, ready, at the start. It may lie outside min and max.
	Size int32 `json:"size,omitempty"`
	// Machine is the name of one of spec.machines.
	Machine string            `json:"machine,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Taints  []v1.Taint        `json:"taints,omitempty"`
	// Template is a whole node instead of a machine.
	Template *v1.Node `json:"template,omitempty"`
	// RegistersAs is the machine that nodes have when they register, if it differs from what the
	// cloud says before.
	RegistersAs string `json:"registersAs,omitempty"`
	// Price of one node per hour; it takes precedence over the machine's.
	Price *resource.Quantity `json:"price,omitempty"`
	// AllOrNothing groups are either empty or at their max.
	AllOrNothing bool `json:"allOrNothing,omitempty"`

	NodeTimes `json:",inline"`
}

// NodeTimes are how long a node takes to start and to terminate.
type NodeTimes struct {
	// BootTime is from the order until the machine runs. Default 40s.
	BootTime *metav1.Duration `json:"bootTime,omitempty"`
	// RegistrationDelay is from then until the node exists. Default 0s.
	RegistrationDelay *metav1.Duration `json:"registrationDelay,omitempty"`
	// ReadyDelay is from then until the node is ready. Default 20s.
	ReadyDelay *metav1.Duration `json:"readyDelay,omitempty"`
	// ListDelay is from the order until the cloud lists the machine; its target size counts it at
	// once. Default 0s.
	ListDelay *metav1.Duration `json:"listDelay,omitempty"`
	// TerminationTime is from the deletion until the node is gone. Default 30s.
	TerminationTime *metav1.Duration `json:"terminationTime,omitempty"`
}

// NodeGroupsSource reads node groups from a file: either a list of Node templates as `kubectl get
// -o json|yaml` prints it, or Cluster Autoscaler's debugging snapshot. A template is named, in this
// order, by the annotation cluster-autoscaler.kwok.nodegroup/name, by the scenario's groupLabel, or
// by its own name. Bounds come from the annotations cluster-autoscaler.kwok.nodegroup/min-count,
// max-count and desired-count, unless they are given here.
type NodeGroupsSource struct {
	FileSource `json:",inline"`
	Min        *int32 `json:"min,omitempty"`
	Max        *int32 `json:"max,omitempty"`
	Size       *int32 `json:"size,omitempty"`

	NodeTimes `json:",inline"`
}

// FileSource names a file, relative to the scenario's folder.
type FileSource struct {
	// File holds objects as kubectl prints them.
	File string `json:"file,omitempty"`
	// Snapshot is a debugging snapshot of Cluster Autoscaler instead, of which node groups, nodes
	// or the pods on them are read.
	Snapshot string `json:"snapshot,omitempty"`
}

// PodsSource reads pods from a file. Daemon set pods are left out because they come with the nodes.
// Pods that have finished are left out as well.
type PodsSource struct {
	FileSource `json:",inline"`
	// Unbind makes bound pods pending: nodeName, status and the topology labels that binding added
	// are removed.
	Unbind bool `json:"unbind,omitempty"`
}

// StorageSource names a file with claims, volumes and the like, as kubectl prints them.
type StorageSource struct {
	File string `json:"file"`
}

// PodShape describes a pod in short form, or whole by Template.
type PodShape struct {
	// Labels of the pods, in addition to the label app with the name.
	Labels       map[string]string `json:"labels,omitempty"`
	Requests     v1.ResourceList   `json:"requests,omitempty"`
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	Tolerations  []v1.Toleration   `json:"tolerations,omitempty"`
	// Spread are topology spread constraints. By default the label selector selects the workload's
	// own pods, the topology key is the zone, maxSkew is 1 and whenUnsatisfiable is DoNotSchedule.
	Spread []SpreadConstraint `json:"spread,omitempty"`
	// OnePerNode allows one of the workload's pods per node.
	OnePerNode bool `json:"onePerNode,omitempty"`
	// Template is a whole pod template instead.
	Template *v1.PodTemplateSpec `json:"template,omitempty"`
}

// SpreadConstraint is a topology spread constraint with defaults.
type SpreadConstraint struct {
	// MaxSkew is at least 1; nil means 1.
	MaxSkew *int32 `json:"maxSkew,omitempty"`

	v1.TopologySpreadConstraint `json:",inline"`
}

// Kinds of a ScenarioWorkload.
const (
	WorkloadDeployment  = "Deployment"
	WorkloadStatefulSet = "StatefulSet"
	WorkloadReplicaSet  = "ReplicaSet"
	WorkloadJob         = "Job"
)

// ScenarioWorkload is a set of equal pods.
type ScenarioWorkload struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`
	// Kind is Deployment, the default, ReplicaSet, StatefulSet or Job (whose
	// pods do not finish). It determines which pods are deleted
	// first, and which WorkloadSpreads are about it.
	Kind string `json:"kind,omitempty"`
	// Replicas is how many pods are created at Arrive. Scale changes the number, and at Leave all
	// pods are deleted.
	Replicas int32           `json:"replicas"`
	Arrive   metav1.Duration `json:"arrive,omitzero"`
	// Leave is when all pods are deleted; unset means never.
	Leave *metav1.Duration `json:"leave,omitempty"`
	Scale []ScaleStep      `json:"scale,omitempty"`
	// Rollouts are when a new revision of a Deployment begins. Its pods replace those of the one
	// before, within MaxSurge and MaxUnavailable, numbers or percentages as in a Deployment.
	Rollouts       []ScenarioRollout   `json:"rollouts,omitempty"`
	MaxSurge       *intstr.IntOrString `json:"maxSurge,omitempty"`
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// VolumeClaimTemplates make the workload a StatefulSet: each of its pods has a claim NAME-POD
	// of every template, which outlives the pod.
	VolumeClaimTemplates []v1.PersistentVolumeClaim `json:"volumeClaimTemplates,omitempty"`

	PodShape `json:",inline"`
}

// ScaleStep changes the replicas of a workload.
type ScaleStep struct {
	At       metav1.Duration `json:"at"`
	Replicas int32           `json:"replicas"`
}

// ScenarioRollout is a new revision of a workload.
type ScenarioRollout struct {
	At metav1.Duration `json:"at"`
}

// ScenarioDaemonSet is a daemon set in short form.
type ScenarioDaemonSet struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace,omitempty"`

	PodShape `json:",inline"`
}

// ScenarioQuota is a limit shared by the groups named and those in the zones named; with neither it
// counts every group. At least one limit is given.
//
// +kubebuilder:object:generate=true
type ScenarioQuota struct {
	Name   string             `json:"name"`
	Groups []string           `json:"groups,omitempty"`
	Zones  []string           `json:"zones,omitempty"`
	Nodes  *int64             `json:"nodes,omitempty"`
	Cores  *int64             `json:"cores,omitempty"`
	Memory *resource.Quantity `json:"memory,omitempty"`
}

// ScenarioFaults are what goes wrong in the cloud.
type ScenarioFaults struct {
	StockOuts []StockOut  `json:"stockOuts,omitempty"`
	Outages   []Outage    `json:"outages,omitempty"`
	Calls     []CallFault `json:"calls,omitempty"`
	// ZonalShifts are not faults of the cloud: users shift zones away.
	ZonalShifts []ScenarioZonalShift `json:"zonalShifts,omitempty"`
}

// FaultWindow is a period of time, from From until before Until. Without Until it lasts to the end.
//
// +kubebuilder:object:generate=true
type FaultWindow struct {
	From  metav1.Duration  `json:"from,omitzero"`
	Until *metav1.Duration `json:"until,omitempty"`
}

// Contains reports whether a time is in the period.
func (w *FaultWindow) Contains(at time.Duration) bool {
	return at >= w.From.Duration && (w.Until == nil || at < w.Until.Duration)
}

// Modes of a StockOut.
const (
	// StockOutRefuse: the order fails at once. The default.
	StockOutRefuse = "Refuse"
	// StockOutFail: the order is accepted, and its instances fail.
	StockOutFail = "Fail"
	// StockOutSilent: the order is accepted, and no instance appears during the fault.
	StockOutSilent = "Silent"
)

// StockOut means that the named groups and those of the named zones, or all if none are named, run
// out of machines.
//
// +kubebuilder:object:generate=true
type StockOut struct {
	Groups      []string `json:"groups,omitempty"`
	Zones       []string `json:"zones,omitempty"`
	FaultWindow `json:",inline"`
	// Mode is Refuse, Fail or Silent.
	Mode string `json:"mode,omitempty"`
	// Left is how many nodes each of the groups can have in all during the fault.
	Left int32 `json:"left,omitempty"`
	// FailAfter is how long an instance appears to be healthy before it fails; mode Fail only.
	FailAfter *metav1.Duration `json:"failAfter,omitempty"`
}

// Modes of an Outage.
const (
	// OutageUnready: the nodes exist but are not ready. The default.
	OutageUnready = "Unready"
	// OutageVanish: the nodes are gone and are created again afterwards.
	OutageVanish = "Vanish"
)

// Outage takes whole zones down.
//
// +kubebuilder:object:generate=true
type Outage struct {
	Zones       []string `json:"zones"`
	FaultWindow `json:",inline"`
	// Mode is Unready or Vanish.
	Mode string `json:"mode,omitempty"`
}

// CallFault makes calls of the cloud slow, makes them fail, or both.
//
// +kubebuilder:object:generate=true
type CallFault struct {
	// Methods are the affected calls, such as IncreaseSize; by default all.
	Methods []string `json:"methods,omitempty"`
	// Groups are the affected groups; by default all.
	Groups      []string `json:"groups,omitempty"`
	FaultWindow `json:",inline"`
	// First limits the fault to this many calls; 0 is no limit.
	First int32 `json:"first,omitempty"`
	// Delay is how long the call takes.
	Delay *metav1.Duration `json:"delay,omitempty"`
	// Error is the message it fails with; without it the call succeeds.
	Error string `json:"error,omitempty"`
	// AfterEffect: the call takes effect before it fails.
	AfterEffect bool `json:"afterEffect,omitempty"`
}

// ScenarioZonalShift shifts zones away for a time: no node group grows there.
type ScenarioZonalShift struct {
	// Zones are values of TopologyKey, at least one.
	Zones []string `json:"zones"`
	// TopologyKey is the label of the failure domain. Default topology.kubernetes.io/zone.
	TopologyKey string `json:"topologyKey,omitempty"`
	// Reason is for people.
	Reason      string `json:"reason,omitempty"`
	FaultWindow `json:",inline"`
}

// ScenarioExpect is what must hold at the end. Omitted fields are not checked.
type ScenarioExpect struct {
	// Sizes of groups.
	Sizes map[string]int32 `json:"sizes,omitempty"`
	// Running and Pending count pods without daemon set pods.
	Running *int32 `json:"running,omitempty"`
	Pending *int32 `json:"pending,omitempty"`
	// Sets of similar groups.
	Sets [][]string `json:"sets,omitempty"`
	// MaxDifference bounds the difference of the sizes of groups.
	MaxDifference []ExpectDifference `json:"maxDifference,omitempty"`
	// Skew bounds how unevenly the pods of a workload are spread over zones.
	Skew []ExpectSkew `json:"skew,omitempty"`
	// MaxRounds bounds the rounds in which groups grew.
	MaxRounds *int32 `json:"maxRounds,omitempty"`
	// NodesOrdered is the sum of all increases that the cloud accepted.
	NodesOrdered *int32 `json:"nodesOrdered,omitempty"`
	// NodesScaledDown is how many nodes were removed because they were not needed.
	NodesScaledDown *int32 `json:"nodesScaledDown,omitempty"`
	// Subsets are the numbers of pods in the subsets of WorkloadSpreads, by name or namespace/name of
	// the WorkloadSpread. The subset "" is that of pods in none.
	Subsets map[string]map[string]int32 `json:"subsets,omitempty"`
	// Reasons are texts that occur in the report.
	Reasons []string `json:"reasons,omitempty"`
}

// ExpectDifference bounds the largest minus the smallest size of groups; without groups, of every
// set.
type ExpectDifference struct {
	Groups []string `json:"groups,omitempty"`
	Nodes  int32    `json:"nodes"`
}

// ExpectSkew bounds the largest minus the smallest number of running pods of a workload over the
// values of a node label.
type ExpectSkew struct {
	Workload string `json:"workload"`
	// TopologyKey defaults to topology.kubernetes.io/zone.
	TopologyKey string `json:"topologyKey,omitempty"`
	Pods        int32  `json:"pods"`
}
