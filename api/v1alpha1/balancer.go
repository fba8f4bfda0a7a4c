package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Balancer keeps a number of replicas shared among several targets: Deployments, StatefulSets, or whatever else has a
// Scale subresource, usually one for each zone or kind of machine. It has a Scale subresource itself, so that one
// HorizontalPodAutoscaler can drive all of the targets. The fields of the Balancer proposal have its names and meanings.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:resource:shortName=bal,categories=evenkeel
// +kubebuilder:printcolumn:name="Desired",type=integer,JSONPath=`.spec.replicas`,description="Replicas asked for"
// +kubebuilder:printcolumn:name="Observed",type=integer,JSONPath=`.status.replicas`,description="Pods that the selector matches"
// +kubebuilder:printcolumn:name="Running",type=integer,JSONPath=`.status.running`,description="Pods of the targets that are well"
// +kubebuilder:printcolumn:name="Balanced",type=string,JSONPath=`.status.conditions[?(@.type=="Balanced")].status`,description="Whether every target has what is its due"
// +kubebuilder:printcolumn:name="Fallback",type=string,JSONPath=`.status.conditions[?(@.type=="FallbackActive")].status`,description="Whether targets run replicas in place of others"
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="!self.spec.targets.exists(t, t.scaleTargetRef.kind == 'Balancer' && t.scaleTargetRef.name == self.metadata.name && has(t.scaleTargetRef.apiVersion) && t.scaleTargetRef.apiVersion.startsWith('evenkeel.dev/'))",message="a Balancer cannot be a target of itself",fieldPath=".spec.targets"
type Balancer struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec is what is wanted.
	Spec BalancerSpec `json:"spec"`
	// Status is what was found and done. The controller alone writes it.
	// +optional
	Status BalancerStatus `json:"status,omitzero"`
}

// BalancerList is what listing Balancers returns.
//
// +kubebuilder:object:root=true
type BalancerList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []Balancer `json:"items"`
}

// BalancerSpec is what a Balancer is asked for.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.policy.priorities) || [self.targets.map(t, t.name)].all(names, self.policy.priorities.targetOrder.all(n, n in names))",message="must name targets of this Balancer only",messageExpression="'no target is named ' + self.policy.priorities.targetOrder.filter(n, !self.targets.exists(t, t.name == n))[0]",fieldPath=".policy.priorities.targetOrder"
// +kubebuilder:validation:XValidation:rule="!has(self.policy.proportions) || [self.targets.map(t, t.name)].all(names, self.policy.proportions.targetProportions.all(n, n in names))",message="must name targets of this Balancer only",messageExpression="'no target is named ' + self.policy.proportions.targetProportions.filter(n, !self.targets.exists(t, t.name == n))[0]",fieldPath=".policy.proportions.targetProportions"
type BalancerSpec struct {
	// Replicas is how many pods the targets are to have together, 0 or more. Unset, the controller writes the number that it
	// last had, or else the sum that is found on the targets: so the field can be left to an autoscaler. While it is unset, the
	// Scale subresource can be written but not read.
	// +optional
	// +kubebuilder:validation:Minimum=0
	Replicas *int32 `json:"replicas,omitempty"`

	// Targets are what the replicas are shared among. The order of the list does not matter.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:XValidation:rule="[self.map(t, (has(t.scaleTargetRef.apiVersion) ? t.scaleTargetRef.apiVersion.split('/')[0] : 'apps') + '/' + t.scaleTargetRef.kind + '/' + t.scaleTargetRef.name)].all(refs, refs.all(r, refs.indexOf(r) == refs.lastIndexOf(r)))",message="must not refer to one object twice"
	Targets []BalancerTarget `json:"targets"`

	// Selector matches the pods of all targets, and no others. It should be the one of the Service before them. It must not
	// be empty: that would match every pod of the namespace.
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty"
	Selector LabelSelector `json:"selector"`

	// Policy says how the replicas are shared.
	Policy BalancerPolicy `json:"policy"`
}

// BalancerTarget is one of the things that replicas are shared among.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",message="must not be greater than maxReplicas",fieldPath=".minReplicas"
type BalancerTarget struct {
	// Name is what the policy and the status call the target.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Name string `json:"name"`

	// ScaleTargetRef refers to an object in the namespace of the Balancer that has a Scale subresource.
	ScaleTargetRef ScaleTargetReference `json:"scaleTargetRef"`

	// MinReplicas is how many replicas the target has in any case, even where that is more than the Balancer asks for; unset
	// means 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MinReplicas *int32 `json:"minReplicas,omitempty"`

	// MaxReplicas is how many replicas the target never exceeds, even where the Balancer asks for more; unset means no bound.
	// +optional
	// +kubebuilder:validation:Minimum=0
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
}

