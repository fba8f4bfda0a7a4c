package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Words for what happened: TimelineRow.What. The comment names the fields of the
// row that are set where they have a value.
const (
	// RowPods: pods were there, came, left or were evicted. Reason, Workload,
	// Pods, Pending.
	RowPods = "pods"
	// RowBound: the scheduler bound pods. Pods, Pending.
	RowBound = "bound"
	// RowNodesReady: nodes became ready. Nodes, Groups.
	RowNodesReady = "nodes"
	// RowNodesLost: nodes are gone or not ready any more. Reason, Nodes, Groups,
	// Pods pending again, Faults.
	RowNodesLost = "nodes-lost"
	// RowScaleUp: groups grew. Nodes, Groups, Pods helped, ScaleUp.
	RowScaleUp = "scale-up"
	// RowScaleDown: groups shrank. Nodes, Groups with Behind, Pods to move.
	RowScaleDown = "scale-down"
	// RowWaiting: nodes that nobody needs wait for another group. Groups with
	// Behind.
	RowWaiting = "waiting"
	// RowRefused: the cloud refused to change a group's size. Groups with the nodes
	// asked for (below zero: to be deleted), Error, Faults.
	RowRefused = "refused"
	// RowRepair: ordered nodes were given up. Nodes, Groups, Reason, Error, Faults.
	RowRepair = "repair"
	// RowUnhelped: pods that no group can help. Pods, Example, Reason, Rejections.
	RowUnhelped = "unhelped"
	// RowLeftAlone: pods that no node is ordered for. Pods, Example, Reason.
	RowLeftAlone = "left-alone"
	// RowWarning: something looks wrong. Reason or, of a group that grew although
	// the cloud answered with an error, Groups, Error and Faults.
	RowWarning = "warning"
	// RowError: whole rounds failed. Error, Rounds.
	RowError = "error"
)

// Values of TimelineRow.Reason of pods and of nodes that were lost.
const (
	PodsAtStart   = "AtStart"
	PodsArrived   = "Arrived"
	PodsLeft      = "Left"
	PodsEvicted   = "Evicted"
	NodesNotReady = "NotReady"
	NodesGone     = "Gone"
)

// TimelineRow is one thing that happened: in words, and in fields of which What
// says which ones are used.
type TimelineRow struct {
	At metav1.Duration `json:"at"`
	// What is one of the Row constants.
	What string `json:"what"`
	// Text says it in full.
	Text string `json:"text"`

	// Reason is one word where there are only a few, else a sentence fragment.
	Reason string `json:"reason,omitempty"`
	// Groups it happened to, by name.
	Groups []GroupChange `json:"groups,omitempty"`
	// Nodes of all these groups together.
	Nodes int `json:"nodes,omitempty"`
	// Pods it happened to; Example is namespace/name of the first where they are
	// equal, Workload namespace/name of what they belong to.
	Pods     int    `json:"pods,omitempty"`
	Example  string `json:"example,omitempty"`
	Workload string `json:"workload,omitempty"`
	// Pending pods afterwards.
	Pending *int `json:"pending,omitempty"`
	// Rejections count the node groups that do not take the pods, by reason.
	Rejections []Rejection `json:"rejections,omitempty"`
	// ScaleUp says how a scale-up was decided.
	ScaleUp *ScaleUpReport `json:"scaleUp,omitempty"`
	// Error is what a call of the cloud, or a whole round, failed with.
	Error string `json:"error,omitempty"`
	// Rounds that failed in the same way.
	Rounds int `json:"rounds,omitempty"`
	// Faults that struck these groups at that time: positions in status.faults.
	Faults []int `json:"faults,omitempty"`
}

// GroupChange is what happened to one group.
type GroupChange struct {
	Name string `json:"name"`
	// Nodes it is about; below zero for nodes to be deleted.
	Nodes int `json:"nodes,omitempty"`
	// From and To are target sizes before and after, where they changed.
	From *int `json:"from,omitempty"`
	To   *int `json:"to,omitempty"`
	// Reason is a sentence fragment about this group.
	Reason string `json:"reason,omitempty"`
	// Behind is the larger group of its set that it waited for.
	Behind string `json:"behind,omitempty"`
}

// ScaleUpReport is how the growth of groups was decided.
type ScaleUpReport struct {
	// Try is 1 for the split as planned, 2 for what others refused and was split
	// again, and so on.
	Try int `json:"try"`
	// Asked nodes of all groups of this try; those that came are the row's Nodes.
	Asked int `json:"asked"`
	// Needed nodes for all pods that the chosen set helps, and Unplaced those of
	// them that no group has room for.
	Needed   int `json:"needed"`
	Unplaced int `json:"unplaced,omitempty"`
	// Chosen is the group the expander chose.
	Chosen string `json:"chosen"`
	// Expander are the steps that led to it, where there was a choice.
	Expander []ExpanderStep `json:"expander,omitempty"`
}

// ExpanderStep is what one strategy made of the options the one before it left.
type ExpanderStep struct {
	Strategy string `json:"strategy"`
	// Options it judged, and how many of them it kept.
	Options int `json:"options"`
	Kept    int `json:"kept"`
	// Figure is what it measured of the chosen group.
	Figure string `json:"figure,omitempty"`
}

// Rejection is why so many node groups do not take a pod. A group may have
// several reasons.
type Rejection struct {
	Reason string `json:"reason"`
	Groups int    `json:"groups"`
}
