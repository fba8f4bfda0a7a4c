// Package simulate plays scenarios in virtual time: pods arrive and leave, Cluster Autoscaler orders
// nodes from a cloud in memory, nodes boot, faults happen, and a scheduler binds pods, until
// nothing more can happen.
//
// Load turns a Scenario document and the files it names into values, New checks them against the
// cloud, Run plays them and answers with one report, from which every table and document is
// printed. The same scenario gives the same report: it does not depend on a wall clock, a random
// source or the order of maps.
//
// The package decides nothing about node groups: internal/autoscaler plays Cluster Autoscaler's loop,
// alone, with the functions of internal/linked in the places of its processors, or with the sidecar
// between it and the cloud. It must not know flags, terminals or how a report
// is printed.
package simulate
