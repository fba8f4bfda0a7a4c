// Package removal decides which nodes Cluster Autoscaler removes.
//
//  1. Candidates are the nodes of groups above their minimum that are little
//     used and carry no pod that forbids to move it.
//  2. They are put in an order, which is arbitrary unless Options.Order has one.
//  3. In that order it is tried whether all their pods fit on the nodes that
//     stay, which then hold them. The nodes that pass are not needed.
//  4. What was not needed for long enough may go once the cluster has not
//     grown for a while.
//  5. Of these go as many as the limits of parallel deletions allow, in an
//     order that is arbitrary unless Options.Select chooses.
//
// Of Cluster Autoscaler these rules hold: thresholds and times per group,
// utilisation as the greater of cpu and memory requests, or that of GPUs, unready nodes after
// their own time, nodes marked as not to be scaled down, pods that are not
// replicated, of the system, with local storage, of too few replicas or marked
// as not safe to evict, budgets that all nodes found not to be needed share,
// minimums of the whole cluster,
// cool-downs for the whole cluster, and the two limits of parallelism.
//
// These do not: device claims. Every pod has the controller that it names, and a pod that moved
// in thought from one candidate to another no longer counts for budgets there.
// Groups that are all or nothing are never touched. What only saves
// time is left out: every candidate is tried in every loop.
//
// Plan is pure: values in, a Decision with reasons out. The package must not
// know where pods and nodes come from, how time passes, or how a decision is
// printed.
package removal
