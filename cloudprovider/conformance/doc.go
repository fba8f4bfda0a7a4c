// Package conformance checks an implementation of the cloudprovider contract,
// rule by rule, against what Cluster Autoscaler and the balancer rely on.
//
// Run is for tests: a subtest per rule. Check is the same without package
// testing: a Result per rule, for programs that check a server.
//
// The rules only look at what the contract promises. They know nothing of any
// implementation, and they change the cloud they are pointed at: they order
// nodes and delete nodes. They put sizes back where they can, but a cloud that
// fails a rule may be left with a node too many.
package conformance
