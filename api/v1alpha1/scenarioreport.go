package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindScenarioReport is the kind of the answer to a Scenario.
const KindScenarioReport = "ScenarioReport"

// ScenarioReport is what happened when a Scenario was played. It has the scenario's name.
type ScenarioReport struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Status ScenarioReportStatus `json:"status"`
}

// ScenarioReportStatus is the content of a ScenarioReport.
type ScenarioReportStatus struct {
	// Holds reports whether every expectation holds; true if there is none.
	Holds bool `json:"holds"`
	// End is when the simulation ended. Settled reports whether nothing more could happen.
	End     metav1.Duration `json:"end"`
	Settled bool            `json:"settled"`
	// Interrupted reports that a signal ended the run early; expectations are not checked then.
	Interrupted bool `json:"interrupted,omitempty"`
	// Rounds is how many rounds the autoscaler made, ScaleUps in how many of them groups grew.
	Rounds   int `json:"rounds"`
	ScaleUps int `json:"scaleUps"`
	// CloudCalls is how many calls the autoscaler made to the cloud, reads included.
	CloudCalls int `json:"cloudCalls"`
	// NodesOrdered counts the nodes that the cloud accepted orders for, NodesRemoved those that
	// were deleted or given up.
	NodesOrdered int `json:"nodesOrdered"`
	NodesRemoved int `json:"nodesRemoved"`
	// NodesScaledDown are those of NodesRemoved that were not needed.
	NodesScaledDown int `json:"nodesScaledDown,omitempty"`
	// Running and Pending pods at the end, daemon set pods not counted.
	Running int `json:"running"`
	Pending int `json:"pending"`

	// Notes are what a reader should know about how the input was read.
	Notes []string `json:"notes,omitempty"`

	Timeline []TimelineRow `json:"timeline"`
	// Story is what happened to the pod of --explain-pod; absent without it, or if there is no such pod.
	Story *PodStory `json:"story,omitempty"`
	// Groups are the node groups by name.
	Groups []GroupReport `json:"groups"`
	// Sets of similar groups, by their templates at the end.
	Sets [][]string `json:"sets"`
	// LeftAlone are all pods, over the whole time, that Cluster Autoscaler orders no node for, by
	// reason.
	LeftAlone []PendingReport `json:"leftAlone,omitempty"`
	// PendingPods are the pods that are still pending, equal ones together. Daemon set pods and
	// static pods that do not run have a row but do not count in Pending.
	PendingPods []PendingReport `json:"pendingPods,omitempty"`
	// WaitingNodes are nodes with little use that were not removed, by group and reason; only with
	// scale-down.
	WaitingNodes []WaitingReport `json:"waitingNodes,omitempty"`
	// WorkloadSpreads are the WorkloadSpreads at the end, by name.
	WorkloadSpreads []WorkloadSpreadReport `json:"workloadSpreads,omitempty"`
	// Expectations are the checks of spec.expect.
	Expectations []Expectation `json:"expectations,omitempty"`

	// History is the state over time: a row for each time at which it changed. A row holds until
	// the next one, the last row until End.
	History []HistoryRow `json:"history,omitempty"`
	// PendingTime sums up how long pods waited for a node.
	PendingTime PendingTime `json:"pendingTime"`
	// Unevenness is how much the sizes of similar groups differed.
	Unevenness Unevenness `json:"unevenness"`
	// Cost is set if at least one group has a price.
	Cost *Cost `json:"cost,omitempty"`
	// Faults are the faults of the scenario.
	Faults []FaultReport `json:"faults,omitempty"`
	// Nodes are all nodes that ever existed, by group and then by age; nodes without a group come
	// first.
	Nodes []NodeReport `json:"nodes,omitempty"`
	// Pods are all pods that ever existed except daemon set pods, in order of arrival.
	Pods []PodReport `json:"pods,omitempty"`
}

// PodStory is what was tried for a pod, what each group answered, and where it ran.
type PodStory struct {
	// Name is namespace/name.
	Name string        `json:"name"`
	Rows []TimelineRow `json:"rows"`
}

