package autoscaler

import (
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// Decision is what one scale-up wants to do and why. Everything that is logged,
// printed or exported comes from it.
type Decision struct {
	// Trail is how the expander came to its choice.
	Trail expander.Trail
	// Chosen is empty where no group could help any pod.
	Chosen string
	// Members are the chosen group and its partners, by name.
	Members []string
	// Need is the number of nodes that the pods of the option need.
	Need int
	// Unplaced is the part of Need no member had room for.
	Unplaced int
	// Groups says of every group of the cloud what happened to it, by name.
	Groups []GroupOutcome
	// Pods says of every kind of pending pod what happened to it.
	Pods []PodOutcome
	// Warnings are for the operator: overlapping quotas and the like.
	Warnings []string
}

// Outcome says in one word what happened to a group or of pods.
type Outcome string

// Outcomes of groups.
const (
	// GroupSkipped groups cannot grow now.
	GroupSkipped Outcome = "Skipped"
	// GroupTakesNone groups pass none of the pending pods.
	GroupTakesNone Outcome = "TakesNone"
	// GroupIdle groups can grow, and nothing needs them to.
	GroupIdle Outcome = "Idle"
	// GroupNotChosen groups stood for election and lost.
	GroupNotChosen Outcome = "NotChosen"
	// GroupPartner groups belong to the chosen set and get nothing this time.
	GroupPartner Outcome = "Partner"
	// GroupGrows groups get nodes.
	GroupGrows Outcome = "Grows"
	// GroupRefused groups were to grow and the cloud did not let them.
	GroupRefused Outcome = "Refused"
)

// Outcomes of pods.
const (
	// PodsHelped pods are the reason for the nodes that are ordered.
	PodsHelped Outcome = "Helped"
	// PodsFit pods fit on nodes that exist.
	PodsFit Outcome = "Fit"
	// PodsAwaitNodes pods fit on nodes that are on their way.
	PodsAwaitNodes Outcome = "AwaitNodes"
	// PodsNextRound pods wait for a later round: another option was chosen, or
	// a limit of this round was reached.
	PodsNextRound Outcome = "NextRound"
	// PodsUnhelped pods can be helped by no group now.
	PodsUnhelped Outcome = "Unhelped"
)

// GroupOutcome is what happened to one group.
type GroupOutcome struct {
	Group   string
	Outcome Outcome
	// Reason is a sentence fragment a person understands.
	Reason string
	// DiffersFrom is the chosen group, where this one is not similar to it, and
	// Differences are why, with this group on the left.
	DiffersFrom string
	Differences []nodegroupset.Difference
}

// PodOutcome is what happened to pods that are equal to the scheduler.
type PodOutcome struct {
	// Example is namespace/name of the first of them.
	Example string
	Count   int
	Outcome Outcome
	Reason  string
	// Rejections are why each group takes none of them, where that is the reason.
	Rejections []Rejection
	// Tried is what each group answers to one of them, if Options.Explain selects it.
	Tried []GroupAnswer
	// Pods are their positions among Survey.Pending.
	Pods []int
}

// GroupAnswer says whether a new node of a group takes a pod, or why not.
type GroupAnswer struct{ Group, Answer string }

// Rejection is a reason for which groups do not take pods, and how many of them
// have it; the most frequent comes first.
type Rejection struct {
	Reason string
	Groups int
}

// Attempt is one resize call and its result.
type Attempt struct {
	Group string
	// Delta is how many nodes were asked for, To the target size with them, and Grew how many the
	// group's target size rose by.
	Delta, To, Grew int
	Err             error
}

// Repair is what was taken back of a group's nodes that did not come.
type Repair struct {
	Group  string
	Nodes  int
	Reason string
	Err    error
}
