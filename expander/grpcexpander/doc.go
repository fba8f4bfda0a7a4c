// Package grpcexpander implements Cluster Autoscaler's gRPC expander protocol: Server converts its
// calls to values and passes them to an expander.Chooser, and NewClient asks a server as Cluster
// Autoscaler does.
//
// It chooses nothing, opens no listener and keeps no state. Cluster Autoscaler 1.35 and later use
// other field numbers for pods and nodes than 1.34 and older; both are read, the new ones first.
// The answer is the same for all versions.
//
// After an error Cluster Autoscaler continues with its next expander, the last of which is random.
// An empty answer is a veto: there is no scale-up in this loop.
package grpcexpander
