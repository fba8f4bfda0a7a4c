// Package podhealth decides what the health of pods means for where replicas go. It holds what
// every controller needs that shares replicas among targets, be they Deployments or clusters:
//
//   - [Assess] takes from a pod what a decision needs to know; [Trim] drops the rest of it from a
//     cache.
//   - [Observe] counts the replicas of a target that run and those that have not started in time.
//   - [Learn] remembers how many replicas each target is able to run, and forgets it when the
//     target has recovered.
//   - [Health.Limit] turns that into the capacity by which package apportion starts replicas
//     elsewhere (the fallback), and [Health.Pending] keeps a probe waiting on the target, so that
//     its recovery shows.
//   - [Pace.Walk] has a replica leave its target when another one runs in its place.
//   - [UpdateOverwrites] leaves a target alone that something else keeps changing.
//
// The package knows no client, no clock and no log, and of the API types only the counts that the
// status of several kinds has: the time is handed in with a [Timer], which also collects when time
// alone may change the answer. A [Health] is all else that must be stored from one decision to the
// next.
package podhealth
