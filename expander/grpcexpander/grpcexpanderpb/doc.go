// Package grpcexpanderpb holds the messages of Cluster Autoscaler's gRPC expander protocol,
// generated from expander.proto. Package grpcexpander implements the protocol; no other package
// should need this one.
//
// The messages register under Cluster Autoscaler's own names, so a program cannot link both this
// package and Cluster Autoscaler's.
package grpcexpanderpb
