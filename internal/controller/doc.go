// Package controller runs controllers against an API server. One process leads while others stand
// by, what the controllers watch is cached, and a process that is stopped ends gracefully and hands
// its leadership over.
//
// The package knows no kind: a Controller sets itself up with the manager that it is given. The
// package is built on controller-runtime and opens no port: the caller of a Manager serves its
// probes, Healthy and Ready, and its metrics, Gatherer.
package controller
