package v1alpha1

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// WorkloadSpread spreads the pods of one workload over ordered subsets, such as zones or kinds of
// machines. The workload itself stays as it is: pods get the rules of their subset when they are
// created.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:shortName=ews,categories=evenkeel
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.targetRef.kind`,description="Kind of the workload"
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.targetRef.name`,description="Name of the workload"
// +kubebuilder:printcolumn:name="Subsets",type=string,JSONPath=`.status.filled`,description="Pods of each subset, and how many it may have"
// +kubebuilder:printcolumn:name="Adaptive",type=string,JSONPath=`.spec.scheduleStrategy.type`,description="Whether pods that cannot be scheduled move on to a later subset"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type WorkloadSpread struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the desired state.
	Spec WorkloadSpreadSpec `json:"spec"`
	// Status is the observed state. Only evenkeel writes it.
	// +optional
	Status WorkloadSpreadStatus `json:"status,omitzero"`
}

// WorkloadSpreadList is a list of WorkloadSpreads.
//
// +kubebuilder:object:root=true
type WorkloadSpreadList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []WorkloadSpread `json:"items"`
}

// SubsetDistribution is how replicas are shared among the subsets.
type SubsetDistribution string

// The distributions.
const (
	// DistributeOrdered fills the subsets in the order of the list. Default.
	DistributeOrdered SubsetDistribution = "Ordered"
	// DistributeEven keeps the subsets level.
	DistributeEven SubsetDistribution = "Even"
	// DistributeWeighted gives every subset its base, and shares the rest by weight.
	DistributeWeighted SubsetDistribution = "Weighted"
)

// WhenFull is what happens to a pod that no subset has room for.
type WhenFull string

// The choices of whenFull.
const (
	// WhenFullAdmit creates the pod without the rules of a subset, and marks it. Default.
	WhenFullAdmit WhenFull = "Admit"
	// WhenFullRefuse refuses the pod; the controller of the workload tries again.
	WhenFullRefuse WhenFull = "Refuse"
)

// WhenPatchFails is what happens to a pod whose patch is refused.
type WhenPatchFails string

// The choices of whenPatchFails.
const (
	// WhenPatchFailsRefuse refuses the pod; the controller of the workload tries again. Default.
	WhenPatchFailsRefuse WhenPatchFails = "Refuse"
	// WhenPatchFailsAdmit creates the pod in its subset, without the patch.
	WhenPatchFailsAdmit WhenPatchFails = "Admit"
)

