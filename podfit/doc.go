// Package podfit says whether a node takes a pod by itself: by its labels and taints, and by its resources
// as the scheduler counts them; and which rules a pod has about others. It applies none of these, and knows
// nothing of ports, volumes and devices: package predicates asks the scheduler's own plugins about them.
package podfit
