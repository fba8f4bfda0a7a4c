// Package template says what a new node of a node group looks like.
//
// A template comes from a real node of the group if there is one: OfNode copies what holds for
// every node of the group and leaves out what says something of one node at one moment. Without a
// node it is the last one seen, else what the cloud says (OfCloud) with the pods of the
// daemon sets that would run there. The cloud says less about a machine than its kubelet, so
// Complete fills in what a similar populated group shows, and ShareCloud which cloud it is.
//
// Values go in and come out; nothing that is given is changed. The package asks no cloud and does
// not know the scheduler: whether a daemon set runs on a node depends on a few rules, which its
// tests hold against the real scheduler.
package template
