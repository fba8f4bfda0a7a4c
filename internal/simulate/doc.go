// Package simulate plays scenarios in virtual time: pods arrive and leave, the
// pipeline orders nodes from a cloud in memory, nodes boot, faults strike, and a
// scheduler binds pods, until nothing can happen any more.
//
// Load turns a Scenario document and the files it names into values, New checks
// them against the cloud, Run plays them and answers with one report, from which
// every table and document is printed. The same scenario gives the same report:
// there is no wall clock, no random source and no map order in here.
//
// The package decides nothing about node groups: it only asks packages scaleup
// and scaledown, which cannot tell this world from a real one. It must not know
// flags, terminals or how a report is printed.
package simulate
