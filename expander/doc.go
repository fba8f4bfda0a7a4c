// Package expander chooses the node group that grows.
//
// An Option is one way to scale up: a group, the pods it would take and the nodes they need, as package estimator has
// computed it. A Chain of strategies, named as in Cluster Autoscaler's --expander flag, filters the options until one is
// left, and answers with a Trail that says what every strategy measured.
//
// Node groups that are balanced together count as one choice: of every set one option, its
// representative, is judged, so that a difference of a hundredth of a percent between equal
// machines in two zones decides nothing.
//
// Values go in, decisions with reasons come out. The package knows nothing of clouds, clocks,
// files, logs or the scheduler, keeps no global state, draws no random number that its
// configuration does not determine, and never changes what it is given. Same options, same answer,
// in whatever order they come.
package expander
