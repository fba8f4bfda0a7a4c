// Package fake is a cloud in memory. It keeps the contract of package
// cloudprovider, boots nodes with delays, and fails in the ways clouds fail:
// stock-outs, quotas, zone outages, slow and failing calls.
//
// A Cloud does nothing between calls: whatever it is asked, it first works out
// what has happened up to its clock's now, in order of time. So the same calls at
// the same instants get the same answers, however often it was asked in between.
// NextEvent tells when the next thing happens by itself, for simulations that
// jump from event to event.
//
// The package decides nothing about sizes and knows no scheduler: which pods run
// where, and who orders nodes, is the business of others.
//
// # The life of a node
//
// An order waits until the zone and the stock allow its instance to be created,
// which without a fault is at once. From then on
//
//	created --BootTime--> running --RegistrationDelay--> node object --ReadyDelay--> ready
//
// and DeleteNodes makes the instance leave for TerminationTime, after which both
// are gone. The target size of a group is the number of its waiting orders and
// instances that are not leaving.
package fake
