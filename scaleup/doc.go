// Package scaleup is the pipeline of the balance-similar-node-groups proposal,
// from pending pods to resized node groups.
//
// One round (Round) reads the world into values (Observe), decides (Plan) and resizes groups:
//
//  1. Groups that cannot grow are set aside, each with its reason; pods that
//     the scheduler will bind to nodes that exist or are on their way are set
//     aside too. Of the rest it is asked which pod passes where.
//  2. Every group, or every set of similar groups, becomes an option with an
//     estimate of the nodes it needs; the expander chooses one.
//  3. The groups similar to the chosen one are found,
//  4. and those on which no pod of the option passes are dropped. A pod that
//     passes on some members only gets its nodes there, and the rest is
//     levelled on top, so one pinned pod does not pin the others.
//  5. The chosen group joins them.
//  6. The needed nodes are split so that sizes come out even, within each
//     group's maximum and within all quotas.
//  7. What happens next is played: later rounds order more, nodes come, and the scheduler binds
//     pods to them. Nodes that would stay empty are left out, as are those that would leave
//     nodes on their way empty, and those that are not needed. An option of which none is left
//     makes room for the next.
//  8. The groups are resized at the same time. What a group refuses is split
//     again over the others in the same round, and the group is backed off.
//
// Plan is pure: values in, a Decision with reasons out. Only a Scaler talks to the cloud: Observe
// reads it, and Round reads it, takes back what failed to become nodes, and resizes groups. The
// package must not know where pods and nodes come from, how time passes, or how a decision is
// printed.
package scaleup
