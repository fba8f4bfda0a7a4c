// Package externalgrpcpb holds the messages of Cluster Autoscaler's external cloud provider
// protocol, generated from externalgrpc.proto. Package externalgrpc implements the protocol; no
// other package should need this one.
//
// The messages register under Cluster Autoscaler's own names, so a program cannot link both this
// package and Cluster Autoscaler's.
package externalgrpcpb
