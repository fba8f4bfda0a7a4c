package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// FederatedReplicaSet says how many replicas of a pod run over all member clusters, and how they
// are preferred to lie. The controller keeps one local object in each cluster, a ReplicaSet or a
// Deployment of the same namespace and name, and starts elsewhere what a cluster cannot run. It has
// a Scale subresource, so that one HorizontalPodAutoscaler can scale the sum over all clusters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=frs,categories=evenkeel
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Replicas asked for"
// +kubebuilder:printcolumn:name="Current",type=integer,JSONPath=`.status.replicas`,description="Pods in all clusters"
// +kubebuilder:printcolumn:name="Ready",type=integer,JSONPath=`.status.readyReplicas`,description="Pods that are ready"
// +kubebuilder:printcolumn:name="Placed",type=string,JSONPath=`.status.conditions[?(@.type=="Placed")].status`,description="Whether every replica has a cluster that is able to run it"
// +kubebuilder:printcolumn:name="Settled",type=string,JSONPath=`.status.conditions[?(@.type=="Settled")].status`,description="Whether nothing moves or is about to"
// +kubebuilder:printcolumn:name="Unplaced",type=integer,JSONPath=`.status.unplaced`,description="Replicas that no cluster is able to run, or may have",priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Settled")].message`,description="What moves or is about to",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type FederatedReplicaSet struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the desired state.
	Spec FederatedReplicaSetSpec `json:"spec"`
	// Status is the observed state. Only the controller writes it.
	// +optional
	Status FederatedReplicaSetStatus `json:"status,omitzero"`
}

// FederatedReplicaSetList is a list of FederatedReplicaSets.
//
// +kubebuilder:object:root=true
type FederatedReplicaSetList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []FederatedReplicaSet `json:"items"`
}

// LocalKind is the kind of the objects in the member clusters.
type LocalKind string

// The local kinds.
const (
	// LocalReplicaSet leaves pods as they are when the template changes.
	LocalReplicaSet LocalKind = "ReplicaSet"
	// LocalDeployment rolls a change of the template out.
	LocalDeployment LocalKind = "Deployment"
)

// Cascade is what happens to the local objects when the FederatedReplicaSet is deleted.
type Cascade string

// The choices of cascade.
const (
	// CascadeOrphan leaves local objects and pods running.
	CascadeOrphan Cascade = "Orphan"
	// CascadeDelete deletes the local objects with their pods.
	CascadeDelete Cascade = "Delete"
)

// Rollout is how a change of the template reaches the clusters.
type Rollout string

// The rollouts.
const (
	// RolloutAllAtOnce changes the local objects of all clusters.
	RolloutAllAtOnce Rollout = "AllAtOnce"
	// RolloutOneByOne changes the next cluster when all replicas of the last one run with the new
	// template.
	RolloutOneByOne Rollout = "OneByOne"
)

