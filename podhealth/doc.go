// Package podhealth decides what the state of pods means for the replicas of a target. It holds what
// every controller needs that watches pods:
//
//   - [Assess] takes from a pod what a decision needs to know.
//   - [Count] counts the pods that run, those that are starting and those that have not started in time.
//   - [Timer] holds the time of a decision, and collects when time alone may change it.
//   - [Conditions] and [Events] are what a decision reports.
//
// The package knows no client, no clock and no log, and nothing of how many replicas go where: that is
// package replica.
package podhealth
