// Package schedule says whether a pod would find a node: one that is there or on its way, or one that an
// autoscaler can still bring. That is the simulation of a WorkloadSpread, which is asked about a new pod
// with the rules of one subset after another.
//
// The scheduler's own filters decide. Besides the pods on nodes, those count that have been admitted or
// created but are on no node yet: room is held for each until it is bound, gone, or has not been bound
// for some time.
//
// A Simulator is fed with what changes, and an answer costs what has changed since the last one. A
// question has a bounded time; what is not known by then is RoomUnknown, so that nothing depends on it.
//
// The package knows no WorkloadSpread and no webhook, and writes nothing.
package schedule