// FederatedReplicaSetSpec is the desired state of a FederatedReplicaSet.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchLabels) || self.selector.matchLabels.all(k, has(self.template.metadata) && has(self.template.metadata.labels) && k in self.template.metadata.labels && self.template.metadata.labels[k] == self.selector.matchLabels[k])",message="must be labels that spec.selector matches",fieldPath=".template.metadata.labels"
// +kubebuilder:validation:XValidation:rule="!has(self.selector.matchExpressions) || self.selector.matchExpressions.all(e, has(self.template.metadata) && has(self.template.metadata.labels) && e.key in self.template.metadata.labels ? (e.operator == 'Exists' || e.operator == 'In' && has(e.values) && self.template.metadata.labels[e.key] in e.values || e.operator == 'NotIn' && !(has(e.values) && self.template.metadata.labels[e.key] in e.values)) : e.operator in ['NotIn', 'DoesNotExist'])",message="must be labels that spec.selector matches",fieldPath=".template.metadata.labels"
// +kubebuilder:validation:XValidation:rule="!has(self.rollout) || self.rollout == 'AllAtOnce' || has(self.localKind) && self.localKind == 'Deployment'",message="OneByOne is for localKind Deployment only: a ReplicaSet rolls nothing out",fieldPath=".rollout"
type FederatedReplicaSetSpec struct {
	// Replicas is how many pods run in all clusters together, 0 or more.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Selector matches the pods in every cluster. It must not be empty and cannot be changed.
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another FederatedReplicaSet"
	Selector LabelSelector `json:"selector"`

	// Template is the pod that runs.
	Template PodTemplate `json:"template"`

	// LocalKind is the kind of the objects in the clusters, ReplicaSet (default) or Deployment. It
	// cannot be changed.
	// +optional
	// +kubebuilder:default=ReplicaSet
	// +kubebuilder:validation:Enum=ReplicaSet;Deployment
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: create another FederatedReplicaSet"
	LocalKind LocalKind `json:"localKind,omitempty"`

	// Preferences say where the replicas should run. Unset, they run in every cluster, evenly.
	// +optional
	Preferences *FederatedPreferences `json:"preferences,omitempty"`

	// Rounding is how shares become whole numbers: LargestRemainder (default), Webster, which never
	// takes a replica away when the total grows, or DHondt.
	// +optional
	// +kubebuilder:validation:Enum=LargestRemainder;Webster;DHondt
	Rounding Rounding `json:"rounding,omitempty"`

	// Fallback is when replicas that do not start in a cluster are started in another.
	// +optional
	Fallback FederatedFallback `json:"fallback,omitzero"`

	// MaxMovesPerMinute is how many running replicas may leave a cluster for another one within any
	// minute, 1 or more; unset means no bound. Changes of the number of replicas are not moves.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxMovesPerMinute *int32 `json:"maxMovesPerMinute,omitempty"`

	// Rollout is how a change of the template reaches the clusters: AllAtOnce (default), or OneByOne,
	// which needs localKind Deployment.
	// +optional
	// +kubebuilder:validation:Enum=AllAtOnce;OneByOne
	Rollout Rollout `json:"rollout,omitempty"`

	// Cascade is what happens to the local objects when this object is deleted: Orphan (default)
	// leaves them and their pods running, Delete deletes them.
	// +optional
	// +kubebuilder:default=Orphan
	// +kubebuilder:validation:Enum=Orphan;Delete
	Cascade Cascade `json:"cascade,omitempty"`
}

// PodTemplate is the pod that runs. Its spec goes to the member clusters as it is written: they may
// know fields that the host does not, and it is they who validate it.
//
// +kubebuilder:object:generate=true
type PodTemplate struct {
	// Metadata of the pods.
	// +optional
	Metadata PodTemplateMetadata `json:"metadata,omitzero"`

	// Spec is the PodSpec. An invalid one is refused by the member clusters; the status says so.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	Spec runtime.RawExtension `json:"spec"`
}

// PodTemplateMetadata is the metadata of pods.
//
// +kubebuilder:object:generate=true
type PodTemplateMetadata struct {
	// Labels of the pods, which the selector has to match.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Labels map[string]LabelValue `json:"labels,omitempty"`
	// Annotations of the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=100
	Annotations map[string]string `json:"annotations,omitempty"`
}

// FederatedPreferences say where replicas should run.
//
// +kubebuilder:object:generate=true
type FederatedPreferences struct {
	// Rebalance true moves running replicas towards the preferred layout, one when its replacement
	// runs. False (default) leaves them where they are: only what is new, or does not run, goes
	// where it should.
	// +optional
	Rebalance bool `json:"rebalance,omitempty"`

	// Clusters has an entry for a cluster by its name, for clusters by their labels if the entry has
	// a selector, and for all others under "*". One entry applies to a cluster: the one of its name,
	// else the first in the order of names whose selector matches, else "*". It replaces the other
	// ones completely. A cluster that no entry applies to has no replicas. Unset means "*" with the
	// weight 1; so every cluster has an equal share.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, k == '*' || size(k) <= 63 && k.matches('^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$'))",message="every key must be the name of a cluster, a name for a selector, or \"*\""
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || !has(self['*'].selector)",message="the entry \"*\" is for all other clusters and cannot have a selector"
	Clusters map[string]FederatedPreference `json:"clusters,omitempty"`
}

// ClusterPreference says how many replicas a cluster should have.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",message="must not be greater than maxReplicas",fieldPath=".minReplicas"
type ClusterPreference struct {
	// MinReplicas is how many replicas there are at least, as far as the total allows; unset means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// MaxReplicas is how many replicas there are at most; unset means no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`

	// Weight is the share relative to others, 0 or more. Unset means 0, which is no more than
	// minReplicas; the status says so.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000000000
	Weight *int32 `json:"weight,omitempty"`
}

