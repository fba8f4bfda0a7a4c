// Package spreadplan plans nodes for all pending pods at once, where some have a topology spread over
// zones: how many nodes does each member of a set of similar node groups need so that all can run?
// Cluster Autoscaler estimates nodes for one node group at a time, and a spread lets only a few pods
// into one zone before the others must follow.
//
// A plan is arithmetic over requests, node affinity, taints and spreads. ReadKind refuses pods that
// need more than that. The package must not know any autoscaler or scheduler, and reads no clock.
package spreadplan
