// Package linked is what evenkeel decides, counts and shows inside somebody's own Cluster
// Autoscaler: which node groups are similar, how a scale-up is split, which nodes go in a
// scale-down and in which order they are tried, with the journal, metrics, events and page of all
// that.
//
// It knows an autoscaler only by a few interfaces that Cluster Autoscaler's own types satisfy, so
// that it is compiled and tested without one. It links no scheduler: the autoscaler has its own. It
// calls no API server, and it must not know any cloud.
package linked
