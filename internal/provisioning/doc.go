// Package provisioning knows what an autoscaler does about a pod that waits for a node, from what the
// autoscaler says about it:
//
//   - the pod's condition NodeProvisioningInProgress, if somebody writes it; otherwise the events about
//     the pod,
//   - the status that Cluster Autoscaler keeps in a ConfigMap.
//
// None of them says everything. Cluster Autoscaler sends no event about a pod that fits on a
// node already on its way, at most one event of a reason about a pod within five minutes, and none to
// say that the node has come. Its status names node groups, not pods. Of gives their meaning
// together.
//
// The package does nothing itself: it has no client, no clock and no log. Package live reads what it
// needs.
package provisioning
