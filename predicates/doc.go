// Package predicates answers which pods can run on which nodes, by the Filter
// plugins of the Kubernetes 1.36 scheduler itself.
//
// A [Checker] holds the scheduler framework with the default profile, or the one
// of a given configuration. [Checker.Fits] answers which pending pods pass which
// node-group template, and why not. [Checker.Cluster] makes a what-if copy of a
// cluster on which pods are placed, first fit, with the same result as asking
// the plugins anew for every pod and node.
//
// [Checker.Reasons] answers for each node of a cluster what rejects one pod, by each
// plugin alone.
//
// # What is asked once
//
// Pods that are equal to the plugins are one kind: names, images and commands do
// not count, labels only under keys that the rules of some pod look at, so the
// pods of a StatefulSet are one kind. Nodes that differ only in their resources
// and in labels no pod looks at are one shape; every fresh node has a hostname of
// its own, so hostnames tell no two templates apart. The plugins run once for each
// kind and what it looks at of a node.
//
// The plugins of the profile are asked whether a node by itself will do. How many
// pods its resources, ports and volume limits let in is worked out here, and so
// are spread constraints, affinity and anti-affinity: by a table for each kind
// that counts the pods its rules are about, in every domain, and follows what
// changes. The tests hold all of it against the plugins. A kind whose rules concern
// the node alone (anti-affinity over hostnames included) needs no table: nodes are
// filled one after the other. Pods that compete for volumes or claims go one by
// one, and every plugin is asked about every node.
//
// The claims of a pod count by what they mean, whatever their names, unless two
// pods use one: equal pods of a StatefulSet are one kind. The plugins are asked
// with the claims of one of them; how many volumes a node takes is counted here,
// since the plugin would count the claims of that one only.
//
// What is found out about nodes and pods is kept from question to question, as long
// as the objects and the lists of pods are the very same, so that a Cluster costs
// little beside what has changed since the last one. Where pods have volumes, each
// Cluster begins anew: what they mean changes with other objects.
//
// [Checker.Moves] removes nodes from a what-if cluster, one after the other, and
// finds places for their pods.
//
// [Checker.Scheduler] binds pods as kube-scheduler does: by filters, by the scores
// of the default profile, and by priority and age, from the same tables.
//
// [Checker.Preemptor] finds pods of lower priority that make room for a pod, by the
// plugin DefaultPreemption.
//
// Checker.Live is for a cluster that changes while it is asked: nodes are given
// one by one, and an answer costs what has changed since the last one. It keeps
// the same tables, and gives up an answer that takes too long.
//
// # What cannot be known without a cluster
//
//   - Persistent volume claims, volumes, storage classes, CSI drivers and their
//     capacities count as far as they are among [Options].Objects. A pod with a
//     claim that is not fits nowhere, and the reason says so. A Cluster knows which
//     volumes its pods have taken and where shared claims were bound; the Checker
//     learns of it by [Checker.BindClaims] only.
//   - A fresh node takes as many volumes as the CSINode of the node that
//     [CSINodeAnnotation] names says; without one there is no limit.
//   - Dynamic resources are not modelled: a pod with a resource claim fits
//     nowhere. Pods that ask for extended resources by name are checked against
//     the node's allocatable only, never against device classes.
//   - Nominated pods, scheduling gates, pod groups, scheduler extenders and plugins
//     from outside the Kubernetes tree play no role.
//   - Feature gates are those of the process.
//
// The package knows nothing of node groups, clouds or expanders, reads no clock
// and no cluster, logs nothing and keeps no goroutine.
package predicates
