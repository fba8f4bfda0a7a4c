// Package grpcexpander speaks Cluster Autoscaler's gRPC expander protocol:
// Server turns its calls into values and hands them to a Chooser.
//
// It chooses nothing, opens no listener and keeps no state. Cluster Autoscaler
// 1.35 and later and 1.34 and older put pods and nodes under different field
// numbers; both are read, the new ones first. The answer is the same for all.
//
// Cluster Autoscaler takes an error for no opinion and goes on to its next
// expander, in the end a random one. An empty answer is a veto: there is no
// scale-up in this loop.
package grpcexpander
