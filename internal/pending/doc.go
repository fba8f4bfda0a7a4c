// Package pending says what the topology spread constraints of pending pods mean to them: which
// domains bind and why, and which a soft constraint prefers.
//
// It asks the scheduler's own filters, those of default constraints and volumes included, on the nodes
// of a cluster and on a new node of each group. It does not know where a cluster comes from, and
// places and orders nothing.
package pending
