package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindScenarioReport is the kind of the answer to a Scenario.
const KindScenarioReport = "ScenarioReport"

// ScenarioReport is what happened when a Scenario was played. It has the
// scenario's name.
type ScenarioReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Status ScenarioReportStatus `json:"status"`
}

// ScenarioReportStatus is the content of a ScenarioReport.
type ScenarioReportStatus struct {
	// Holds tells whether every expectation holds; true where there is none.
	Holds bool `json:"holds"`
	// End is when the simulation ended, and Settled whether nothing could
	// happen any more.
	End     metav1.Duration `json:"end"`
	Settled bool            `json:"settled"`
	// Interrupted tells that the run was ended before, by a signal: nothing is said of
	// what the scenario expects.
	Interrupted bool `json:"interrupted,omitempty"`
	// Rounds is how often the autoscaler looked, ScaleUps in how many of these
	// rounds groups grew.
	Rounds   int `json:"rounds"`
	ScaleUps int `json:"scaleUps"`
	// NodesOrdered counts the nodes the cloud agreed to, NodesRemoved those that
	// were deleted or given up again.
	NodesOrdered int `json:"nodesOrdered"`
	NodesRemoved int `json:"nodesRemoved"`
	// NodesScaledDown are those of NodesRemoved that nobody needed.
	NodesScaledDown int `json:"nodesScaledDown,omitempty"`
	// Running and Pending pods at the end, daemon set pods not counted.
	Running int `json:"running"`
	Pending int `json:"pending"`

	// Notes are what a reader should know of how the input was read.
	Notes []string `json:"notes,omitempty"`

	Timeline []TimelineRow `json:"timeline"`
	// Groups are the node groups by name.
	Groups []GroupReport `json:"groups"`
	// Sets of similar groups, by their templates at the end.
	Sets [][]string `json:"sets"`
	// LeftAlone are the pods that Cluster Autoscaler orders no node for, all that
	// ever were, by reason.
	LeftAlone []PendingReport `json:"leftAlone,omitempty"`
	// PendingPods are the pods still pending, equal ones together. Those of daemon
	// sets and static ones that do not run have a row, and are not in Pending.
	PendingPods []PendingReport `json:"pendingPods,omitempty"`
	// WaitingNodes are those that are little used and still there, by group and
	// reason; only with scale-down.
	WaitingNodes []WaitingReport `json:"waitingNodes,omitempty"`
	// Expectations are the checks of spec.expect.
	Expectations []Expectation `json:"expectations,omitempty"`

	// History is the state over time: a row for every instant after which it
	// was another one. A row holds until the next one, the last one until End.
	History []HistoryRow `json:"history,omitempty"`
	// PendingTime sums up how long pods waited for a node.
	PendingTime PendingTime `json:"pendingTime"`
	// Unevenness is how far apart the sizes of similar groups were.
	Unevenness Unevenness `json:"unevenness"`
	// Cost is there where at least one group has a price.
	Cost *Cost `json:"cost,omitempty"`
	// Faults are those of the scenario.
	Faults []FaultReport `json:"faults,omitempty"`
	// Nodes are all nodes there were, by group and then by age, those of no group
	// first.
	Nodes []NodeReport `json:"nodes,omitempty"`
	// Pods are all pods there were, in order of arrival, without those of daemon
	// sets.
	Pods []PodReport `json:"pods,omitempty"`
}

// GroupReport is what became of a node group.
type GroupReport struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	Min  int    `json:"min"`
	Max  int    `json:"max"`
	// Before and After are its target sizes at the start and at the end.
	Before int `json:"before"`
	After  int `json:"after"`
	// Ready of its nodes run at the end.
	Ready int `json:"ready"`
	// Ordered and Removed count its nodes over the whole time.
	Ordered int `json:"ordered"`
	Removed int `json:"removed"`
	// Pods run on its nodes at the end, daemon set pods not counted.
	Pods int `json:"pods"`
	// Set is the number of its set in Sets, counted from 1 as in the table.
	Set int `json:"set"`
	// Template says where the template came from last.
	Template string `json:"template,omitempty"`
	// Why says why it has the size it has, and Outcome the same in one word: Idle,
	// TakesNone, Skipped, NotChosen, Partner, Refused, Grows or Shrinks.
	Why     string `json:"why,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	// DiffersFrom is the group that was chosen, where this one is not in its set, and
	// Differences are why, this group's values on the left.
	DiffersFrom string            `json:"differsFrom,omitempty"`
	Differences []FieldDifference `json:"differences,omitempty"`
	// Price of one of its nodes per hour.
	Price json.Number `json:"price,omitempty"`
	// Sizes are its sizes over time, from the start; left out where nothing changed.
	Sizes []GroupSize `json:"sizes,omitempty"`
}

// GroupSize is the size of a node group from a moment on.
type GroupSize struct {
	At metav1.Duration `json:"at"`
	// Target size, and how many of its nodes are ready.
	Target int `json:"target"`
	Ready  int `json:"ready"`
}

// PendingReport are equal pods that run nowhere.
type PendingReport struct {
	// Example is namespace/name of the first of them.
	Example string `json:"example"`
	Pods    int    `json:"pods"`
	Reason  string `json:"reason,omitempty"`
	// LeftAlone says in one word why Cluster Autoscaler orders no node for them,
	// whatever there is room for: DaemonSet, Static, BeingDeleted,
	// SchedulingGated, Nominated, Expendable or OtherScheduler. Empty for pods
	// that count.
	LeftAlone string `json:"leftAlone,omitempty"`
	// Rejections count the node groups that do not take them, by reason.
	Rejections []Rejection `json:"rejections,omitempty"`
}

// WaitingReport are nodes of one group that could go and do not.
type WaitingReport struct {
	// Example is the name of the first of them.
	Example string `json:"example"`
	Group   string `json:"group"`
	Nodes   int    `json:"nodes"`
	Reason  string `json:"reason"`
}

// Expectation is one check and its result.
type Expectation struct {
	// Check names the field of spec.expect.
	Check string `json:"check"`
	Want  string `json:"want"`
	Got   string `json:"got"`
	OK    bool   `json:"ok"`
}
