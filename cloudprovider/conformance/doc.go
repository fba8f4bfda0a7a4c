// Package conformance checks an implementation of the cloudprovider contract,
// rule by rule, against what Cluster Autoscaler and the balancer rely on.
//
// Check returns a Result per rule, for programs that check a server; package conformancetest makes
// a subtest of each. Packages with rules of their own, about what the contract does not cover,
// report results with Judge, Skip and Warn.
//
// The rules check only what the contract promises and know nothing of any implementation. Rules
// that change the cloud say so (see Reach): they order nodes, delete only the nodes they ordered,
// and restore sizes if possible. A cloud that fails such a rule may be left with a node too many,
// and may have deleted a node that it should have kept.
package conformance
