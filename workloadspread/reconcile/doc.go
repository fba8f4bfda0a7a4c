// Package reconcile drives package workloadspread in a cluster: for each WorkloadSpread that
// something may have changed for, it reads the workload and its pods, asks for a decision, stores
// the status, and then does what the decision says: it writes assignments and deletion costs,
// and deletes pods that move on.
//
// The workload is read from the API server, pods and nodes come from the cache. The decision is made
// on the status that was stored last, while admission waits. A pod that the cache does not
// have yet is among the creatingPods of that status, so it is counted once. Nothing is written before
// the status is stored, and the next pass finds what one that ended between two writes has left.
// A pod is deleted only if it has not changed since it was seen. It is a plain deletion:
// an eviction of a pod that does not run asks no disruption budget either.
//
// The package decides nothing about subsets, and knows no scheduler.
package reconcile
