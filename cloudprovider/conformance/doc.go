// Package conformance checks an implementation of the cloudprovider contract,
// rule by rule, against what Cluster Autoscaler and the balancer rely on.
//
// Check returns a Result per rule, for programs that check a server; package
// conformancetest makes a subtest of each. Rules of their own, about what the
// contract does not show, report with Judge, Skip and Warn.
//
// The rules only look at what the contract promises. They know nothing of any
// implementation. Those that change the cloud say so (see Reach): they order
// nodes and delete those that came, never others, and put sizes back where they
// can. A cloud that fails such a rule may be left with a node too many, and may
// have deleted what it was not to delete.
package conformance
