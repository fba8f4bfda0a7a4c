// Package steering decides what the sidecar answers Cluster Autoscaler. It is a State in the style of
// etcd's raft: Step applies an Event, and returns an Answer and Effects. It has no lock, clock, goroutine
// or context, makes no call and writes no log; package sidecar around it locks, calls and writes. Nothing
// but Step changes a State, and the same events lead to the same.
//
// The events are:
//
//   - Calls of Cluster Autoscaler: Called for each call of a loop, NewProcess for the first call of a
//     process, and Released for its release. Asked is the expander's question, or Unread one that Cluster
//     Autoscaler did not wait for, and Stop takes its answer back. Increase, Order or Withdraw, and
//     Answered are in turn an increase, and Decrease a decrease. Saw is a node it asks about.
//   - Answers of the cloud: LoopBegins and Show for a reading, with Failed, Overdue and Late for what
//     must be taken back of it, and LoopSkipped if it failed; OrderEnded, Decreased, NodesDeleted and
//     TakenBack for the results of orders.
//   - What is known from elsewhere: Observe for the registered nodes, Shift for the zones that users have
//     shifted away, Declare for the sets and ChooseBy for the strategies they want, JournalRead and
//     JournalSaved for the journal, and Started for the process of the sidecar.
//
// What Cluster Autoscaler reads is asked of the State: Shown, Bounds and Placeholders; so are Status and
// Gauges for people.
//
// Answers say what to order from the cloud. Beside them there are Effects: decisions to keep and to log,
// Kubernetes events, warnings, lines of the log and counters. Journal is the text of what must survive.
// The caller saves it before anything is ordered.
//
// The state has parts with a job each: which nodes there are, what Cluster Autoscaler knows and was told
// in its loop (caller), which groups share nodes (sets), what is left of what was asked for (planned),
// what has failed (failures), how long sets have waited for their larger members to shrink (levels), which
// zones are shifted away (zonal), what was said about pods (published), and how the journal is doing (saved). Per
// group there are its orders, what Cluster Autoscaler counts of it, its failures and its part in splits.
//
// Time comes first, then nodes, then evenness: what Cluster Autoscaler asks for is granted in the loop in
// which it asks, and never more; which member gets it makes the set level. Less is granted only on account of
// nodes on their way in the same set that Cluster Autoscaler does not count, and not for long.
//
// The set is chosen by package expander, and the split is that of package nodegroupset.
package steering
