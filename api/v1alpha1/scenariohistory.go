package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// HistoryRow is the state from a time on.
type HistoryRow struct {
	At metav1.Duration `json:"at"`
	// Running and Pending pods, without those of daemon sets. A pod whose node does not respond is neither.
	Running int `json:"running"`
	Pending int `json:"pending"`
	// Nodes that are ready, including those without a group.
	Nodes int `json:"nodes"`
	// Unevenness is the largest of all sets: largest minus smallest target size.
	Unevenness int `json:"unevenness"`
	// CostPerHour of the machines that run and have a price.
	CostPerHour json.Number `json:"costPerHour,omitempty"`
}

// PendingTime sums up how long pods waited: each from when it was created, or its node was lost or
// stopped responding, until it ran or was deleted.
type PendingTime struct {
	// PodSeconds is the sum of all waits, in seconds.
	PodSeconds int64 `json:"podSeconds"`
	// Waits that ended with a node, the median, the 99th percentile and the longest of them.
	Waits   int             `json:"waits"`
	Median  metav1.Duration `json:"median"`
	P99     metav1.Duration `json:"p99"`
	Longest metav1.Duration `json:"longest"`
}

// Unevenness is the difference between the largest and the smallest target size within sets of
// similar groups.
type Unevenness struct {
	// Largest difference, and Mean over the time; at each time the set with the largest difference
	// counts.
	Largest int         `json:"largest"`
	Mean    json.Number `json:"mean"`
	// Sets that have at least two groups.
	Sets []SetUnevenness `json:"sets,omitempty"`
}

// SetUnevenness is the unevenness of one set.
type SetUnevenness struct {
	// Set is its position in status.sets.
	Set     int         `json:"set"`
	Largest int         `json:"largest"`
	Mean    json.Number `json:"mean"`
	// End is the difference at the end.
	End int `json:"end"`
}

// Cost of the machines, in the currency of the prices. A machine costs from when it has booted
// until it is gone.
type Cost struct {
	// Total of the whole time.
	Total json.Number `json:"total"`
	// PerHour at the end, and the highest one.
	PerHour        json.Number `json:"perHour"`
	HighestPerHour json.Number `json:"highestPerHour"`
	// Unpriced groups had nodes but have no price; their nodes are not included.
	Unpriced []string `json:"unpriced,omitempty"`
	// UnpricedNodes are nodes without a group, which have no price.
	UnpricedNodes int `json:"unpricedNodes,omitempty"`
}

// Kinds of faults.
const (
	FaultStockOut = "StockOut"
	FaultOutage   = "Outage"
	FaultCall     = "Call"
	// FaultZonalShift is a zone that users have shifted away; the cloud is well.
	FaultZonalShift = "ZonalShift"
)

// FaultReport is a fault of the scenario.
type FaultReport struct {
	// Kind is StockOut, Outage, Call or ZonalShift, Mode as in the scenario.
	Kind string `json:"kind"`
	Mode string `json:"mode,omitempty"`
	// Groups and Zones are affected; all if both are empty.
	Groups []string `json:"groups,omitempty"`
	Zones  []string `json:"zones,omitempty"`
	// Methods are the affected calls; all if empty.
	Methods []string `json:"methods,omitempty"`
	// TopologyKey is the label that Zones are values of if it is not the zone, and Reason the user's;
	// of a zonal shift.
	TopologyKey string `json:"topologyKey,omitempty"`
	Reason      string `json:"reason,omitempty"`
	// Error and Delay of the call.
	Error string           `json:"error,omitempty"`
	Delay *metav1.Duration `json:"delay,omitempty"`
	// FaultWindow is the time of the fault; it may lie beyond the end.
	FaultWindow `json:",inline"`
}

// NodeReport is the life of a node. Times are since the start; those that did not occur are
// omitted.
type NodeReport struct {
	Name  string `json:"name"`
	Group string `json:"group,omitempty"`
	Zone  string `json:"zone,omitempty"`
	// Ordered, and Created as a machine; neither is set if it existed at the start.
	Ordered *metav1.Duration `json:"ordered,omitempty"`
	Created *metav1.Duration `json:"created,omitempty"`
	// Ready for the first time.
	Ready *metav1.Duration `json:"ready,omitempty"`
	// Unready are the times during which it was no longer ready.
	Unready []Span `json:"unready,omitempty"`
	// Failed is the code of the error because of which the machine never ran.
	Failed string `json:"failed,omitempty"`
	// Removed is when its deletion was requested, Lost when it disappeared without that, and Gone
	// when it was gone either way.
	Removed *metav1.Duration `json:"removed,omitempty"`
	Lost    *metav1.Duration `json:"lost,omitempty"`
	Gone    *metav1.Duration `json:"gone,omitempty"`
	// PodsAtMost is the largest number of pods that it ran at the same time, without daemon set
	// pods.
	PodsAtMost int `json:"podsAtMost"`
}

// Span is a span of time; without To it lasts to the end.
type Span struct {
	From metav1.Duration  `json:"from"`
	To   *metav1.Duration `json:"to,omitempty"`
}

// PodReport is the life of a pod.
type PodReport struct {
	// Name is namespace/name.
	Name string `json:"name"`
	// Workload is namespace/name of the scenario's workload it belongs to.
	Workload string `json:"workload,omitempty"`
	// Subset of a WorkloadSpread that it belongs to; absent if it belongs to none.
	Subset  string          `json:"subset,omitempty"`
	Arrived metav1.Duration `json:"arrived"`
	// Left is when it was deleted.
	Left *metav1.Duration `json:"left,omitempty"`
	// Runs are the nodes that it ran on, one after another.
	Runs []PodRun `json:"runs,omitempty"`
}

// PodRun is a pod's stay on a node.
type PodRun struct {
	Node string `json:"node"`
	Span `json:",inline"`
}
