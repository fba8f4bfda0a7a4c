// Package scaledown removes the nodes that nobody needs, as Cluster Autoscaler
// does, and keeps sets of similar node groups level while it does so.
//
// One round reads the world into values (Observe), decides (Plan) and applies
// (Execute):
//
//  1. Candidates are the nodes of groups above their minimum that are little
//     used and carry no pod that forbids to move it.
//  2. They are put in order: so that their sets stay level, or without
//     balancing in Cluster Autoscaler's order, which is arbitrary.
//  3. In that order it is tried whether all their pods fit on the nodes that
//     stay, which then hold them. The nodes that pass are not needed.
//  4. What was not needed for long enough may go once the cluster has not
//     grown for a while.
//  5. Of these go, within the limits of parallel deletions, those whose groups
//     are the largest of their sets. The others wait until the larger groups
//     have shrunk, but not forever.
//  6. The pods of what goes are tried once more on the cluster as it is now.
//  7. The nodes are deleted, group by group.
//
// Of Cluster Autoscaler these rules hold: thresholds and times per group,
// utilisation as the greater of cpu and memory requests, unready nodes after
// their own time, nodes marked as not to be scaled down, pods that are not
// replicated, of the system, with local storage or marked as not safe to evict,
// one cool-down for the whole cluster, and the two limits of parallelism.
//
// These do not: pod disruption budgets, GPU thresholds and device claims,
// minimum replica counts and resource minimums of the whole cluster; a pod that
// is safe to evict on completion keeps its node, and one of the system does so
// forever. Groups that are all or nothing are never touched. What only saves
// time is left out: every candidate is tried in every round. Steps 5 (but for
// the limits) and 6 are not Cluster Autoscaler's, and where a deletion fails
// only the group that failed waits.
//
// Plan is pure: values in, a Decision with reasons out. Only Observe and Execute
// talk to the cloud; marking and draining what goes is the caller's business.
// The package must not know where pods and nodes come from, how time passes, or
// how a decision is printed.
package scaledown
