// Package fakecloud puts a cloud in memory into the real world: it keeps the Node
// objects of its nodes in an API server, so that real schedulers and controllers
// work with them, and watches who changes it.
//
// It does not know over which protocol, if any, callers reach the cloud.
//
// It decides nothing about sizes and knows no pods. What nodes there are, and
// when they are ready, is the cloud's business; that nodes stay ready and pods on
// them run is kwok's.
//
// # Nodes that must not be ready
//
// kwok makes a node ready as soon as it sees it, and it looks at a node's
// annotations only once. But it leaves a node alone while somebody else holds the
// node's Lease. So a node that is booting, or in a zone that is down, has its
// Lease held here; the lease goes when the node is ready, and kwok takes over
// within ten seconds.
package fakecloud
