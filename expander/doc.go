// Package expander decides what kind of node is added: it estimates how many
// nodes of a node group the pending pods need, and chooses between groups.
//
// An Option is one way to scale up: a group, the pods it would take and the
// nodes they need. An Estimator computes that number by bin-packing the pods
// with the real scheduler plugins of package predicates, equal pods in bulk,
// bounded by a number of nodes and never by time. A Chain of strategies, named
// as in Cluster Autoscaler's --expander flag, then filters the options until
// one is left, and answers with a Trail that says what every strategy measured.
//
// Node groups that are balanced together count as one choice: of every set one
// option, its representative, is judged, so that a difference of a hundredth of
// a percent between equal machines in two zones decides nothing.
//
// The package holds values in, decisions with reasons out. It knows nothing of
// clouds, clocks, files or logs, keeps no global state, draws no random number
// that its configuration does not determine, and never changes what it is
// given. Same options, same answer, in whatever order they come.
package expander
