// Package controller runs controllers against an API server: one leads while others stand by, what they watch is
// cached, and an end is graceful and hands the leadership over.
//
// It is the same for every controller and knows no kind: a Controller sets itself up with the manager it is given. It is
// built on controller-runtime. It listens nowhere: who runs a Manager serves its probes, Healthy and Ready, and its
// metrics, Gatherer.
package controller
