// Package steering decides what the sidecar answers Cluster Autoscaler. It is a state machine in the style of etcd's raft: an event
// goes in, and an answer and effects come out. It has no lock, clock, goroutine or context, makes no call and writes no log; package
// sidecar around it locks, calls and writes.
//
// The events are methods of Machine:
//
//   - time: Tick, before any other event of that time.
//   - calls of Cluster Autoscaler: Called for each of a loop; NewProcess for the first of a process; Asked for the expander's
//     question; Increase, Order and Answered in turn for an increase; Decrease for a decrease; Saw for the question which group a
//     node belongs to. Minimum and Target answer what it reads.
//   - answers of the cloud: LoopBegins and Show with what was read, LoopSkipped where it could not be; OrderEnded, Decreased,
//     NodesDeleted, FailedDeleted and TakenBack with what became of an order.
//   - what is known from elsewhere: Observe for the nodes that are registered, JournalRead and JournalSaved for the journal.
//
// Answers say what to order from the cloud: Grant for an increase, Decrease and Overdue for a decrease, TakeFailed for nodes to
// delete. Beside them there are Effects: decisions to keep and to log, Kubernetes events, warnings, lines of the log and counters.
// Journal is the text of what must survive. The caller saves it before anything is ordered.
//
// The state is what was read of the cloud last, and per group what is ordered, what Cluster Autoscaler counts of it, and what a
// failure has left: the backoff, the proof the group still has to give, and nodes nobody waits for. Of the whole there are the split
// that is being carried out, the answer that waits for its increase, pods that have room on nodes that are on their way, and how
// long sets have waited for their larger members to shrink.
//
// The set is chosen by package expander, and the split is that of package nodegroupset.
package steering
