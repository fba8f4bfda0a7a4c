// Package podcache says what a cache keeps of pods and nodes: of pods what shows their health, whose they are, and what
// a simulation of the scheduler reads. Pods of the same template share their specs, so that a pod
// takes little more than its names and its status.
//
// The package decides nothing.
package podcache