// WorkloadSpreadSpec is the desired state of a WorkloadSpread. What depends on several subsets is checked by the webhook, which
// names the one that is wrong: a rule of the schema can name the list only.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="self.targetRef.kind in ['Deployment', 'ReplicaSet', 'StatefulSet'] && self.targetRef.apiVersion.startsWith('apps/') || self.targetRef.kind == 'Job' && self.targetRef.apiVersion.startsWith('batch/') || has(self.targetFilter) && has(self.targetFilter.replicasPathList) && size(self.targetFilter.replicasPathList) > 0",message="must be a Deployment, ReplicaSet or StatefulSet of apps, or a Job of batch; any other kind needs targetFilter.replicasPathList",fieldPath=".targetRef.kind"
// +kubebuilder:validation:XValidation:rule="!has(self.distribution) || self.distribution != 'Weighted' || self.subsets.exists(s, !has(s.weight) || s.weight > 0)",message="a subset must have a weight above 0",fieldPath=".subsets"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduleStrategy) || !has(self.scheduleStrategy.adaptive) || has(self.scheduleStrategy.type) && self.scheduleStrategy.type == 'Adaptive'",message="must be Adaptive if adaptive is set",fieldPath=".scheduleStrategy.type"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduleStrategy) || !has(self.scheduleStrategy.type) || self.scheduleStrategy.type != 'Adaptive' || size(self.subsets) < 2 || !has(self.subsets[size(self.subsets) - 1].maxReplicas)",message="needs a last subset without maxReplicas",fieldPath=".scheduleStrategy.adaptive"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduleStrategy) || !has(self.scheduleStrategy.adaptive) || !has(self.scheduleStrategy.adaptive.rescheduleCriticalSeconds) || size(self.subsets) < 2 || self.scheduleStrategy.adaptive.rescheduleCriticalSeconds * (size(self.subsets) - 1) <= (has(self.scheduleStrategy.adaptive.unschedulableSeconds) ? self.scheduleStrategy.adaptive.unschedulableSeconds : 300) - 5",message="must be at most (unschedulableSeconds - 5) / (subsets - 1), so that a pod can try every subset before the first mark expires",fieldPath=".scheduleStrategy.adaptive.rescheduleCriticalSeconds"
type WorkloadSpreadSpec struct {
	// TargetRef is the workload, in the same namespace. It cannot be changed, except for the version.
	// +kubebuilder:validation:XValidation:rule="self.kind == oldSelf.kind && self.name == oldSelf.name && (self.apiVersion.contains('/') ? self.apiVersion.split('/')[0] : '') == (oldSelf.apiVersion.contains('/') ? oldSelf.apiVersion.split('/')[0] : '')",message="cannot be changed, except for the version: create another WorkloadSpread"
	TargetRef WorkloadReference `json:"targetRef"`

	// TargetFilter restricts what is managed, and says where the number of replicas is.
	// +optional
	TargetFilter *WorkloadFilter `json:"targetFilter,omitempty"`

	// Subsets of the workload, the preferred first.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=15
	Subsets []WorkloadSubset `json:"subsets"`

	// Distribution is how replicas are shared: Ordered (default) fills the subsets in the order of
	// the list, Even keeps them level, Weighted gives each its base and shares the rest by weight.
	// +optional
	// +kubebuilder:validation:Enum=Ordered;Even;Weighted
	Distribution SubsetDistribution `json:"distribution,omitempty"`

	// WhenFull is what happens to a pod that no subset has room for: Admit (default) creates it
	// without the rules of a subset, and it is deleted first; Refuse refuses it.
	// +optional
	// +kubebuilder:validation:Enum=Admit;Refuse
	WhenFull WhenFull `json:"whenFull,omitempty"`

	// WhenPatchFails is what happens to a pod whose patch is refused, such as after a change of the
	// workload: Refuse (default) refuses the pod, too; Admit creates it in its subset without the
	// patch.
	// +optional
	// +kubebuilder:validation:Enum=Refuse;Admit
	WhenPatchFails WhenPatchFails `json:"whenPatchFails,omitempty"`

	// ScheduleStrategy is what happens if pods cannot be scheduled.
	// +optional
	ScheduleStrategy WorkloadScheduleStrategy `json:"scheduleStrategy,omitzero"`

	// CreatingTimeoutSeconds is how long a pod that was admitted counts before it is seen; unset
	// means 30.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	CreatingTimeoutSeconds *int32 `json:"creatingTimeoutSeconds,omitempty"`

	// DeletingTimeoutSeconds has no effect: a pod counts until it is being deleted. It is accepted from
	// earlier versions.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	DeletingTimeoutSeconds *int32 `json:"deletingTimeoutSeconds,omitempty"`
}

