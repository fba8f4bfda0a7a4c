package v1alpha1

// Group, Version and APIVersion name the API that the documents of this package belong to.
const (
	Group      = "evenkeel.dev"
	Version    = "v1alpha1"
	APIVersion = Group + "/" + Version
)

// The kinds of planning documents.
const (
	KindNodeGroupSplit      = "NodeGroupSplit"
	KindNodeGroupSimilarity = "NodeGroupSimilarity"
	KindReplicaDistribution = "ReplicaDistribution"
	KindSpreadSplit         = "SpreadSplit"
	KindTopologySpread      = "TopologySpread"
)

// The kinds of custom resources.
const (
	KindBalancer            = "Balancer"
	KindFederatedReplicaSet = "FederatedReplicaSet"
	KindWorkloadSpread      = "WorkloadSpread"
)

// MaxCount is the largest number of nodes or replicas in a document, which is the largest number
// that a Scale can hold.
const MaxCount = 1<<31 - 1
