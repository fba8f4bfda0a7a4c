// Package topologyspread decides topology spread constraints as the PodTopologySpread plugin of the
// Kubernetes 1.36 scheduler does.
//
// A [Table] answers which nodes of a fleet the hard constraints of an incoming pod allow, and which
// of them its soft constraints prefer. It keeps how many matching pods each domain has, and the
// least of these counts, so that one more pod costs the number of its constraints, however many
// nodes and pods there are. Callers that know more of their nodes build on its parts: [Constraint],
// [Counter], [Counts] and [Scale].
//
// [Split] plans how many new nodes each domain needs so that identical pods with one hard constraint
// can all be scheduled.
//
// The package looks at topology spread alone: what else keeps a pod from a node, and where nodes
// and pods come from, it does not know. It imports neither the scheduler nor a package that does.
package topologyspread