// GroupReport is what happened to a node group.
type GroupReport struct {
	Name string `json:"name"`
	Zone string `json:"zone,omitempty"`
	Min  int    `json:"min"`
	Max  int    `json:"max"`
	// Before and After are its target sizes at the start and at the end.
	Before int `json:"before"`
	After  int `json:"after"`
	// Ready is how many of its nodes are ready at the end.
	Ready int `json:"ready"`
	// Ordered and Removed count its nodes over the whole time.
	Ordered int `json:"ordered"`
	Removed int `json:"removed"`
	// Pods is how many pods run on its nodes at the end, without daemon set pods.
	Pods int `json:"pods"`
	// Set is the number of its set in Sets, beginning with 1 as in the table.
	Set int `json:"set"`
	// Template is where its template came from last.
	Template string `json:"template,omitempty"`
	// Why is why it has its size. Outcome is the same in one word: Idle, TakesNone, Skipped,
	// NotChosen, Partner, Refused, Grows or Shrinks.
	Why     string `json:"why,omitempty"`
	Outcome string `json:"outcome,omitempty"`
	// DiffersFrom is the chosen group if this group is not in its set. Differences are how they
	// differ, with this group's values on the left.
	DiffersFrom string            `json:"differsFrom,omitempty"`
	Differences []FieldDifference `json:"differences,omitempty"`
	// Price of one of its nodes per hour.
	Price json.Number `json:"price,omitempty"`
	// Sizes are its sizes over time, from the start; omitted if nothing changed.
	Sizes []GroupSize `json:"sizes,omitempty"`
}

// GroupSize is the size of a node group from a time on.
type GroupSize struct {
	At metav1.Duration `json:"at"`
	// Target size, and how many of its nodes are ready.
	Target int `json:"target"`
	Ready  int `json:"ready"`
}

// PendingReport is a number of equal pods that do not run.
type PendingReport struct {
	// Example is namespace/name of the first of them.
	Example string `json:"example"`
	Pods    int    `json:"pods"`
	Reason  string `json:"reason,omitempty"`
	// LeftAlone is, in one word, why Cluster Autoscaler orders no node for them, whatever room
	// there is: DaemonSet, Static, BeingDeleted, SchedulingGated, Nominated, Expendable or
	// OtherScheduler. Empty for pods that count.
	LeftAlone string `json:"leftAlone,omitempty"`
	// Rejections count the node groups on which they cannot run, by reason.
	Rejections []Rejection `json:"rejections,omitempty"`
}

// WaitingReport is a number of nodes of one group that could be removed but were not.
type WaitingReport struct {
	// Example is the name of the first of them.
	Example string `json:"example"`
	Group   string `json:"group"`
	Nodes   int    `json:"nodes"`
	Reason  string `json:"reason"`
}

// WorkloadSpreadReport is what happened to the pods of a WorkloadSpread.
type WorkloadSpreadReport struct {
	// Name is namespace/name, Workload kind and name of the target.
	Name     string `json:"name"`
	Workload string `json:"workload"`
	// Replicas is how many pods the workload asks for.
	Replicas int `json:"replicas"`
	// Subsets are in the order of the spec.
	Subsets []SubsetReport `json:"subsets,omitempty"`
	// Unassigned pods belong to no subset.
	Unassigned int `json:"unassigned,omitempty"`
	// Refused is how many pods could not be created at the end because no subset had room.
	Refused int `json:"refused,omitempty"`
	// Rescheduled pods were deleted because they could not be scheduled, and Waited ones were kept longer
	// than rescheduleCriticalSeconds because a node was on its way. Both count over the whole time.
	Rescheduled int `json:"rescheduled,omitempty"`
	Waited      int `json:"waited,omitempty"`
	// Conditions of the WorkloadSpread that are not True: the type, the reason and the message.
	Conditions []string `json:"conditions,omitempty"`
	// DeletionOrder are its pods at the end in the order in which the workload deletes them. Where
	// nothing but chance decides, the order is by a hash of the name.
	DeletionOrder []DeletionCandidate `json:"deletionOrder,omitempty"`
}

// SubsetReport is the state of a subset at the end.
type SubsetReport struct {
	Name string `json:"name"`
	// MaxReplicas is how many pods it may have; absent if there is no bound.
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
	Running     int    `json:"running"`
	Pending     int    `json:"pending"`
	// Groups are the node groups that its pods run on, and the nodes of no group.
	Groups []SubsetPods `json:"groups,omitempty"`
	// UnschedulableUntil is until when new pods pass over it, since the start; absent if they do not.
	UnschedulableUntil *metav1.Duration `json:"unschedulableUntil,omitempty"`
}

// SubsetPods is a number of pods.
type SubsetPods struct {
	Name string `json:"name"`
	Pods int    `json:"pods"`
}

// DeletionCandidate is a pod in the order of deletion.
type DeletionCandidate struct {
	// Pod is its name.
	Pod    string `json:"pod"`
	Subset string `json:"subset,omitempty"`
	// Cost is its deletion cost; absent if it has none.
	Cost *int32 `json:"cost,omitempty"`
	// Node that it runs on; absent while it is pending.
	Node string `json:"node,omitempty"`
}

// Expectation is one check and its result.
type Expectation struct {
	// Check names the field of spec.expect.
	Check string `json:"check"`
	Want  string `json:"want"`
	Got   string `json:"got"`
	OK    bool   `json:"ok"`
}
