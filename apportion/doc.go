// Package apportion shares whole units over domains: nodes over node groups,
// replicas over targets.
//
// It is the arithmetic below every decision of evenkeel. Three questions are
// answered:
//
//   - [Level]: n new units, bins with sizes and bounds. Every unit goes to the
//     smallest bin that has room, so that the sizes come out even.
//   - [Spread] and [Fill]: a total, claims with weights and bounds. Shares in
//     proportion to the weights, or in the order of the list.
//   - [Distribute]: the whole of the ReplicaDistribution document. A total,
//     targets with minimum, maximum, weight, capacity and what they hold
//     already; how many belong on each, which of them cannot run, and why.
//
// Every function is pure: values in, values out, nothing is kept, no input is
// changed, and the same input gives the same output. All numbers are integers;
// products that do not fit 64 bits are formed in 128 or more. The cost grows
// with the number of bins, claims and targets, never with the number of units.
//
// The package imports the standard library only. It knows no clock, no
// randomness, no log, and nothing of Kubernetes: what a domain is, and how its
// bounds are learned, is the caller's business.
package apportion
