// Package autoscalerstatus reads what Cluster Autoscaler says about itself: the status that it keeps in a
// ConfigMap, unless it runs with --write-status-configmap=false. The package knows the two forms of that
// text and nothing else: neither clients nor clocks, and not what a status means for anybody.
//
// # Forms
//
//   - Releases up to 1.29 write text with indented lines. It has no unregistered nodes, no nodes that are
//     being deleted, and no reason for a backoff: these fields stay empty.
//   - Releases since 1.30 write YAML, and cannot be made to write the older form. Until 1.34 its times have
//     nanoseconds, since 1.35 whole seconds. In 1.36 suspended nodes were added.
//
// # Times
//
// Cluster Autoscaler writes the status at the end of a loop, but its parts are of different moments:
//
//   - Status.Time and the annotation LastUpdated are of the beginning of that loop (up to 1.29: of its end).
//     They are the same text.
//   - The node counts are of the nodes and instances that were read at the beginning, and so are the times
//     of states: LastProbeTime is the beginning of the loop, and Group.Since that of the loop in which the
//     state changed.
//   - Group.Target is read from the cloud at the beginning, and once more after each increase that
//     succeeded, and after nodes were removed. So the increases of the loop are in it already, although
//     they are later than Status.Time. They are missing if an increase of the same loop failed
//     afterwards, or if the loop ended early.
//   - Group.ScaleUp and Group.Backoff are of the end. An increase that was asked for in this loop shows as
//     InProgress.
//
// A loop that cannot read its nodes or its cloud writes nothing: the last status stays. When the process
// ends by itself it deletes the ConfigMap; when it is killed, the ConfigMap stays.
package autoscalerstatus
