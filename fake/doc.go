// Package fake is a cloud in memory. It implements the contract of package cloudprovider, boots
// nodes with delays, and simulates the failures of clouds: stock-outs, quotas, zone outages, slow
// and failing calls.
//
// A Cloud does nothing between calls: each call first applies what has happened up to its clock's
// current time, in order of time. So the same calls at the same instants get the same answers,
// whatever calls were made in between. NextEvent returns the time of the next change without a
// call, for simulations that jump from event to event.
//
// The package decides nothing about sizes and knows no scheduler: it does not know which pods run
// where, or who orders nodes.
//
// # The life of a node
//
// An order waits until the zone and the stock allow its instance to be created, which is at once
// without a fault. Then
//
//	created --BootTime--> running --RegistrationDelay--> node object --ReadyDelay--> ready
//
// and DeleteNodes starts the deletion of the instance, which is gone with its node after
// TerminationTime. The target size of a group is the number of its waiting orders and of its
// instances that are not being deleted.
package fake
