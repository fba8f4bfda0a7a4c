// Package steering decides what the sidecar answers Cluster Autoscaler. It is a state machine in
// the style of etcd's raft: an event goes in, and an answer and effects come out. It has no lock,
// clock, goroutine or context, makes no call and writes no log; package sidecar around it locks,
// calls and writes.
//
// The events are methods of Machine:
//
//   - Time: Tick, before any other event.
//   - Calls of Cluster Autoscaler: Called for each call of a loop, and NewProcess for the first call
//     of a process. Asked answers the expander's question, Increase, Order and Answered in turn an
//     increase, and Decrease a decrease. Minimum and Target answer what Cluster Autoscaler reads.
//     Saw records a node it asks about.
//   - Answers of the cloud: LoopBegins and Show for a reading, LoopSkipped if it failed; OrderEnded,
//     Decreased, NodesDeleted and TakenBack for the results of orders.
//   - A question that Cluster Autoscaler did not wait for: Unread.
//   - What is known from elsewhere: Shift for the zones that users have shifted away, Observe for the registered nodes, JournalRead and JournalSaved
//     for the journal.
//
// Answers say what to order from the cloud: Grant for an increase, Decrease for a
// decrease, TakeBack for what has failed or is late. Beside them there are Effects: decisions to keep and to
// log, Kubernetes events, warnings, lines of the log and counters. Journal is the text of what must
// survive. The caller saves it before anything is ordered.
//
// The state is what was read of the cloud last, and per group what is ordered, what Cluster
// Autoscaler counts of it, and what a failure has left: the backoff, the proof the group still has
// to give, and nodes that nothing waits for. There are also the split in progress, the answer that
// the increases of a loop follow, and how long sets have waited for their larger members to shrink.
//
// Time comes first, then nodes, then evenness: what Cluster Autoscaler asks for is granted in the loop in
// which it asks, and never more; which member gets it makes the set level. Less is granted only on account of
// nodes on their way in the same set that Cluster Autoscaler does not count, and not for long.
//
// The set is chosen by package expander, and the split is that of package nodegroupset.
package steering
