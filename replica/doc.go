// Package replica decides for every controller that shares replicas among targets, be they Deployments or
// clusters, what the targets are able to run and which replicas may leave when.
//
//   - [Observe] counts the replicas of a target that run and those that have not started in time.
//   - [Learn] remembers how many replicas each target is able to run, and forgets it when the
//     target has recovered.
//   - [Target.Limit] turns that into the capacity by which package apportion starts replicas
//     elsewhere (the fallback), and [Target.Assign] keeps a probe waiting on the target, so that
//     its recovery shows.
//   - [Pace.Walk] has a replica leave its target when another one runs in its place.
//   - [UpdateOverwrites] leaves a target alone that something else keeps changing.
//
// The package knows no client, no clock and no log, and of the API types only the counts that the
// status of several kinds has. A [Health] is all that must be stored from one decision to the next.
package replica
