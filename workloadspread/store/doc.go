// Package store writes the status of WorkloadSpreads, which several processes count pods in at the
// same time: the webhook servers and the controller.
//
// A status is stored only as a change of the one that it was computed from. Within a process, all
// that wait for the same object are decided one after the other and stored with one write, so that the
// number of writes depends on how long one takes and not on the number of pods.
//
// The package does not know what is counted: a decision is a function that it is given.
package store
