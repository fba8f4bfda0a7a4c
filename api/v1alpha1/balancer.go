package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Balancer shares a number of replicas among several targets: Deployments, StatefulSets, or other
// objects with a Scale subresource, usually one for each zone or kind of machine. It has a Scale
// subresource itself, so that one HorizontalPodAutoscaler can scale all of the targets. The fields
// of the Balancer proposal keep their names and meanings.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=bal,categories=evenkeel
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Replicas asked for"
// +kubebuilder:printcolumn:name="Observed",type=integer,JSONPath=`.status.replicas`,description="Pods that the selector matches"
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`,description="Pods of the targets that run"
// +kubebuilder:printcolumn:name="Balanced",type=string,JSONPath=`.status.conditions[?(@.type=="Balanced")].status`,description="Whether every target has its share"
// +kubebuilder:printcolumn:name="Fallback",type=string,JSONPath=`.status.conditions[?(@.type=="FallbackActive")].status`,description="Whether targets run replicas in place of others"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!self.spec.targets.exists(t, t.scaleTargetRef.kind == 'Balancer' && t.scaleTargetRef.name == self.metadata.name && has(t.scaleTargetRef.apiVersion) && t.scaleTargetRef.apiVersion.startsWith('evenkeel.dev/'))",message="a Balancer cannot be a target of itself",fieldPath=".spec.targets"
type Balancer struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is the desired state.
	Spec BalancerSpec `json:"spec"`
	// Status is the observed state. Only the controller writes it.
	// +optional
	Status BalancerStatus `json:"status,omitzero"`
}

// BalancerList is a list of Balancers.
//
// +kubebuilder:object:root=true
type BalancerList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Balancer `json:"items"`
}

// BalancerSpec is the desired state of a Balancer.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.policy.priorities) || [self.targets.map(t, t.name)].all(names, self.policy.priorities.targetOrder.all(n, n in names))",message="must name targets of this Balancer only",messageExpression="'no target is named ' + self.policy.priorities.targetOrder.filter(n, !self.targets.exists(t, t.name == n))[0]",fieldPath=".policy.priorities.targetOrder"
// +kubebuilder:validation:XValidation:rule="!has(self.policy.proportions) || [self.targets.map(t, t.name)].all(names, self.policy.proportions.targetProportions.all(n, n in names))",message="must name targets of this Balancer only",messageExpression="'no target is named ' + self.policy.proportions.targetProportions.filter(n, !self.targets.exists(t, t.name == n))[0]",fieldPath=".policy.proportions.targetProportions"
type BalancerSpec struct {
	// Replicas is how many pods the targets have together, 0 or more. If it is unset, the
	// controller sets it to the last number that it had, or else to the sum of the sizes of the
	// targets, so that the field can be left to an autoscaler. While it is unset, the Scale
	// subresource can be written but not read.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Targets are the objects that share the replicas. The order of the list does not matter.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="[self.map(t, (has(t.scaleTargetRef.apiVersion) ? t.scaleTargetRef.apiVersion.split('/')[0] : 'apps') + '/' + t.scaleTargetRef.kind + '/' + t.scaleTargetRef.name)].all(refs, refs.all(r, refs.indexOf(r) == refs.lastIndexOf(r)))",message="must not refer to one object twice"
	Targets []BalancerTarget `json:"targets"`

	// Selector matches the pods of all targets and no others. It is usually the selector of the
	// Service in front of them. It must not be empty, which would match every pod of the namespace.
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty"
	Selector LabelSelector `json:"selector"`

	// Policy is how the replicas are shared.
	Policy BalancerPolicy `json:"policy"`
}

// BalancerTarget is an object that shares the replicas.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",message="must not be greater than maxReplicas",fieldPath=".minReplicas"
type BalancerTarget struct {
	// Name is the name of the target in the policy and the status.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Name string `json:"name"`

	// ScaleTargetRef refers to an object in the namespace of the Balancer that has a Scale
	// subresource.
	ScaleTargetRef ScaleTargetReference `json:"scaleTargetRef"`

	// MinReplicas is how many replicas the target has at least, even if that is more than the
	// Balancer asks for; unset means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// MaxReplicas is how many replicas the target has at most, even if the Balancer asks for more;
	// unset means no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
}

// ScaleTargetReference refers to the object of a target.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="has(self.apiVersion) || self.kind in ['Deployment', 'StatefulSet', 'ReplicaSet']",message="is required unless kind is Deployment, StatefulSet or ReplicaSet",fieldPath=".apiVersion",reason=FieldValueRequired
type ScaleTargetReference struct {
	// APIVersion is the group/version of the object. It is required for kinds other than
	// Deployment, StatefulSet and ReplicaSet, which are those of the group apps if it is unset.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=127
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[a-z]([-a-z0-9]*[a-z0-9])?$`
	APIVersion string `json:"apiVersion,omitempty"`

	// Kind of the object, such as Deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Kind string `json:"kind"`

	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// String returns the reference in words.
