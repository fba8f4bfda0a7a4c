// Package controller runs controllers against an API server: one leads while others stand by, what they watch is
// cached, probes and metrics are served, and an end is graceful and hands the leadership over.
//
// It is the same for every controller and knows no kind: a Controller sets itself up with the manager it is given. It is
// built on controller-runtime, whose metrics stand on one page with those of the program.
//
// # Probes
//
// /healthz fails when a pass of a controller has been going on for Options.StuckAfter: only a new process helps then.
// /readyz fails until the caches hold what the controllers watch, on one that stands by, too, so that it can take over
// at once. With ?verbose it says who leads.
package controller
