// Package members keeps a connection to each member cluster: it reads which clusters there are and
// how they are reached, finds out whether they answer, and knows from memory what runs in them.
//
// Each cluster has clients, limits, watches and workers of its own: one that is slow, lost or hangs
// delays no other. A cluster counts as lost when its API server has not answered probes for a while,
// and as returned when it has answered them for a while; watches say nothing about that. What was
// read before a loss is read anew after it.
//
// Credentials are taken from a Secret and nowhere else. A kubeconfig that names files is refused,
// and so is one that names a command or a plugin: neither is ever run. Nothing of a Secret, not even
// an address, appears in a status, an event, a log or a metric.
//
// The package decides nothing about replicas, and knows no FederatedReplicaSet.
//
// The rights that it needs are on the page about the controller, docs/controller.md.
package members