// ScaleTargetReference names the object that a target is.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="has(self.apiVersion) || self.kind in ['Deployment', 'StatefulSet', 'ReplicaSet']",message="is required unless kind is Deployment, StatefulSet or ReplicaSet",fieldPath=".apiVersion",reason=FieldValueRequired
type ScaleTargetReference struct {
	// APIVersion is group/version of the object. Unset, it is the preferred version of the group apps, which has the kinds
	// Deployment, StatefulSet and ReplicaSet; other kinds need it.
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

// BalancerPolicyName names a policy of a Balancer.
type BalancerPolicyName string

// The policies of a Balancer.
const (
	// PriorityPolicyName fills the targets in order.
	PriorityPolicyName BalancerPolicyName = "priority"
	// ProportionalPolicyName shares among the targets by rates.
	ProportionalPolicyName BalancerPolicyName = "proportional"
)

// BalancerPolicy says how replicas are shared. Of Priorities and Proportions exactly the one of the policy is set. What
// follows Fallback is not in the proposal: the options of a ReplicaDistribution, whose empty values mean the defaults, and a
// limit.
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

	// Fallback says when replicas that do not start are started on other targets too. Unset, they never are.
	// +optional
	Fallback *Fallback `json:"fallback,omitempty"`

	// Relief is who takes over what a target cannot run: Any (default), HealthyOnly, or LaterOnly, which goes with the policy
	// priority.
	// +optional
	// +kubebuilder:validation:Enum=Any;HealthyOnly;LaterOnly
	Relief Relief `json:"relief,omitempty"`

	// Rebalance false leaves replicas where they are as far as possible; unset means true.
	// +optional
	Rebalance *bool `json:"rebalance,omitempty"`

	// Rounding is how shares become whole numbers: LargestRemainder (default), Webster or DHondt. It has no effect under the
	// policy priority.
	// +optional
	// +kubebuilder:validation:Enum=LargestRemainder;Webster;DHondt
	Rounding Rounding `json:"rounding,omitempty"`

	// TieBreak is the order of equal claims: by Name (default), or by a Hash over the Balancer and the target, which differs
	// from Balancer to Balancer. It has no effect under the policy priority.
	// +optional
	// +kubebuilder:validation:Enum=Name;Hash
	TieBreak TieBreak `json:"tieBreak,omitempty"`

	// MinMode is what minReplicas is: Floor (default), a part of the target's share, or Additive, what the share comes on top
	// of. It has no effect under the policy priority.
	// +optional
	// +kubebuilder:validation:Enum=Floor;Additive
	MinMode MinMode `json:"minMode,omitempty"`

	// MaxMovesPerMinute is how many running replicas may leave a target for another one within any minute, 1 or more; unset
	// means no bound. Changes of the number of replicas are no moves.
	// +optional
	// +kubebuilder:validation:Minimum=1
	MaxMovesPerMinute *int32 `json:"maxMovesPerMinute,omitempty"`
}

// PriorityPolicy is what the policy priority needs.
//
// +kubebuilder:object:generate=true
type PriorityPolicy struct {
	// TargetOrder names targets. The first gets the replicas until its maxReplicas is reached or replicas fail to start, then
	// the next, and so on. A target that is not named has its minReplicas only.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.all(n, self.indexOf(n) == self.lastIndexOf(n))",message="must not name a target twice"
	TargetOrder []string `json:"targetOrder"`
}

// ProportionalPolicy is what the policy proportional needs.
//
// +kubebuilder:object:generate=true
type ProportionalPolicy struct {
	// TargetProportions are rates by name of target, 0 or more each. The greatest difference between the share that a target
	// has and the share that is its due is as small as can be. A target that reaches its maxReplicas leaves the calculation;
	// one that has no rate, or the rate 0, has its minReplicas only.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(n, self[n] >= 0)",message="must not be negative"
	TargetProportions map[string]int32 `json:"targetProportions"`
}

// DefaultStabilizationTime is the stabilizationTime of a Fallback that has none.
const DefaultStabilizationTime = 5 * time.Minute

// Fallback says how replicas that fail to start are recognized, and when they are taken to be well again.
//
// +kubebuilder:object:generate=true
type Fallback struct {
	// StartupTimeout is how long a pod may take to start before it is considered blocked and another one is started on
	// another target, 1s or more. When the pod has started after all, the other one may be stopped.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$`
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s')",message="must be 1s or more"
	StartupTimeout metav1.Duration `json:"startupTimeout"`

	// StabilizationTime is for how long all pods of a target have to be well before its fallback ends, 1s or more; unset
	// means 5m. The proposal has none.
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
	// ConditionAvailable is True when as many replicas run as are asked for, wherever.
	ConditionAvailable = "Available"
	// ConditionProgressing is False when replicas do not get where they are due by waiting alone.
	ConditionProgressing = "Progressing"
	// ConditionBalanced is True when every target has what is its due.
	ConditionBalanced = "Balanced"
	// ConditionTargetsReadable is False when a target cannot be read or must not be written.
	ConditionTargetsReadable = "TargetsReadable"
	// ConditionFallbackActive is True while a target runs replicas in place of another one.
	ConditionFallbackActive = "FallbackActive"
	// ConditionOverflow is True while there are replicas that can run on no target.
	ConditionOverflow = "Overflow"
	// ConditionMinimumsExceedReplicas is True while the minimums of the targets sum to more than the replicas asked for.
	ConditionMinimumsExceedReplicas = "MinimumsExceedReplicas"
)