func (r ScaleTargetReference) String() string {
	if r.APIVersion == "" {
		return r.Kind + " " + r.Name
	}
	return r.APIVersion + " " + r.Kind + " " + r.Name
}

// GroupKind is the kind of the object, which is one of the group apps without an apiVersion.
func (r ScaleTargetReference) GroupKind() schema.GroupKind {
	if r.APIVersion == "" {
		return schema.GroupKind{Group: "apps", Kind: r.Kind}
	}
	return schema.FromAPIVersionAndKind(r.APIVersion, r.Kind).GroupKind()
}

// Same reports whether two references are to one object, in whichever version.
func (r ScaleTargetReference) Same(other ScaleTargetReference) bool {
	return r.Name == other.Name && r.GroupKind() == other.GroupKind()
}

// BalancerPolicyName names a policy of a Balancer.
type BalancerPolicyName string

// The policies of a Balancer.
const (
	// PriorityPolicyName fills the targets in order.
	PriorityPolicyName BalancerPolicyName = "priority"
	// ProportionalPolicyName shares the replicas by rates.
	ProportionalPolicyName BalancerPolicyName = "proportional"
)

// BalancerPolicy is how replicas are shared. Of Priorities and Proportions, exactly the one of the
// policy is set. The fields after Fallback are not in the proposal: they are options of a
// ReplicaDistribution, whose empty values mean the defaults, and a limit.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="self.policyName != 'priority' || has(self.priorities)",message="is required when policyName is priority",fieldPath=".priorities",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="self.policyName == 'priority' || !has(self.priorities)",message="is for policyName priority only",fieldPath=".priorities",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.policyName != 'proportional' || has(self.proportions)",message="is required when policyName is proportional",fieldPath=".proportions",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="self.policyName == 'proportional' || !has(self.proportions)",message="is for policyName proportional only",fieldPath=".proportions",reason=FieldValueForbidden
// +kubebuilder:validation:XValidation:rule="self.policyName == 'priority' || !has(self.relief) || self.relief != 'LaterOnly'",message="LaterOnly is for policyName priority only",fieldPath=".relief"
type BalancerPolicy struct {
	// PolicyName is priority or proportional.
	// +kubebuilder:validation:Enum=priority;proportional
	PolicyName BalancerPolicyName `json:"policyName"`

	// Priorities belongs to the policy priority.
	// +optional
	Priorities *PriorityPolicy `json:"priorities,omitempty"`

	// Proportions belongs to the policy proportional.
	// +optional
	Proportions *ProportionalPolicy `json:"proportions,omitempty"`

	// Fallback is when replicas that do not start are also started on other targets; unset means
	// never.
	// +optional
	Fallback *Fallback `json:"fallback,omitempty"`

	// Relief is which targets take over replicas that a target cannot run: Any (default),
	// HealthyOnly, or LaterOnly, which needs the policy priority.
	// +optional
	// +kubebuilder:validation:Enum=Any;HealthyOnly;LaterOnly
	Relief Relief `json:"relief,omitempty"`

	// Rebalance false leaves replicas where they are as far as possible; unset means true.
	// +optional
	Rebalance *bool `json:"rebalance,omitempty"`

	// Rounding is how shares become whole numbers: LargestRemainder (default), Webster or DHondt.
	// It has no effect under the policy priority.
	// +optional
	// +kubebuilder:validation:Enum=LargestRemainder;Webster;DHondt
	Rounding Rounding `json:"rounding,omitempty"`

	// TieBreak is how ties are broken: by Name (default), or by a Hash over the Balancer and the
	// target, which differs between Balancers. It has no effect under the policy priority.
	// +optional
	// +kubebuilder:validation:Enum=Name;Hash
	TieBreak TieBreak `json:"tieBreak,omitempty"`

	// MinMode is how minimum and share combine: minReplicas is a part of the share (Floor, the
	// default), or the share comes on top of it (Additive). It has no effect under the policy
	// priority.
	// +optional
	// +kubebuilder:validation:Enum=Floor;Additive
	MinMode MinMode `json:"minMode,omitempty"`

	// MaxMovesPerMinute is how many running replicas may leave a target for another one within any
	// minute, 1 or more; unset means no bound. Changes of the number of replicas are not moves.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxMovesPerMinute *int32 `json:"maxMovesPerMinute,omitempty"`
}

