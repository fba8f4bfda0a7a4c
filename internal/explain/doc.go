// Package explain says which node groups of a fleet are similar and why others
// are not.
//
// It reads a fleet from files - Cluster Autoscaler's debugging snapshot, a list of
// node templates, or nodes and pods as kubectl prints them - has package
// nodegroupset compare it, and puts the answer in one value with the answer in
// words. It compares nothing itself, and knows neither flags nor tables. What keeps
// pending pods waiting, it leaves to package pending, since it does not know the
// scheduler.
package explain
