package fake

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Config describes a cloud and its faults. The zero value is a cloud without node groups. All times
// are counted from the moment of New.
type Config struct {
	Groups  []Group
	Quotas  []Quota
	Stocks  []StockOut
	Outages []Outage
	Calls   []CallFault
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

// Scope selects node groups: those listed and those of the zones listed, of a group over several zones
// its part there. The zero value selects all.
type Scope struct {
	Groups []string
	Zones  []string
}

// Window is a span of time: from Start on, before End. End 0 means forever.
type Window struct {
	Start, End time.Duration
}

// Quota limits the resources of several groups together, counted by target size and template. An
// increase beyond it fails with ErrQuotaExceeded. A group over several zones counts as a whole if one
// of them is selected.
type Quota struct {
	// Name appears in errors. Unique.
	Name string
	Scope
	// Nodes, Cores and MemoryBytes are the limits; 0 means none.
	Nodes, Cores, MemoryBytes int64
}

// StockOutMode is the way a cloud behaves that has no machines; empty means Refuse.
type StockOutMode string

// The modes of a stock-out, including machines that never become usable.
const (
	// Refuse: IncreaseSize fails with ErrOutOfResources, nothing is ordered.
	Refuse StockOutMode = "Refuse"
	// Fail: the order is accepted and an instance appears, which gets an error after FailAfter and
	// stays until it is deleted.
	Fail StockOutMode = "Fail"
	// Silent: the order is accepted, but instances are created only after the stock-out.
	Silent StockOutMode = "Silent"
	// NeverRegisters: the order is accepted and the machine runs, but it never becomes a node, even
	// after the window.
	NeverRegisters StockOutMode = "NeverRegisters"
	// NeverReady: the machine becomes a node that is never ready.
	NeverReady StockOutMode = "NeverReady"
)

// StockOut makes groups run out of machines for some time.
type StockOut struct {
	Scope
	Window
	Mode StockOutMode
	// Left is the number of good machines each of the groups can have in total during the
	// stock-out, in the zones selected, including those it has already. Existing machines are never taken away.
	Left int
	// FailAfter is the time until a failing instance shows its error. Mode Fail only.
	FailAfter time.Duration
}

// OutageMode is the effect of an outage on existing nodes; empty means Unready.
type OutageMode string

// The kinds of outage.
const (
	// Unready: the nodes stay, but do not respond until the outage is over.
	Unready OutageMode = "Unready"
	// Vanish: instances and nodes are removed. The target size stays, and new instances are created
	// when the outage is over.
	Vanish OutageMode = "Vanish"
)

// Outage takes zones down for some time. Increases there fail with ErrOutOfResources, and waiting
// orders stay waiting.
type Outage struct {
	Zones []string
	Window
	Mode OutageMode
}

// CallFault makes calls slow, makes them fail, or both. If several match a call, the first in the
// list applies.
type CallFault struct {
	// Methods are the affected methods; empty means all.
	Methods []Method
	// Groups are the affected groups; empty means all, and calls without a group.
	Groups []string
	Window
	// First is the number of matching calls that are affected; 0 means no limit.
	First int
	// Delay is the duration of the call, on the cloud's clock.
	Delay time.Duration
	// Error is the message of the error that the call then returns, which wraps
	// cloudprovider.ErrUnavailable; empty means that it succeeds.
	Error string
	// AfterEffect applies the fault after the effect of the call: the target size has grown
	// although the caller got an error or gave up.
	AfterEffect bool
}

// PodPrices are the hourly prices of what a pod requests.
type PodPrices struct {
	Core, GiB cloudprovider.Price
}