// PriorityPolicy configures the policy priority.
//
// +kubebuilder:object:generate=true
type PriorityPolicy struct {
	// TargetOrder names targets. The first one gets replicas until it reaches its maxReplicas or
	// replicas fail to start, then the next one, and so on. A target that is not named has only its
	// minReplicas.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.all(n, self.indexOf(n) == self.lastIndexOf(n))",message="must not name a target twice"
	TargetOrder []string `json:"targetOrder"`
}

// ProportionalPolicy configures the policy proportional.
//
// +kubebuilder:object:generate=true
type ProportionalPolicy struct {
	// TargetProportions are rates by the name of the target, 0 or more each. The largest difference
	// between the replicas of a target and its exact share is as small as possible. A target that
	// reaches its maxReplicas leaves the calculation; a target with no rate, or the rate 0, has
	// only its minReplicas.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(n, self[n] >= 0)",message="must not be negative"
	TargetProportions map[string]int32 `json:"targetProportions"`
}

// DefaultStabilizationTime is the stabilizationTime of a Fallback that has none.
const DefaultStabilizationTime = 5 * time.Minute

// Fallback is when a target counts as not able to run its replicas, and when as recovered.
//
// +kubebuilder:object:generate=true
type Fallback struct {
	// StartupTimeout is how long a pod may take to start before it is considered blocked and
	// another one is started on another target, 1s or more. When the pod starts later, the other
	// one may be stopped.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be 1s or more"
	StartupTimeout metav1.Duration `json:"startupTimeout"`

	// StabilizationTime is how long all pods of a target have to run before its fallback ends, 1s
	// or more; unset means 5m. The proposal has none.
	// +optional
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be 1s or more"
	StabilizationTime metav1.Duration `json:"stabilizationTime,omitzero"`
}

// The condition types of a Balancer.
const (
	// ConditionAvailable is True when as many replicas run as are asked for, on whatever target.
	ConditionAvailable = "Available"
	// ConditionProgressing is False when waiting is not enough for every replica to run where it
	// should.
	ConditionProgressing = "Progressing"
	// ConditionBalanced is True when every target has its share.
	ConditionBalanced = "Balanced"
	// ConditionTargetsReadable is False when a target cannot be read or must not be written.
	ConditionTargetsReadable = "TargetsReadable"
	// ConditionFallbackActive is True while other targets are to run replicas of a blocked target.
	ConditionFallbackActive = "FallbackActive"
	// ConditionOverflow is True while replicas cannot run on any target.
	ConditionOverflow = "Overflow"
	// ConditionMinimumsExceedReplicas is True while the minimums of the targets sum to more than
	// the replicas asked for.
	ConditionMinimumsExceedReplicas = "MinimumsExceedReplicas"
)

