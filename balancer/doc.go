// Package balancer decides how many replicas each target of a Balancer is to have.
//
// Decide is the whole of it: what a Balancer asks for, what was found on its targets and in their
// pods, and what was remembered in the status go in; the sizes to write, the status to store and
// the events to record come out. On the way
//
//   - package podhealth counts which pods run and which have not started in time, and package replica learns
//     how many each target is able to run;
//   - package apportion distributes the replicas; targets that cannot be read or must not be
//     written keep their size;
//   - moves are paced: a replica leaves its target when another one runs in its place.
//
// The package does nothing itself. It knows no client, no clock and no log: a driver observes,
// asks, writes and asks again. Everything that is needed by a later decision is in the status.
package balancer
