// Package deletioncost decides which deletion costs (controller.kubernetes.io/pod-deletion-cost) the
// pods of a ReplicaSet need so that it stays level over its domains however far it is scaled down.
//
// The controller of ReplicaSets deletes pods without a node first, then pending ones, then those
// that are not ready. Of the others it deletes those with the lowest cost first. Among equal costs
// it looks at how many pods share the node, and at times on a logarithmic scale, so that the order
// changes while nothing happens. [Decide] therefore relies on costs alone: pods with the same cost
// may go in any order, and the domains are level all the same.
//
// The n-th pod of a domain has level n, and the highest level goes first. The cost depends on the
// level only, so pods that come and go leave the costs of the others as they are. The lowest levels
// need no cost at all.
//
// The package does no input or output, and does not know who asks for it: see [Resolve] for how a
// cluster, a namespace and a workload do that.
package deletioncost
