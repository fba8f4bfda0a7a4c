// Package predicates answers which pods can run on which nodes, by the Filter
// plugins of the Kubernetes 1.36 scheduler itself.
//
// A [Checker] holds the scheduler framework. [Checker.Fits] answers which
// pending pods pass which node-group template; [Checker.Cluster] makes a
// what-if copy of a cluster on which pods are placed, in bulk where the answer
// for one node is the answer for all nodes like it.
package predicates
