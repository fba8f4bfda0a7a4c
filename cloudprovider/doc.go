// Package cloudprovider is the contract between a balancer and a cloud: which node groups exist,
// their target sizes, their templates, and how to change their sizes.
//
// The contract is keyed by node group id and uses values, like the external gRPC cloud provider
// protocol of Cluster Autoscaler, and unlike its Go interface with one object per node group.
// Values can cross a process boundary, be compared, stored and printed, and no caller keeps an
// object of a group that no longer exists. Terms and semantics are those of the protocol, so that
// an implementation can be served over it, or be a client of it, by translating messages only.
//
// The package knows no cloud, starts nothing and keeps no state. Package fake is an in-memory
// implementation; package conformance checks any implementation rule by rule.
//
// # Sizes
//
// A node group has a target size: the number of nodes it should have. The number of its instances
// may be lower (nodes are ordered but not created yet), and for a while higher (nodes are being
// deleted). A target size above MaxSize or below MinSize is a valid state, not an error: bounds
// change while nodes run. Only the caller raises a target size; only the cloud fulfils it.
//
// # Errors
//
// See errors.go for the sentinel errors. A caller whose IncreaseSize failed asks Refused whether
// the cloud certainly did nothing. If not, the target size may have grown despite the error, and
// must be read before nodes are ordered elsewhere.
package cloudprovider
