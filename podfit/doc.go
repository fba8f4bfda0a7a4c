// Package podfit says whether a node takes a pod by itself: by its labels and taints, and by its resources
// as the scheduler counts them. It knows nothing of other nodes, nor of rules between pods, ports, volumes
// and devices; package predicates asks the scheduler's own plugins about these.
package podfit
