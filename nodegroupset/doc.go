// Package nodegroupset finds node groups that are alike, shares new nodes among
// them and takes nodes from them. It is the core of balancing similar node groups.
//
//   - [Index] answers which groups are similar, which sets they form, and in
//     which fields two groups differ. Every group has a fingerprint: an exact part
//     (labels, taints, exact capacities), by which groups fall into buckets, and a
//     tolerant part (memory capacity, allocatable, free), compared only within a
//     bucket. Similar groups of all groups cost little more than reading the
//     templates, and a changed template costs as much as itself.
//   - [Index.Explain] reports the sets, the nearest misses and the flags that
//     would join them, for evenkeel and for Cluster Autoscaler itself.
//   - [Split] shares new nodes over groups of one set: evenly, in proportion to
//     weights, or by priority, within the bounds of each group and quotas over
//     several.
//   - [Shrink] is its mirror: of the nodes that are not needed it chooses those
//     that go, so that the groups of a set stay level, within limits.
//
// Two groups are similar when capacity is equal for every resource, memory
// within its ratio; allocatable and free (allocatable less the requests of the
// template's pods) are within their ratios for every resource; the labels are
// equal but for the label packs and the ignored ones; and the taints are equal as
// a set. Amounts are within a ratio when they are equal or when
// larger - smaller <= ratio * max(|larger|, |smaller|), decided exactly on
// thousandths. A resource missing on one side counts as zero there.
//
// The package decides on values and explains itself in values. It reads no
// clock, writes no log, changes no input, and knows nothing of clouds, API
// servers or pods that wait.
package nodegroupset