// BalancerStatus is what was found and done.
//
// +kubebuilder:object:generate=true
type BalancerStatus struct {
	// ObservedGeneration is the generation of the spec that the status answers.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Replicas is how many pods the selector of the Balancer matches, but for those that have ended or are being deleted.
	// +optional
	Replicas int32 `json:"replicas"`

	// Running is how many pods of the targets are well.
	// +optional
	Running int32 `json:"running"`

	// RequestedReplicas is the last spec.replicas that was set; unset as long as there never was one. Where spec.replicas is
	// taken away, it is set to this number again.
	// +optional
	RequestedReplicas *int32 `json:"requestedReplicas,omitempty"`

	// Selector is the selector of the spec in the form of a query parameter, for clients of the Scale subresource.
	// +optional
	Selector string `json:"selector,omitempty"`

	// Targets has one entry for every target of the spec.
	// +optional
	// +listType=map
	// +listMapKey=name
	Targets []BalancerTargetStatus `json:"targets,omitempty"`

	// Moves are those that count against maxMovesPerMinute; unset where there is no such limit, or none were made.
	// +optional
	Moves *BalancerMoves `json:"moves,omitempty"`

	// Conditions are Available, Progressing, Balanced, TargetsReadable, FallbackActive, Overflow and MinimumsExceedReplicas.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// BalancerMoves counts replicas that left a target for another one. The count starts anew when a minute has passed since the
// last of them.
//
// +kubebuilder:object:generate=true
type BalancerMoves struct {
	// Count is how many left.
	Count int32 `json:"count"`
	// LastTime is when the last of them left, or the latest that it can have been.
	LastTime metav1.Time `json:"lastTime"`
}

// BalancerTargetStatus is what was found and done on one target. Counts are numbers of replicas.
//
// +kubebuilder:object:generate=true
type BalancerTargetStatus struct {
	// Name of the target.
	Name string `json:"name"`

	// Desired is what the target is to have.
	// +optional
	Desired int32 `json:"desired"`
	// Current is what the target asks for, as far as known: spec.replicas of its Scale.
	// +optional
	Current int32 `json:"current"`
	// Running is how many of its pods are well.
	// +optional
	Running int32 `json:"running"`
	// NotStarted is how many of its replicas have not started in time, including those that have no pod.
	// +optional
	NotStarted int32 `json:"notStarted"`
	// Pending is the part of Desired that cannot run now.
	// +optional
	Pending int32 `json:"pending"`

	// Reason is why the target has what it has: Capacity, Max, Min, Sticky, Order or Weight, as in a ReplicaDistribution, or
	// why it is left alone, such as Unreadable.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message explains the reason, and says what to do where something has to be done.
	// +optional
	Message string `json:"message,omitempty"`

	// BelowSizeSince is since when, without interruption, pods of the target have been missing or not well; unset while there
	// are none such. It begins anew when another pod has become well, and not when one is created again.
	// +optional
	BelowSizeSince *metav1.Time `json:"belowSizeSince,omitempty"`
	// BlockedSince is since when other targets have run replicas in its place; unset while they do not.
	// +optional
	BlockedSince *metav1.Time `json:"blockedSince,omitempty"`
	// FineSince is since when, without interruption, all pods of a blocked target have been well.
	// +optional
	FineSince *metav1.Time `json:"fineSince,omitempty"`
	// Capacity is how many replicas a blocked target is known to be able to run; unset while nothing is known.
	// +optional
	Capacity *int32 `json:"capacity,omitempty"`

	// Overwrites are the times that something else than the Balancer changed the size; unset where that was long ago.
	// +optional
	Overwrites *BalancerOverwrites `json:"overwrites,omitempty"`
}

// BalancerOverwrites counts how often something else than the Balancer changed the size of a target.
//
// +kubebuilder:object:generate=true
type BalancerOverwrites struct {
	// Count is how often, as far as the times lie close together.
	Count int32 `json:"count"`
	// LastTime is when it did last, or when the Balancer began to write the target again.
	LastTime metav1.Time `json:"lastTime"`
	// LeftAloneUntil is set while the target is left alone: until when, if the size is not changed again before.
	// +optional
	LeftAloneUntil *metav1.Time `json:"leftAloneUntil,omitempty"`
	// ObservedGeneration is the generation of the spec then.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}
