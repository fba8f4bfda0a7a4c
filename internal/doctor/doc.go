// Package doctor says what keeps the node groups of a cluster from being even, what that costs, and the
// least that helps: a flag of Cluster Autoscaler, evenkeel as its expander, evenkeel as its provider too, or
// evenkeel linked into it.
//
// An Observation goes in: how Cluster Autoscaler is started, what it says in its status, and the node groups
// with their nodes. A Diagnosis comes out: findings, each with its reason, its cost and its remedy, and a
// recommendation. Which groups are similar, for evenkeel and for Cluster Autoscaler itself, is decided by
// package nodegroupset, and so is how many nodes each group has in an even split.
//
// The package reads no files and no cluster, and has no clock.
package doctor
