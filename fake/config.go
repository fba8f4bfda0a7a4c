package fake

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Config describes a cloud and what will go wrong in it. The zero value is a
// cloud without node groups. All times are counted from the moment of New.
type Config struct {
	Groups  []Group
	Quotas  []Quota
	Stocks  []StockOut
	Outages []Outage
	Calls   []CallFault
	// PodPrices are what pods are charged for; without them pods have no price.
	PodPrices PodPrices
}

// Group is a node group and the pace of its nodes.
type Group struct {
	// ID names the group. It is part of the names of its nodes.
	ID string
	// MinSize and MaxSize are the group's bounds; Size is its target size at the
	// start, in or out of bounds. Size 0 means as many as there are Nodes.
	MinSize, MaxSize, Size int
	// Template is what new nodes look like: needs capacity for cpu, memory and
	// pods; allocatable is capacity unless given. Its zone label
	// (topology.kubernetes.io/zone) is the group's zone.
	Template cloudprovider.Template
	// Nodes exist from the start and stay as they are given: name, labels,
	// conditions. What Size exceeds them by is made from the template, ready from
	// the start.
	Nodes []*v1.Node
	// BootTime is how long an instance takes from being created to running,
	// RegistrationDelay from there to its node object, ReadyDelay from there to
	// ready, TerminationTime from DeleteNodes to gone.
	BootTime, RegistrationDelay, ReadyDelay, TerminationTime time.Duration
	// PricePerHour is what one node costs; 0 means that no price is known.
	PricePerHour cloudprovider.Price
	// Options are the group's own settings; nil means none. Durations and
	// thresholds left at zero are the caller's defaults.
	Options *cloudprovider.GroupOptions
}

// Scope selects node groups: those listed and those of the zones listed. The
// zero value selects all.
type Scope struct {
	Groups []string
	Zones  []string
}

// Window is a span of time: from Start on, before End. End 0 means for ever.
type Window struct {
	Start, End time.Duration
}

// Quota limits what several groups may have together, counted by target size
// and template. An increase beyond it fails with ErrQuotaExceeded.
type Quota struct {
	// Name appears in errors. Unique.
	Name string
	Scope
	// Nodes, Cores and MemoryBytes are the limits; 0 means none.
	Nodes, Cores, MemoryBytes int64
}

// StockOutMode is how a cloud shows that it has no machines; empty means Refuse.
type StockOutMode string

// The ways to be out of stock, or to deliver machines that are of no use.
const (
	// Refuse: IncreaseSize fails with ErrOutOfResources, nothing is ordered.
	Refuse StockOutMode = "Refuse"
	// Fail: the order is taken and an instance appears, which turns into one with
	// an error after FailAfter and stays until it is deleted.
	Fail StockOutMode = "Fail"
	// Silent: the order is taken and nothing happens until the machines are back;
	// then they are created.
	Silent StockOutMode = "Silent"
	// NeverRegisters: the order is taken and the machine runs, but it never becomes a
	// node, not even after the window.
	NeverRegisters StockOutMode = "NeverRegisters"
	// NeverReady: the machine becomes a node that is never ready.
	NeverReady StockOutMode = "NeverReady"
)

// StockOut makes groups run out of machines for a while.
type StockOut struct {
	Scope
	Window
	Mode StockOutMode
	// Left is how many good machines each of the groups can have in all while it
	// lasts, those it has already included. More than that are never taken away.
	Left int
	// FailAfter is how long a doomed instance looks healthy. Mode Fail only.
	FailAfter time.Duration
}

// OutageMode is what an outage does to the nodes that are there; empty means
// Unready.
type OutageMode string

// The kinds of outage.
const (
	// Unready: the nodes stay and do not answer until the outage is over.
	Unready OutageMode = "Unready"
	// Vanish: instances and nodes are gone. The target size stays, and new
	// instances are created when the outage is over.
	Vanish OutageMode = "Vanish"
)

// Outage takes zones down for a while. Increases there fail with
// ErrOutOfResources, and orders that were waiting go on waiting.
type Outage struct {
	Zones []string
	Window
	Mode OutageMode
}

// CallFault makes calls slow, failing, or both. Of several that match a call,
// the first in the list acts.
type CallFault struct {
	// Methods are the methods hit; empty means all.
	Methods []Method
	// Groups are the groups hit; empty means all, and calls that name none.
	Groups []string
	Window
	// First limits it to the first so many matching calls; 0 means no limit.
	First int
	// Delay is how long the call takes, on the cloud's clock.
	Delay time.Duration
	// Error is the message the call then fails with, wrapped around
	// cloudprovider.ErrUnavailable; empty means that it succeeds.
	Error string
	// AfterEffect lets the call take effect first, and be slow and fail then: the
	// target size has grown although the caller saw an error or gave up.
	AfterEffect bool
}

// PodPrices are the prices of what a pod requests, for an hour.
type PodPrices struct {
	Core, GiB cloudprovider.Price
}

// zoneLabels name a node's zone, the current label before the old one.
var zoneLabels = [...]string{v1.LabelTopologyZone, v1.LabelFailureDomainBetaZone}

// zoneOf is the zone of the group's nodes; empty when their labels have none.
func (g *Group) zoneOf() string {
	if g.Template.Node == nil {
		return ""
	}
	for _, label := range zoneLabels {
		if zone := g.Template.Node.Labels[label]; zone != "" {
			return zone
		}
	}
	return ""
}
