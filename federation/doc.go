// Package federation decides how many replicas of a FederatedReplicaSet each member cluster is to
// have.
//
// [Decide] is the whole of it: what the object asks for, what was found in the clusters, and what
// was remembered in the status go in; the local objects to write, the status to store and the
// events to record come out, with a reason for every number. On the way
//
//   - the preferences become a tree: tiers, groups of clusters with common labels, clusters;
//   - package podhealth says which replicas run, which have not started in time, and how many each
//     cluster is able to run;
//   - package apportion shares the replicas at every branch of the tree;
//   - moves are paced: a replica leaves its cluster when another one runs in its place.
//
// A [Ledger] keeps what many decisions in a row have used up of the clusters' room before their
// pods show it.
//
// The package does nothing itself. It knows no client, no clock and no log: a driver observes,
// asks, writes, reports refusals by [Answered] and asks again. Everything that is needed by a later
// decision is in the status.
package federation
