package v1alpha1

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindMemberCluster is the kind of a MemberCluster, a custom resource.
const KindMemberCluster = "MemberCluster"

// LabelFederated is on every local object in a member cluster, and on its pods. The controllers
// read only what has it.
const LabelFederated = "evenkeel.dev/federated"

// AnnotationFederatedUID on a local object is the UID of the FederatedReplicaSet that it was written
// for.
const AnnotationFederatedUID = "evenkeel.dev/federated-uid"

// AnnotationFederatedAdopted on a local object says that it was somebody else's before: it is never deleted.
const AnnotationFederatedAdopted = "evenkeel.dev/federated-adopted"

// MemberCluster is a cluster that runs replicas of FederatedReplicaSets. Its labels, such as
// topology.kubernetes.io/region and topology.kubernetes.io/zone, are those that preferences select
// clusters by. It is named in preferences by its own name.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,shortName=mc,categories=evenkeel
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].status`,description="Whether the cluster answers"
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].reason`,description="Why it is or is not reachable"
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`,description="Version of its API server"
// +kubebuilder:printcolumn:name="Region",type=string,JSONPath=`.metadata.labels.topology\.kubernetes\.io/region`,description="Region of the cluster"
// +kubebuilder:printcolumn:name="Zone",type=string,JSONPath=`.metadata.labels.topology\.kubernetes\.io/zone`,description="Zone of the cluster",priority=1
// +kubebuilder:printcolumn:name="Taints",type=string,JSONPath=`.spec.taints[*].key`,description="Keys of the taints that keep new replicas out",priority=1
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].message`,description="What is wrong, and what to do",priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 63",message="must be at most 63 characters",fieldPath=".metadata"
type MemberCluster struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// Spec says how the cluster is reached and what may run there.
	Spec MemberClusterSpec `json:"spec"`
	// Status is the observed state. Only the controller writes it.
	// +optional
	Status MemberClusterStatus `json:"status,omitzero"`
}

// MemberClusterList is a list of MemberClusters.
//
// +kubebuilder:object:root=true
type MemberClusterList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitzero"`

	Items []MemberCluster `json:"items"`
}

// MemberClusterSpec says how a cluster is reached and what may run there.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="has(self.kubeconfigSecretRef) != has(self.clusterProfileRef)",message="must have exactly one of kubeconfigSecretRef and clusterProfileRef"
type MemberClusterSpec struct {
	// KubeconfigSecretRef refers to the Secret with the kubeconfig of the cluster. When the Secret
	// changes, the new credentials are used at once.
	// +optional
	KubeconfigSecretRef KubeconfigSecretReference `json:"kubeconfigSecretRef,omitzero"`

	// ClusterProfileRef refers to the ClusterProfile of the cluster. The controller sets it in the
	// MemberCluster that it makes for each ClusterProfile in its namespace.
	// +optional
	ClusterProfileRef *ClusterProfileReference `json:"clusterProfileRef,omitempty"`

	// FixedNodes says that the nodes of the cluster are all that it has: no autoscaler adds any. The
	// controllers read them then, and give the cluster only what its nodes have room for. Without it
	// the room is not known, and a cluster shows what it is able to run by what it runs. The right
	// to read nodes is needed for it, which evenkeel cluster join gives with --fixed-nodes.
	// +optional
	FixedNodes bool `json:"fixedNodes,omitempty"`

	// Takeover is what happens where an object of the name of a local one is there already: Unowned
	// (default) overwrites it unless a controller owns it, Never leaves it as it is.
	// +optional
	// +kubebuilder:default=Unowned
	// +kubebuilder:validation:Enum=Unowned;Never
	Takeover Takeover `json:"takeover,omitempty"`

	// Taints keep replicas out of the cluster. They concern every FederatedReplicaSet.
	// +optional
	// +listType=map
	// +listMapKey=key
	// +kubebuilder:validation:MaxItems=16
	Taints []ClusterTaint `json:"taints,omitempty"`
}

// Takeover is which objects of others may be overwritten.
type Takeover string

// The choices of takeover.
const (
	// TakeoverUnowned overwrites objects that no controller owns.
	TakeoverUnowned Takeover = "Unowned"
	// TakeoverNever overwrites none.
	TakeoverNever Takeover = "Never"
)

// KubeconfigSecretReference refers to a key of a Secret in the namespace of the controllers.
//
// +kubebuilder:object:generate=true
type KubeconfigSecretReference struct {
	// Name of the Secret, in the namespace of the controllers.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`

	// Key of the Secret whose value is the kubeconfig. The kubeconfig holds its credentials itself:
	// one that names files, or a command or plugin to obtain credentials, is refused.
	// +optional
	// +kubebuilder:default=kubeconfig
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[-._a-zA-Z0-9]+$`
	Key string `json:"key,omitempty"`
}

// ClusterProfileReference refers to a ClusterProfile of multicluster.x-k8s.io in the namespace of the
// controllers. The address of the cluster is that of its access provider secretreader, and the token
// is in the key token of the Secret with the name of the ClusterProfile, as that provider is defined.
// Access providers that run a command are never used.
//
// +kubebuilder:object:generate=true
type ClusterProfileReference struct {
	// Name of the ClusterProfile, in the namespace of the controllers.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// LabelClusterProfile marks a MemberCluster that the controller has made for a ClusterProfile, and
// deletes with it.
const LabelClusterProfile = "evenkeel.dev/cluster-profile"

// DefaultKubeconfigKey is the key of a KubeconfigSecretReference that has none.
const DefaultKubeconfigKey = "kubeconfig"

// ClusterTaint keeps replicas out of a cluster.
//
// +kubebuilder:object:generate=true
type ClusterTaint struct {
	// Key of the taint.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?$`
	Key string `json:"key"`

	// Value of the taint, for people.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^([a-zA-Z0-9]([-._a-zA-Z0-9]*[a-zA-Z0-9])?)?$`
	Value string `json:"value,omitempty"`

	// Effect is NoSchedule, with which the cluster keeps the replicas that it has and gets no more,
	// or NoExecute, with which its replicas move to other clusters.
	// +kubebuilder:validation:Enum=NoSchedule;NoExecute
	Effect v1.TaintEffect `json:"effect"`
}

