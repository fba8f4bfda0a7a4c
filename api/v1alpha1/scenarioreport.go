package v1alpha1

import (
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

	Timeline []TimelineRow `json:"timeline"`
	// Groups are the node groups by name.
	Groups []GroupReport `json:"groups"`
	// Sets of similar groups, by their templates at the end.
	Sets [][]string `json:"sets"`
	// PendingPods are the pods still pending, equal ones together.
	PendingPods []PendingReport `json:"pendingPods,omitempty"`
	// WaitingNodes are those that are little used and still there, by group and
	// reason; only with scale-down.
	WaitingNodes []WaitingReport `json:"waitingNodes,omitempty"`
	// Expectations are the checks of spec.expect.
	Expectations []Expectation `json:"expectations,omitempty"`
}

// TimelineRow is one thing that happened.
type TimelineRow struct {
	At metav1.Duration `json:"at"`
	// What is a word for what happened: pods, scale-up, refused and so on.
	What string `json:"what"`
	// Text says it in full.
	Text string `json:"text"`
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
	// Set is the position of its set in Sets, from 0; -1 without a template.
	Set int `json:"set"`
	// Template says where the template came from last.
	Template string `json:"template,omitempty"`
	// Why says why it has the size it has.
	Why string `json:"why,omitempty"`
}

// PendingReport are equal pods that run nowhere.
type PendingReport struct {
	// Example is namespace/name of the first of them.
	Example string `json:"example"`
	Pods    int    `json:"pods"`
	Reason  string `json:"reason,omitempty"`
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
