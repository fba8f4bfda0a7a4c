// Package externalgrpcpb holds the messages of Cluster Autoscaler's external
// cloud provider protocol, generated from externalgrpc.proto. Package
// externalgrpc speaks the protocol; nothing else should have to know it.
//
// The messages register under Cluster Autoscaler's own names, so a program can
// not link both this package and Cluster Autoscaler's.
package externalgrpcpb
