// Package autoscaler plays Cluster Autoscaler in virtual time: a loop that reads a World of nodes and
// pods, and calls an external cloud provider and an expander in the order, with the caches and by the
// cluster-state rules of Cluster Autoscaler 1.36 and later. Package simulate plays scenarios with it,
// and tests put a sidecar between the loop and the cloud and see what happens to the sizes.
//
// The package binds no pods and knows only Cluster Autoscaler's own balancing. It opens no listener,
// and treats a provider in the same process like one over gRPC.
//
// # What is modelled
//
// Calls and caches, as in the external gRPC provider:
//
//   - Refresh before all else (only the GPU label, asked for ready nodes, is earlier); its error ends the loop. The list of
//     groups with bounds and templates, and positive answers to NodeGroupForNode, are kept until the next Refresh and
//     dropped before it goes out. A failed list is empty and not kept.
//   - GPULabel and GPU types are kept for the life of the process from the first success on. Without ready nodes the
//     label is asked for early in a scale-up; with Options.Before135 between the expander and the increase.
//   - Target sizes and options are never kept. Instance lists are read at the start of the process and every two minutes,
//     and in a loop for groups believed to be scaling up or after deletions. Options in an answer have a zero
//     MaxNodeStartupTime, since the protocol has no field for it.
//   - Every call has a deadline of 5 s and goes out on the connection of its process.
//
// Cluster state:
//
//   - Nodes are ready, unready, not started (younger than the startup time), being deleted; instances without node are
//     unregistered, after the provision time for too long.
//   - A scale-up request is registered when an increase succeeded, grows and moves its deadline with each further one, and
//     ends when nothing is upcoming. One that times out backs the group off, and its whole increase is taken back with
//     DecreaseTargetSize. Instances that failed while being created shrink it and back the group off.
//   - Upcoming nodes are target size less ready, unready and long unregistered ones. Groups without a request, or backed
//     off, do not count; with Options.Before136 they do.
//   - Backoffs take 5 to 30 minutes and are forgotten after 3 hours. Health gates: more than 3 and more than 45 %, for the
//     cluster (nothing happens) and for a group (it is no option). A group growing from zero without a request is
//     unhealthy.
//   - Old unregistered instances are deleted down to the minimum, failed ones always, as fake nodes; target sizes above the
//     number of nodes for the provision time are lowered, which ends the loop.
//
// Scale-up: upcoming nodes stand in the snapshot as copies of the group's template, pods that fit
// are dropped, pods younger than two seconds wait for the next loop. Pods of one controller that
// are equal are one kind; kinds come in random order. Groups are filtered (safe, below their
// maximum, with a template), options estimated within the room of the group and its partners, the
// expander is asked with the templates of all groups; its error means a random choice, its empty
// answer none. Then the limits, the split of --balance-similar-node-groups, and the increases one
// after the other up to the first error. With Options.Salvo this is repeated for the pods that are
// left, on the assumption that the nodes asked for come. Zero-or-max groups, --enforce-node-group-min-size and
// ProvisioningRequests of the classes best-effort-atomic-scale-up and check-capacity are there; an atomic increase is a
// plain one, as over the protocol.
//
// A new process knows nothing of all this but the taints, the pods and the conditions of
// ProvisioningRequests.
//
// # What is not
//
// Parallel scale-ups, hints from one simulation to the next, pods that come and go within a loop,
// leader election. Of ProvisioningRequests, classes other than those two. When loops run, and what one
// takes, is the caller's affair. Where Cluster Autoscaler iterates over a Go map, the order is drawn from
// Config.Seed.
package autoscaler
