// Package cloudprovider is the contract between a balancer and a cloud: which
// node groups exist, how big they are meant to be, what their nodes look like,
// and how to change their size.
//
// The contract is keyed by node group id and speaks in values, like the
// external gRPC cloud provider protocol of Cluster Autoscaler, and unlike its
// Go interface with one object per node group. Values cross a process boundary
// as they are, they can be compared, stored and printed, and nobody holds on to
// the object of a group that has disappeared meanwhile. Words and semantics are
// those of the protocol, so that an implementation can be served over it, or be
// a client of it, by translation of messages alone.
//
// The package knows no cloud, starts nothing and keeps no state. An in-memory
// implementation is in package fake; package conformance checks any
// implementation rule by rule.
//
// # Sizes
//
// A node group has a target size: how many nodes it is meant to have. The
// instances it does have may be fewer (ordered but not there yet), and for a
// while more (being deleted but not gone yet). A target size above MaxSize or
// below MinSize is a state to live with, not an error: bounds change while nodes
// run. Nobody but the caller raises a target size; only the cloud fulfils it.
//
// # Errors
//
// See errors.go for the sentinel errors. A caller whose IncreaseSize failed asks
// Refused whether the cloud certainly did nothing. If not, the target size may
// have grown all the same, and is to be read before nodes are ordered elsewhere.
package cloudprovider
