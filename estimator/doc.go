// Package estimator computes how many nodes of a node group the pending pods need.
//
// An Estimator packs the pods onto new nodes, first fit with the largest first, and lets the real
// scheduler plugins of package predicates say where each may run. Equal pods are packed in bulk.
// The work is bounded by a number of nodes and never by time, so the same input has the same answer
// on every machine. Queue orders pods that are placed one after the other.
//
// Values go in, decisions come out. The package knows nothing of clouds, clocks, files
// or logs, keeps no global state, and never changes what it is given.
package estimator
