// Package topologyspread decides topology spread constraints as the PodTopologySpread plugin of the
// Kubernetes 1.36 scheduler does.
//
// A [Constraint] is a constraint of an incoming pod as the plugin reads it. A [Counter] keeps how
// many matching pods each domain has, and the least of these counts, so that one more pod costs the
// same however many nodes and pods there are.
//
// The package looks at topology spread alone: what else keeps a pod from a node, and where nodes
// and pods come from, it does not know. It imports neither the scheduler nor a package that does.
package topologyspread
