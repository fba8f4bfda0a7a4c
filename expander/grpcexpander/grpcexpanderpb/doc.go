// Package grpcexpanderpb holds the messages of Cluster Autoscaler's gRPC
// expander protocol, generated from expander.proto. Package grpcexpander speaks
// the protocol; nothing else should have to know it.
//
// The messages register under Cluster Autoscaler's own names, so a program can
// not link both this package and Cluster Autoscaler's.
package grpcexpanderpb
