package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The values of TimelineRow.What. The comments name the fields of the row that are set if they have
// a value.
const (
	// RowPods: pods existed at the start, were created, refused, deleted or evicted. Reason, Workload,
	// Pods, Pending, Subsets.
	RowPods = "pods"
	// RowBound: the scheduler bound pods. Pods, Pending.
	RowBound = "bound"
	// RowNodesReady: nodes became ready. Nodes, Groups.
	RowNodesReady = "nodes"
	// RowNodesLost: nodes are gone or no longer ready. Reason, Nodes, Groups, Pods that are pending
	// again, Faults.
	RowNodesLost = "nodes-lost"
	// RowScaleUp: groups grew. Nodes, Groups, Pods helped, ScaleUp.
	RowScaleUp = "scale-up"
	// RowScaleDown: groups shrank. Nodes, Groups, Pods to move.
	RowScaleDown = "scale-down"
	// RowWaiting: nodes that are not needed wait for another group. Groups with Behind.
	RowWaiting = "waiting"
	// RowRefused: the cloud refused to change a group's size. Groups with the nodes asked for
	// (below zero: to be deleted), Error, Faults.
	RowRefused = "refused"
	// RowRepair: ordered nodes were given up. Nodes, Groups, Reason, Error, Faults.
	RowRepair = "repair"
	// RowUnhelped: pods that cannot run on a node of any group. Pods, Example, Reason, Rejections.
	RowUnhelped = "unhelped"
	// RowLeftAlone: pods that no node is ordered for. Pods, Example, Reason.
	RowLeftAlone = "left-alone"
	// RowSidecar: the sidecar publishes an event. Reason is its message.
	RowSidecar = "sidecar"
	// RowZoneShifted: a zone is shifted away. Domain, Until, Groups, which do not grow, and Reason.
	RowZoneShifted = "zone-shifted"
	// RowZoneReturned: a zone that was shifted away has come back. Domain, Reason.
	RowZoneReturned = "zone-returned"
	// RowRollout: a new revision of a workload begins. Workload.
	RowRollout = "rollout"
	// RowSubset: pods of a WorkloadSpread could not be scheduled in a subset, waited for a node, or may
	// go there again. Reason, Workload, Domain is the subset, Until, Pods.
	RowSubset = "subset"
	// RowWarning: something looks wrong. Reason or, for a group that grew although the cloud
	// answered with an error, Groups, Error and Faults.
	RowWarning = "warning"
	// RowError: whole rounds failed. Error, Rounds.
	RowError = "error"
)

// The values of TimelineRow.Reason for subsets are Unschedulable (new pods pass over it), Rescheduled
// (pods were deleted), Waited (for a node that was on its way) and
// Schedulable (new pods may go there again).

// The values of TimelineRow.Reason for pods, and for nodes that were lost.
const (
	PodsAtStart   = "AtStart"
	PodsArrived   = "Arrived"
	PodsLeft      = "Left"
	PodsEvicted   = "Evicted"
	PodsPreempted = "Preempted" // by pods of higher priority
	PodsRefused   = "Refused"
	PodsBuffered  = "Buffered" // room for them is wanted by a CapacityBuffer
	// PodsProvisioned and PodsNotProvisioned are those of a ProvisioningRequest that has got room, or has not.
	PodsProvisioned    = "Provisioned"
	PodsNotProvisioned = "NotProvisioned"
	NodesNotReady      = "NotReady"
	NodesGone          = "Gone"
)

// TimelineRow is something that happened, in words and in fields. What determines which fields are
// used.
type TimelineRow struct {
	At metav1.Duration `json:"at"`
	// What is one of the Row constants.
	What string `json:"what"`
	// Text is the full description.
	Text string `json:"text"`

	// Reason is one word if there are only a few reasons, else a sentence fragment.
	Reason string `json:"reason,omitempty"`
	// Domain is the zone, or the value of another label, that is shifted away or has come back, or a
	// subset. Until is when it comes back by itself.
	Domain string           `json:"domain,omitempty"`
	Until  *metav1.Duration `json:"until,omitempty"`
	// Groups are the affected groups, by name.
	Groups []GroupChange `json:"groups,omitempty"`
	// Nodes of all these groups together.
	Nodes int `json:"nodes,omitempty"`
	// Pods is how many pods are affected. Example is namespace/name of the first if they are equal,
	// Workload namespace/name of their workload.
	Pods     int    `json:"pods,omitempty"`
	Example  string `json:"example,omitempty"`
	Workload string `json:"workload,omitempty"`
	// Subsets are the subsets of a WorkloadSpread that the pods belong to; that of pods in none has no
	// name.
	Subsets []SubsetPods `json:"subsets,omitempty"`
	// Pending pods afterwards.
	Pending *int `json:"pending,omitempty"`
	// Rejections count the node groups on which the pods cannot run, by reason.
	Rejections []Rejection `json:"rejections,omitempty"`
	// ScaleUp is how a scale-up was decided.
	ScaleUp *ScaleUpReport `json:"scaleUp,omitempty"`
	// Error is the error of a call of the cloud, or of a whole round.
	Error string `json:"error,omitempty"`
	// Rounds that failed in the same way.
	Rounds int `json:"rounds,omitempty"`
	// Faults are the faults that affected these groups at that time, as positions in status.faults.
	Faults []int `json:"faults,omitempty"`
}

// GroupChange is what happened to one group.
type GroupChange struct {
	Name string `json:"name"`
	// Nodes is how many nodes are affected; negative for nodes to be deleted.
	Nodes int `json:"nodes,omitempty"`
	// From and To are the target sizes before and after, if they changed.
	From *int `json:"from,omitempty"`
	To   *int `json:"to,omitempty"`
	// Reason is a sentence fragment about this group.
	Reason string `json:"reason,omitempty"`
	// Behind is the larger group of its set that it waited for.
	Behind string `json:"behind,omitempty"`
}

// ScaleUpReport is how the growth of groups was decided.
type ScaleUpReport struct {
	// Asked is how many nodes this scale-up ordered from all groups; those that were accepted are the
	// row's Nodes.
	Asked int `json:"asked"`
	// Needed is how many nodes are needed for all pods that can run on the chosen set, Unplaced how
	// many of them no group has room for.
	Needed   int `json:"needed"`
	Unplaced int `json:"unplaced,omitempty"`
	// Chosen is the group that the expander chose.
	Chosen string `json:"chosen"`
	// Expander are the steps of the choice, if there was one.
	Expander []ExpanderStep `json:"expander,omitempty"`
}

// ExpanderStep is what a strategy made of the options that the previous one left.
type ExpanderStep struct {
	Strategy string `json:"strategy"`
	// Options is how many options it compared, and Kept how many of them it kept.
	Options int `json:"options"`
	Kept    int `json:"kept"`
	// Figure is what it measured for the chosen group.
	Figure string `json:"figure,omitempty"`
}

// Rejection is why a pod cannot run on a number of node groups. A group may have several reasons.
type Rejection struct {
	Reason string `json:"reason"`
	Groups int    `json:"groups"`
}
