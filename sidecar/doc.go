// Package sidecar makes an unmodified Cluster Autoscaler balance similar node groups exactly. It
// stands on both sides of the autoscaler: as its gRPC expander it picks the set of node groups and,
// within the set, the member to grow; as its external cloud provider, in front of the real one, it
// grants that member its share of the split and no more. The autoscaler comes back at once for the
// rest, so every node is asked for in the group that gets it and its books stay right.
//
// It decides none of that. Package steering does, as a state machine; this package locks it, hands
// it the calls of Cluster Autoscaler and the answers of the cloud, makes the calls that come out,
// and saves the journal that lets its state survive a crash. It opens no listener and no
// connection, reads no flag, and knows neither gRPC nor the API server: see package cluster below
// it for the latter.
package sidecar