// FederatedPreference says how many replicas a cluster should have, or with a selector, several
// clusters together.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",message="must not be greater than maxReplicas",fieldPath=".minReplicas"
// +kubebuilder:validation:XValidation:rule="has(self.selector) || !has(self.clusters)",message="are for entries with a selector only",fieldPath=".clusters",reason=FieldValueForbidden
type FederatedPreference struct {
	ClusterPreference `json:",inline"`

	// Tier is the place of the entry in the order of filling. The clusters of the lowest tier get
	// replicas until they are full or have their maxReplicas, then those of the next. They are
	// emptied in reverse. Weights count within a tier. Unset means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1000
	Tier int32 `json:"tier,omitempty"`

	// Selector makes the entry one of clusters by their labels. The minReplicas, maxReplicas and
	// weight are those of all of them together.
	// +optional
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty"
	Selector *ClusterSelector `json:"selector,omitempty"`

	// Clusters say how the clusters that the selector matches share among themselves, by name or
	// "*". Unset means evenly.
	// +optional
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=100
	Clusters map[string]ClusterPreference `json:"clusters,omitempty"`
}

// ClusterSelector selects clusters by their labels. In JSON it is the LabelSelector of Kubernetes.
//
// +kubebuilder:object:generate=true
// +structType=atomic
type ClusterSelector struct {
	// MatchLabels are labels that a cluster must have with these values.
	// +optional
	// +kubebuilder:validation:MaxProperties=10
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 317 && !format.qualifiedName().validate(k).hasValue())",message="every key must be a label key",messageExpression="self.filter(k, size(k) > 317 || format.qualifiedName().validate(k).hasValue())[0] + ' is not a label key'"
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`

	// MatchExpressions are further requirements on the labels of a cluster.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	MatchExpressions []LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// Defaults of FederatedFallback.
const (
	DefaultNormalTime                    = time.Minute
	DefaultFederatedStartupTimeout       = 5 * time.Minute
	DefaultFederatedProbe          int32 = 2
)

// FederatedFallback is when replicas that do not start in a cluster are started in another.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="(has(self.normalTime) ? duration(self.normalTime) : duration('1m')) <= (has(self.startupTimeout) ? duration(self.startupTimeout) : duration('5m'))",message="must not be longer than startupTimeout",fieldPath=".normalTime"
type FederatedFallback struct {
	// NormalTime is how long it is normal that a pod waits, 1s or more; unset means 1m. A cluster
	// with pods that wait longer takes no replicas over from others.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be 1s or more"
	NormalTime metav1.Duration `json:"normalTime,omitzero"`

	// StartupTimeout is how long a pod may take to start before it is started in another cluster, 1s
	// or more; unset means 5m. Pods that could not be created count the same.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be 1s or more"
	StartupTimeout metav1.Duration `json:"startupTimeout,omitzero"`

	// StabilizationTime is how long all pods of a cluster have to run before its share returns, 1s or
	// more; unset means 5m.
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be 1s or more"
	StabilizationTime metav1.Duration `json:"stabilizationTime,omitzero"`

	// Probe is how many replicas stay waiting in a cluster that cannot run its share, 1 or more;
	// unset means 2. When they run, the cluster has room again.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Probe *int32 `json:"probe,omitempty"`
}

// The condition types of a FederatedReplicaSet.
const (
	// ConditionPlaced is True when every replica has a cluster that is able to run it.
	ConditionPlaced = "Placed"
	// ConditionClustersReachable is True when every cluster can be reached that has replicas, or an entry of
	// its name.
	ConditionClustersReachable = "ClustersReachable"
	// ConditionSettled is True when nothing moves or is about to.
	ConditionSettled = "Settled"
	// ConditionPreferencesClear is False when the preferences say something that is easily
	// misunderstood.
	ConditionPreferencesClear = "PreferencesClear"
)

// FederatedReplicaSetStatus is the observed state of a FederatedReplicaSet.
//
// +kubebuilder:object:generate=true
type FederatedReplicaSetStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Replicas is how many pods there are in all clusters, without those that have ended or are being
	// deleted. Clusters that cannot be reached count as last known, until they are lost.
	// +optional
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is how many of them are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// Unplaced is how many replicas no cluster is able to run, or may have.
	// +optional
	Unplaced int32 `json:"unplaced"`

	// AskedReplicas is the number of replicas that was last distributed.
	// +optional
	AskedReplicas int32 `json:"askedReplicas"`

	// Selector is the selector of the spec in the form of a query parameter, for clients of the
	// Scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Clusters has an entry for every cluster that has replicas or should have.
	// +optional
	// +listType=map
	// +listMapKey=name
	Clusters []FederatedClusterStatus `json:"clusters,omitempty"`

	// Moves are the moves that count against maxMovesPerMinute; unset if there were none.
	// +optional
	Moves *ReplicaMoves `json:"moves,omitempty"`

	// Conditions are Placed, ClustersReachable, Settled and PreferencesClear.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Cluster is the status of a cluster; nil if there is none.
func (s *FederatedReplicaSetStatus) Cluster(name string) *FederatedClusterStatus {
	for i := range s.Clusters {
		if s.Clusters[i].Name == name {
			return &s.Clusters[i]
		}
	}
	return nil
}

// FederatedClusterStatus is the observed state of a FederatedReplicaSet in one cluster. Counts are
// numbers of replicas.
//
// +kubebuilder:object:generate=true
type FederatedClusterStatus struct {
	// Name of the cluster.
	Name string `json:"name"`

	// Desired is how many replicas the cluster is to have.
	// +optional
	Desired int32 `json:"desired"`
	// Written is spec.replicas of the local object, as far as known.
	// +optional
	Written int32 `json:"written"`
	// Pods is how many pods there are, without those that have ended or are being deleted.
	// +optional
	Pods int32 `json:"pods"`
	// Running is how many of them have started and do not crash.
	// +optional
	Running int32 `json:"running"`
	// Ready is how many of them are ready.
	// +optional
	Ready int32 `json:"ready"`
	// Unschedulable is how many pods have not started within startupTimeout.
	// +optional
	Unschedulable int32 `json:"unschedulable"`
	// Uncreated is how many replicas have had no pod for longer than startupTimeout, because of a
	// quota or admission, or because the local object was refused.
	// +optional
	Uncreated int32 `json:"uncreated"`
	// Pending is the part of Desired that cannot run there now: the probe, and what has no place
	// elsewhere.
	// +optional
	Pending int32 `json:"pending"`

	// Reachable reports whether the cluster can be reached.
	// +optional
	Reachable bool `json:"reachable"`

	// Reason is why the cluster is to have that number: Capacity, Max, Min, Sticky, Order or Weight,
	// as in a ReplicaDistribution, or why it is treated otherwise, such as Unreachable.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message explains how the number came about.
	// +optional
	Message string `json:"message,omitempty"`

	// Capacity is how many replicas the cluster is known to be able to run; unset while no limit is
	// known.
	// +optional
	Capacity *int32 `json:"capacity,omitempty"`
	// BelowSizeSince is since when fewer pods run than the cluster has; unset while all run.
	// +optional
	BelowSizeSince *metav1.Time `json:"belowSizeSince,omitempty"`
	// BlockedSince is since when the cluster has had a capacity; unset while it has none.
	// +optional
	BlockedSince *metav1.Time `json:"blockedSince,omitempty"`
	// FineSince is since when a blocked cluster has run all its replicas, or more than its capacity.
	// +optional
	FineSince *metav1.Time `json:"fineSince,omitempty"`
	// Refused is about a write that fails; unset if none does.
	// +optional
	Refused *FederatedRefusal `json:"refused,omitempty"`
	// RollingSince is since when the local Deployment has been replacing pods of an earlier template;
	// unset if it is not. Until it is done, no probe waits there and Capacity does not rise.
	// +optional
	RollingSince *metav1.Time `json:"rollingSince,omitempty"`
	// Overwrites counts recent changes of the local object by something else than this controller;
	// unset if there are none.
	// +optional
	Overwrites *ReplicaOverwrites `json:"overwrites,omitempty"`

	// Revision is the revision of the local object: a hash of what was written there.
	// +optional
	Revision string `json:"revision,omitempty"`
	// Content is a hash of the pod template that the cluster made of it. If the local object has
	// another one, somebody else has changed it.
	// +optional
	Content string `json:"content,omitempty"`
}

// FederatedRefusal is about a write that a cluster refuses, or that fails for another reason.
//
// +kubebuilder:object:generate=true
type FederatedRefusal struct {
	// Replicas is the number that was to be written.
	Replicas int32 `json:"replicas"`
	// Count is how often it has failed in succession.
	Count int32 `json:"count"`
	// FirstTime is when it failed first. What is missing startupTimeout later is started in other
	// clusters.
	// +optional
	FirstTime metav1.Time `json:"firstTime,omitzero"`
	// LastTime is when it failed last. It is tried again after a time that grows from one second to
	// five minutes.
	LastTime metav1.Time `json:"lastTime"`
	// Message is the answer of the cluster, or why there is none.
	// +optional
	Message string `json:"message,omitempty"`
}
