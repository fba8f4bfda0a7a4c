// Package fakecloud connects a cloud in memory to a real API server: it creates Node objects for
// its nodes, so that real schedulers and controllers work with them, and observes calls that change
// it.
//
// It does not know over which protocol, if any, callers reach the cloud.
//
// It decides nothing about sizes and knows no pods. The cloud determines which nodes exist and when
// they are ready; kwok keeps nodes ready and runs the pods on them.
//
// # Nodes that must not be ready
//
// kwok makes a node ready as soon as it sees it, and it looks at a node's
// annotations only once. But it leaves a node alone while somebody else holds the
// node's Lease. So a node that is booting, or in a zone that is down, has its
// Lease held here; the lease goes when the node is ready, and kwok takes over
// within ten seconds.
package fakecloud