// BalancerStatus is the observed state of a Balancer.
//
// +kubebuilder:object:generate=true
type BalancerStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Replicas is how many pods the selector of the Balancer matches, without those that have ended
	// or are being deleted.
	// +optional
	Replicas int32 `json:"replicas"`

	// Running is how many pods of the targets run.
	// +optional
	Running int32 `json:"running"`

	// RequestedReplicas is the last spec.replicas; unset if there never was one. If spec.replicas
	// is removed, it is set to this number again.
	// +optional
	RequestedReplicas *int32 `json:"requestedReplicas,omitempty"`

	// Selector is the selector of the spec in the form of a query parameter, for clients of the
	// Scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Targets has one entry for every target of the spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	Targets []BalancerTargetStatus `json:"targets,omitempty"`

	// Moves are the moves that count against maxMovesPerMinute; unset if there is no such limit, or
	// if there were no moves.
	// +optional
	Moves *ReplicaMoves `json:"moves,omitempty"`

	// Conditions are Available, Progressing, Balanced, TargetsReadable, FallbackActive, Overflow
	// and MinimumsExceedReplicas.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReplicaMoves counts replicas that left a target for another one. The count starts again a minute
// after the last of them.
//
// +kubebuilder:object:generate=true
type ReplicaMoves struct {
	// Count is how many replicas left.
	Count int32 `json:"count"`
	// LastTime is when the last of them left, or the latest time at which it may have left.
	LastTime metav1.Time `json:"lastTime"`
}

// BalancerTargetStatus is the observed state of a target. Counts are numbers of replicas.
//
// +kubebuilder:object:generate=true
type BalancerTargetStatus struct {
	// Name of the target.
	Name string `json:"name"`

	// Desired is the size that the target is to have.
	// +optional
	Desired int32 `json:"desired"`
	// Current is the size that the target has, as far as known: spec.replicas of its Scale.
	// +optional
	Current int32 `json:"current"`
	// Running is how many of its pods run.
	// +optional
	Running int32 `json:"running"`
	// NotStarted is how many of its replicas have not started in time, including those that have no
	// pod.
	// +optional
	NotStarted int32 `json:"notStarted"`
	// Pending is the part of Desired that cannot run now.
	// +optional
	Pending int32 `json:"pending"`

	// Reason is why the target is to have that size: Capacity, Max, Min, Sticky, Order or Weight,
	// as in a ReplicaDistribution, or why it is left alone, such as Unreadable.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message explains the reason, and says what to do if something must be done.
	// +optional
	Message string `json:"message,omitempty"`

	// BelowSizeSince is since when fewer pods of the target run than it asks for; unset while all
	// run. It starts again when another pod becomes ready, but not when a pod is deleted and
	// created again.
	// +optional
	BelowSizeSince *metav1.Time `json:"belowSizeSince,omitempty"`
	// BlockedSince is since when the target has had a capacity; unset while it has none.
	// +optional
	BlockedSince *metav1.Time `json:"blockedSince,omitempty"`
	// FineSince is since when a blocked target has run all its replicas, or more than its capacity.
	// +optional
	FineSince *metav1.Time `json:"fineSince,omitempty"`
	// Capacity is how many replicas a blocked target is known to be able to run; unset while it is
	// not blocked.
	// +optional
	Capacity *int32 `json:"capacity,omitempty"`

	// Overwrites counts recent changes of the size by something else than the Balancer; unset if
	// there are none.
	// +optional
	Overwrites *ReplicaOverwrites `json:"overwrites,omitempty"`
}

// ReplicaOverwrites counts how often something else than the controller changed a target or a local
// object.
//
// +kubebuilder:object:generate=true
type ReplicaOverwrites struct {
	// Count is the number of changes that are close together in time.
	Count int32 `json:"count"`
	// LastTime is the time of the last change, or when the controller began to write it again.
	LastTime metav1.Time `json:"lastTime"`
	// LeftAloneUntil is until when it is left alone, if it is not changed again before; unset if it
	// is written.
	// +optional
	LeftAloneUntil *metav1.Time `json:"leftAloneUntil,omitempty"`
	// ObservedGeneration is the generation of the spec at that time.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
