// Package apportion distributes whole units over domains: nodes over node groups, replicas over
// targets.
//
// It is the arithmetic of every decision of evenkeel, and has three parts:
//
//   - [Level] adds units to bins with sizes and bounds. Every unit goes to the smallest bin that
//     has room, so that the sizes become even.
//   - [Spread] and [Fill] share a total among claims with bounds, in proportion to their weights or
//     in the order of the list.
//   - [Distribute] answers a ReplicaDistribution: a total, and targets with minimum, maximum,
//     weight, capacity and what they hold already. The result is how many replicas belong on each
//     target, how many of them cannot run, and why.
//
// Every function is pure: it keeps no state, does not change its input, and returns the same output
// for the same input. All numbers are integers; products that do not fit into 64 bits are computed
// in 128 or more. The cost grows with the number of bins, claims and targets, not with the number
// of units.
//
// The package imports only the standard library. It has no clock, randomness or log, and knows
// nothing about Kubernetes: the caller defines what a domain is and where its bounds come from.
package apportion
