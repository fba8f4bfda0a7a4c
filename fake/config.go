package fake

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Config describes a cloud and its faults, which are those of a Scenario. The zero value is a cloud
// without node groups. All times are counted from the moment of New.
type Config struct {
	Groups []Group
	// Quotas are counted by target size and template. An increase beyond one fails with
	// ErrQuotaExceeded. A group over several zones counts as a whole if one of them is selected.
	Quotas []v1alpha1.ScenarioQuota
	// StockOuts count machines in the zones selected, including those that a group has already, which
	// are never taken away. With mode Refuse, IncreaseSize fails with ErrOutOfResources, and nothing is
	// ordered. A failed instance stays until it is deleted.
	StockOuts []v1alpha1.StockOut
	// Outages make increases fail with ErrOutOfResources, and waiting orders wait. The target size stays
	// when nodes vanish.
	Outages []v1alpha1.Outage
	// Calls are slow or fail, with an error that wraps cloudprovider.ErrUnavailable. If several match a
	// call, the first in the list applies. Those of no group affect calls without a group, too.
	Calls []v1alpha1.CallFault
	// PodPrices are the prices of what pods request; without them pods have no price.
	PodPrices PodPrices
}

// Group is a node group and the durations of its nodes' lifecycle.
type Group struct {
	// ID names the group. It is part of the names of its nodes.
	ID string
	// MinSize and MaxSize are the group's bounds; Size is its target size at the start, which may
	// be out of bounds. Size 0 means the number of Nodes.
	MinSize, MaxSize, Size int
	// Template describes new nodes. It must have capacity for cpu, memory and pods; allocatable
	// defaults to capacity. Its zone label (topology.kubernetes.io/zone) is the group's zone.
	Template cloudprovider.Template
	// Zones are those of a group over several zones. The nodes of each have its name in their labels;
	// that of the Template should be one of them. Empty means the zone of the Template.
	Zones []string
	// Distribution is how such a group chooses the zone of a new node.
	Distribution Distribution
	// Nodes exist from the start and do not change: name, labels, conditions. If Size is larger
	// than their number, the other nodes are made from the template, ready from the start.
	Nodes []*v1.Node
	// KeepNodes has the cloud keep Nodes themselves instead of copies: they must not be changed any more.
	KeepNodes bool
	// Started says what Nodes that are still starting become, by name.
	Started map[string]Started
	// BootTime is the time from the creation of an instance until it runs, RegistrationDelay from
	// there to its node object, ReadyDelay from there until it is ready, TerminationTime from
	// DeleteNodes until it is gone.
	BootTime, RegistrationDelay, ReadyDelay, TerminationTime time.Duration
	// ListDelay is the time from the creation of an instance until the group lists it. The target
	// size has it at once, as with clouds whose inventory lags behind.
	ListDelay time.Duration
	// PricePerHour is the price of one node; 0 means that no price is known.
	PricePerHour cloudprovider.Price
	// Options are the group's own settings; nil means none. Durations and thresholds of zero mean
	// the caller's defaults.
	Options *cloudprovider.GroupOptions
}

// Started is a node once it has started, so long after the start of the cloud.
type Started struct {
	After time.Duration
	Node  *v1.Node
}

// Modes of a stock-out beside those that a Scenario has: machines that never become usable.
const (
	// NeverRegisters: the order is accepted and the machine runs, but it never becomes a node, even
	// after the window.
	NeverRegisters = "NeverRegisters"
	// NeverReady: the machine becomes a node that is never ready.
	NeverReady = "NeverReady"
)

// PodPrices are the hourly prices of what a pod requests.
type PodPrices struct {
	Core, GiB cloudprovider.Price
}
