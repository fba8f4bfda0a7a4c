// Package reconcile drives package federation: for each FederatedReplicaSet that something may have
// changed for, it looks at what is known of the member clusters, asks for a decision, stores the
// status and writes the local objects.
//
// Nothing of a pass waits for a member: what runs there comes from the memory of package members,
// and writes are made in the background, by workers of their cluster. Until a write shows in that
// memory, its result does; and until the controllers of a member have acted on a smaller number, the
// pods that it may take away do not count as running, even if a larger one follows. The status is
// stored before anything is written, so that no limit is exceeded if the process ends in between; what
// the clusters refuse is stored by the next pass.
//
// A pass follows a change of the object at once, and one of a cluster, a local object or its pods
// soon. Other passes are made only when time alone may change the decision. When everything is
// settled nothing is written.
//
// The package decides nothing about replicas.
//
// The rights that it needs are on the page about the controller, docs/controller.md.
package reconcile
