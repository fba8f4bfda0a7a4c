// Package reconcile drives package deletioncost in a cluster: it finds out for which ReplicaSets
// deletion costs are asked for, and writes those that are missing.
//
// A pass over a ReplicaSet follows a change of its pods, of the annotations that ask, or of
// another workload's pods that its constraints count. Everything is read from caches, of ReplicaSets,
// Deployments and namespaces only the metadata; nodes are watched once something asks. An object that
// does not ask costs no pass. Each write is one patch of one pod, which the API server refuses for
// another pod of the same name; writes are rate-limited over all ReplicaSets.
//
// The package decides nothing about costs.
//
// The rights that it needs are on the page about the controller, docs/controller.md.
package reconcile