// The taints that evenkeel cluster leave --drain and evenkeel cluster cordon set, and evenkeel
// cluster uncordon takes away.
const (
	// TaintLeaving has the effect NoExecute.
	TaintLeaving = "evenkeel.dev/leaving"
	// TaintCordoned has the effect NoSchedule.
	TaintCordoned = "evenkeel.dev/cordoned"
)

// The condition types of a MemberCluster.
const (
	// ConditionReachable is True while replicas can be placed in the cluster, Unknown while the
	// cluster has not answered for a short time or was never asked, and False when it is lost: it
	// has not answered for longer, or has returned only a moment ago.
	ConditionReachable = "Reachable"
	// ConditionCredentialsValid is False when the cluster cannot be asked, or refuses to answer,
	// because of its kubeconfig.
	ConditionCredentialsValid = "CredentialsValid"
	// ConditionRoomKnown is there for a cluster with fixedNodes. It is True when its nodes and what
	// their pods request are known.
	ConditionRoomKnown = "RoomKnown"
)

// ReasonNodesRead is the reason of the condition RoomKnown when it is True. Otherwise, it is
// Unchecked or Forbidden.
const ReasonNodesRead = "NodesRead"

// The reasons of the condition Reachable.
const (
	// ReasonReady: the cluster answers.
	ReasonReady = "Ready"
	// ReasonConnecting: the cluster has not answered yet.
	ReasonConnecting = "Connecting"
	// ReasonNotAnswering: the cluster has not answered for a short time. Nothing is moved.
	ReasonNotAnswering = "NotAnswering"
	// ReasonOffline: the cluster has not answered for longer. Its replicas start elsewhere.
	ReasonOffline = "Offline"
	// ReasonStabilizing: the cluster answers again, but not for long enough yet.
	ReasonStabilizing = "Stabilizing"
	// ReasonNoCredentials: the cluster cannot be asked. The condition CredentialsValid says why.
	ReasonNoCredentials = "NoCredentials"
)

// The reasons of the condition CredentialsValid.
const (
	// ReasonAccepted: the cluster accepts the credentials.
	ReasonAccepted = "Accepted"
	// ReasonExpiringSoon: the cluster accepts the credentials, but not for long any more.
	ReasonExpiringSoon = "ExpiringSoon"
	// ReasonUnchecked: the cluster has not answered since the credentials were read.
	ReasonUnchecked = "Unchecked"
	// ReasonSecretNotFound: there is no such Secret, or it has no such key.
	ReasonSecretNotFound = "SecretNotFound"
	// ReasonProfileUnusable: there is no such ClusterProfile, or none of its access providers can be
	// used without running a command.
	ReasonProfileUnusable = "ProfileUnusable"
	// ReasonInvalidKubeconfig: the kubeconfig cannot be used as it is.
	ReasonInvalidKubeconfig = "InvalidKubeconfig"
	// ReasonPluginRefused: the kubeconfig asks to run a command or a plugin.
	ReasonPluginRefused = "PluginRefused"
	// ReasonFileRefused: the kubeconfig names files.
	ReasonFileRefused = "FileRefused"
	// ReasonExpired: the credentials have expired.
	ReasonExpired = "Expired"
	// ReasonUnauthorized: the cluster does not accept the credentials.
	ReasonUnauthorized = "Unauthorized"
	// ReasonForbidden: the cluster does not allow what the controllers do.
	ReasonForbidden = "Forbidden"
	// ReasonPointsToHost: the kubeconfig is of the cluster that the controllers run against.
	ReasonPointsToHost = "PointsToHost"
	// ReasonAlreadyJoined: another MemberCluster is the same cluster.
	ReasonAlreadyJoined = "AlreadyJoined"
)

// MemberClusterStatus is the observed state of a MemberCluster. It is written when something
// changes, not with every probe.
//
// +kubebuilder:object:generate=true
type MemberClusterStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Version of the API server, such as v1.36.3.
	// +optional
	Version string `json:"version,omitempty"`

	// ClusterUID is the UID of the namespace kube-system, which identifies the cluster.
	// +optional
	ClusterUID string `json:"clusterUID,omitempty"`

	// LastProbeTime is when the cluster had last been asked, at the time when the status was
	// written.
	// +optional
	LastProbeTime *metav1.Time `json:"lastProbeTime,omitempty"`

	// Conditions are Reachable, CredentialsValid and, with fixedNodes, RoomKnown.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
