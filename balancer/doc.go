// Package balancer decides how many replicas each target of a Balancer is to have.
//
// Decide is the whole of it: what a Balancer asks for, what was found on its targets and in their pods, and what was
// remembered in the status go in; the sizes to write, the status to store and the events to tell come out. On the way
//
//   - pods are assessed: which run, which are starting, which have not started in time;
//   - what a target is able to run is learned from them, and forgotten only when its pods have been fine for a while;
//   - the replicas are shared out by package apportion, targets in doubt being left alone at the size they have;
//   - moves are paced: a replica leaves its target when another one runs in its place.
//
// The package does nothing itself. It knows no client, no clock and no log: a driver observes, asks, writes and asks again.
// Everything that has to outlive a pass is in the status.
package balancer
