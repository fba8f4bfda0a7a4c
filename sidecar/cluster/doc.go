// Package cluster is the API server's side of the sidecar: a journal in a ConfigMap that only the
// leading replica can write, a watch of the nodes that reports which of them Cluster Autoscaler
// counts as ready, and a recorder of Kubernetes events. A journal in a local file serves machines
// without a cluster.
//
// It knows nothing of node groups, splits or the text it keeps; who loads a kubeconfig, and what is
// made of the answers, is not its business either.
//
// # Why an old leader cannot overwrite a newer one
//
// Every replica of the autoscaler has a sidecar of its own, and the leader is known from the
// autoscaler's Lease. A lease alone protects nothing: a process may be paused between looking at
// the lease and writing, for minutes, or its request may lie in a network that long, and both may
// end when somebody else leads. So the ConfigMap itself is fenced:
//
//   - Load claims the ConfigMap. It reads the ConfigMap, then the lease, and if that names our autoscaler it writes its mark
//     (the lease's term and a name of its own that no other process has) over the version it has read. It answers only when
//     that has succeeded.
//   - Save writes over the version that its own last Load or Save has left, and over no other.
//
// The API server refuses a write over any other than the stored version, and each claim makes a new
// version. So once a process has loaded, nothing that any other process sent or will send on the
// grounds of an earlier version is taken, however late it arrives; that holds for requests of its
// own predecessor in the same pod as well.
//
// What is left to show is that an old leader cannot claim again after the new one. The lease is
// always read live, never from a cache, and after the ConfigMap. Let O claim over the version that
// N's claim or a later Save of N has left. Then O has read the ConfigMap after N had read the lease
// in its favour, and the lease, later still, in its own: O has been given the lease after N and is
// the newer of the two. No numbers are compared for that, so it stays true when somebody deletes
// the lease and its count of transitions begins anew.
//
// An expired lease counts as nobody's. This is not part of the protection and needs no synchronized
// clocks: the lease in question was renewed by the autoscaler beside this process, on the same
// machine.
package cluster