// WorkloadReference names a workload of the same namespace.
//
// +kubebuilder:object:generate=true
type WorkloadReference struct {
	// APIVersion of the workload, such as apps/v1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([^/]+/)?[^/]+$`
	APIVersion string `json:"apiVersion"`
	// Kind of the workload.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// Name of the workload.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

// WorkloadFilter restricts what is managed of a workload.
//
// +kubebuilder:object:generate=true
type WorkloadFilter struct {
	// Selector selects the pods that are managed, by their labels; unset means all.
	// +optional
	Selector *LabelSelector `json:"selector,omitempty"`

	// ReplicasPathList are the fields of the workload whose sum is its number of replicas, such as
	// spec.replicas. An index of a list is written as a.1.b.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=32
	// +kubebuilder:validation:items:MaxLength=256
	// +kubebuilder:validation:items:Pattern=`^[^.]+(\.[^.]+)*$`
	ReplicasPathList []string `json:"replicasPathList,omitempty"`
}

// WorkloadSubset is a part of the pods, and the rules that they get.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || type(self.maxReplicas) == int",message="cannot be combined with a maxReplicas in percent",fieldPath=".minReplicas",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || type(self.maxReplicas) != int || self.minReplicas <= self.maxReplicas",message="must not be greater than maxReplicas",fieldPath=".minReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.base) || !has(self.maxReplicas) || type(self.maxReplicas) != int || self.base <= self.maxReplicas",message="must not be greater than maxReplicas",fieldPath=".base"
// +kubebuilder:validation:XValidation:rule="!has(self.base) || !has(self.minReplicas)",message="cannot be combined with minReplicas",fieldPath=".base",reason=FieldValueForbidden
type WorkloadSubset struct {
	// Name of the subset, a DNS label.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// MaxReplicas is how many replicas the subset has at most, as a number; unset means no bound. In
	// percent it is its share of the workload's replicas, as a weight is, and a subset without one has
	// what is left.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^(0|[1-9][0-9]{0,2})%$`
	// +kubebuilder:validation:XValidation:rule="type(self) == string || self >= 0 && self <= 2147483647",message="must be a number from 0 to 2147483647 or a whole percentage"
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`

	// MinReplicas is how many replicas the subset has at least, as far as the replicas of the
	// workload last; subsets that are earlier in the list come first. Unset means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// Weight is the share of what is beyond the bases, relative to other subsets; unset means 1. It
	// is for distribution Weighted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Weight *int32 `json:"weight,omitempty"`

	// Base is how many replicas the subset has before the rest is shared by weight; unset means 0. It
	// is for distribution Weighted.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Base *int32 `json:"base,omitempty"`

	// RequiredNodeSelector is what a node must match.
	// +optional
	RequiredNodeSelector *v1.NodeSelectorTerm `json:"requiredNodeSelector,omitempty"`

	// PreferredNodeSelector is what a node should match, with weights from 1 to 100.
	// +optional
	// +listType=atomic
	PreferredNodeSelector []v1.PreferredSchedulingTerm `json:"preferredNodeSelector,omitempty"`

	// Tolerations that the pods get in addition.
	// +optional
	// +listType=atomic
	Tolerations []v1.Toleration `json:"tolerations,omitempty"`

	// Patch is a strategic merge patch for the pods.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Patch *runtime.RawExtension `json:"patch,omitempty"`
}

// WorkloadScheduleStrategyType is what happens if pods cannot be scheduled.
type WorkloadScheduleStrategyType string

// The strategies.
const (
	// ScheduleFixed leaves pods in their subset. Default.
	ScheduleFixed WorkloadScheduleStrategyType = "Fixed"
	// ScheduleAdaptive lets pods that cannot be scheduled move on to a later subset.
	ScheduleAdaptive WorkloadScheduleStrategyType = "Adaptive"
)

// WorkloadScheduleStrategy is what happens if pods cannot be scheduled.
//
// +kubebuilder:object:generate=true
type WorkloadScheduleStrategy struct {
	// Type is Fixed (default) or Adaptive.
	// +optional
	// +kubebuilder:default=Fixed
	// +kubebuilder:validation:Enum=Fixed;Adaptive
	Type WorkloadScheduleStrategyType `json:"type,omitempty"`

	// Adaptive configures the type Adaptive.
	// +optional
	Adaptive *AdaptiveSchedule `json:"adaptive,omitempty"`
}

// Reschedule is how a pod that cannot be scheduled moves on.
type Reschedule string

// The ways to move on.
const (
	// RescheduleDelete deletes the pod; its workload creates another one. Default.
	RescheduleDelete Reschedule = "Delete"
	// RescheduleReserve is accepted from earlier versions, and means Delete.
	RescheduleReserve Reschedule = "Reserve"
)

// Defaults of a WorkloadSpread, in seconds if nothing else is said.
const (
	DefaultUnschedulableSeconds     int32 = 300
	DefaultAutoscalerTimeoutSeconds int32 = 900
	DefaultCreatingTimeoutSeconds   int32 = 30
	// DefaultMaxReschedulesPerMinute is a number of pods.
	DefaultMaxReschedulesPerMinute int32 = 60
)

// AdaptiveSchedule configures how pods that cannot be scheduled move on to later subsets.
//
// +kubebuilder:object:generate=true
type AdaptiveSchedule struct {
	// DisableSimulationSchedule true chooses subsets without asking whether a node has room.
	// +optional
	DisableSimulationSchedule bool `json:"disableSimulationSchedule,omitempty"`

	// RescheduleCriticalSeconds is how long a pod may be unschedulable before it moves on; unset or 0
	// means that no pod moves on. With n subsets it is at most (unschedulableSeconds - 5) / (n - 1).
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	RescheduleCriticalSeconds *int32 `json:"rescheduleCriticalSeconds,omitempty"`

	// UnschedulableSeconds is how long new pods pass over a subset in which pods could not be
	// scheduled, from the last time that happened; unset means 300.
	// +optional
	// +kubebuilder:validation:Minimum=5
	// +kubebuilder:validation:Maximum=86400
	UnschedulableSeconds *int32 `json:"unschedulableSeconds,omitempty"`

	// WaitForAutoscaler true (default) keeps a pod in its subset while a node for it is on its way.
	// +optional
	WaitForAutoscaler *bool `json:"waitForAutoscaler,omitempty"`

	// AutoscalerTimeoutSeconds is how long at most a pod waits for such a node; unset means 900.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	AutoscalerTimeoutSeconds *int32 `json:"autoscalerTimeoutSeconds,omitempty"`

	// Reschedule is how a pod moves on: Delete (default) deletes it, so that its workload creates
	// another one. Reserve is accepted from earlier versions, and means the same.
	// +optional
	// +kubebuilder:validation:Enum=Delete;Reserve
	Reschedule Reschedule `json:"reschedule,omitempty"`

	// MaxReschedulesPerMinute is how many pods may move on within any minute; unset means 60.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxReschedulesPerMinute *int32 `json:"maxReschedulesPerMinute,omitempty"`
}

// The condition types of a WorkloadSpread and of its subsets.
const (
	// ConditionTargetFound is False while the workload does not exist.
	ConditionTargetFound = "TargetFound"
	// ConditionSpecValid is False if the spec is refused; nothing is done then.
	ConditionSpecValid = "SpecValid"
	// ConditionScaleDownOrdered is False if the controller of the workload does not read deletion
	// costs: the order in which it deletes pods is its own.
	ConditionScaleDownOrdered = "ScaleDownOrdered"
	// ConditionAllInSubsets is False while pods run that belong to no subset.
	ConditionAllInSubsets = "AllInSubsets"
	// ConditionSchedulable of a subset is False while new pods pass over it.
	ConditionSchedulable = "Schedulable"
	// ConditionPatchFits of a subset is False while pods of the workload are refused with its patch.
	ConditionPatchFits = "PatchFits"
)

// WorkloadSpreadStatus is the observed state of a WorkloadSpread.
//
// +kubebuilder:object:generate=true
type WorkloadSpreadStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Replicas is how many replicas the workload asks for.
	// +optional
	Replicas int32 `json:"replicas"`

	// Surge is how many pods more there may be during a rollout.
	// +optional
	Surge int32 `json:"surge,omitempty"`

	// Unassigned is how many pods run that belong to no subset.
	// +optional
	Unassigned int32 `json:"unassigned,omitempty"`

	// Filled shows the pods of each subset, and how many it may have, in short.
	// +optional
	Filled string `json:"filled,omitempty"`

	// SubsetStatuses are about the pods of all revisions.
	// +optional
	// +listType=map
	// +listMapKey=name
	SubsetStatuses []WorkloadSubsetStatus `json:"subsetStatuses,omitempty"`

	// VersionedSubsetStatuses are about the pods of each revision, by the name of the revision.
	// +optional
	VersionedSubsetStatuses map[string][]WorkloadSubsetCount `json:"versionedSubsetStatuses,omitempty"`

	// Reschedules are what counts against maxReschedulesPerMinute; unset if no pod has moved on.
	// +optional
	Reschedules *ReplicaMoves `json:"reschedules,omitempty"`

	// Conditions are TargetFound, SpecValid, ScaleDownOrdered and AllInSubsets.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadSubsetStatus is the observed state of a subset over all revisions.
//
// +kubebuilder:object:generate=true
type WorkloadSubsetStatus struct {
	// Name of the subset.
	Name string `json:"name"`
	// MaxReplicas is how many replicas the subset may have now, -1 if there is no bound.
	// +optional
	MaxReplicas int32 `json:"maxReplicas"`
	// Replicas is how many pods are active.
	// +optional
	Replicas int32 `json:"replicas"`
	// MissingReplicas is how many pods more the subset may have, -1 if there is no bound.
	// +optional
	MissingReplicas int32 `json:"missingReplicas"`
	// UnschedulableUntil is until when new pods pass over the subset; unset if they do not.
	// +optional
	UnschedulableUntil *metav1.Time `json:"unschedulableUntil,omitempty"`
	// Conditions are Schedulable, and PatchFits if the subset has a patch.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// WorkloadSubsetCount is the observed state of a subset in one revision of the workload.
//
// +kubebuilder:object:generate=true
type WorkloadSubsetCount struct {
	// Name of the subset.
	Name string `json:"name"`
	// Replicas is how many pods are active, as far as the controller has seen.
	// +optional
	Replicas int32 `json:"replicas"`
	// MissingReplicas is how many pods more the subset may have, -1 if there is no bound.
	// +optional
	MissingReplicas int32 `json:"missingReplicas"`
	// CreatingPods are pods that were admitted and are not in Replicas yet, with the time.
	// +optional
	CreatingPods map[string]metav1.Time `json:"creatingPods,omitempty"`
}
