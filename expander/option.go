package expander

import (
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/podfit"
)

// Option is one way to scale up: so many nodes of one node group for these pods.
type Option struct {
	// Group is the name of the node group.
	Group string

	// Set names the set of groups this option stands in. The options of one
	// set count as one choice. Empty: the option is a choice of its own.
	Set string

	// NodeCount is the number of nodes the pods need, at least 1.
	NodeCount int

	// Pods is the number of pending pods that would run on the new nodes.
	Pods int

	// Template describes one new node.
	Template cloudprovider.Template

	// Requested is the sum of what the Pods request.
	Requested podfit.Resources

	// NodePrice is the price of one node for one hour, if HasPrice: a node may
	// well cost nothing.
	NodePrice cloudprovider.Price
	HasPrice  bool

	members []string // of its set that have an option, if it stands for them
}
