package workloadspread

// The reasons of admissions, and of the events about them.
const (
	// ReasonAdmitted: the pod belongs to a subset.
	ReasonAdmitted = "Admitted"
	// ReasonAgain: the pod was admitted before, and belongs to the same subset.
	ReasonAgain = "AdmittedAgain"
	// ReasonNoRoom: no subset has room for the pod. It is also a reason of the condition AllInSubsets.
	ReasonNoRoom = "NoRoom"
)

// The reasons of events.
const (
	// ReasonCreationTimedOut: a pod that was admitted has not been seen in time.
	ReasonCreationTimedOut = "CreationTimedOut"
	// ReasonUnschedulable: new pods pass over a subset. It is also a reason of the condition
	// Schedulable.
	ReasonUnschedulable = "Unschedulable"
	// ReasonRescheduled: a pod that cannot be scheduled is deleted.
	ReasonRescheduled = "Rescheduled"
)

// The reasons of conditions.
const (
	// ReasonFound: the workload exists.
	ReasonFound = "Found"
	// ReasonNotFound: there is no such workload.
	ReasonNotFound = "NotFound"
	// ReasonUnreadable: the workload cannot be read, or does not say how many replicas it asks for.
	ReasonUnreadable = "Unreadable"
	// ReasonValid: the spec is valid.
	ReasonValid = "Valid"
	// ReasonInvalidSpec: the spec is invalid, and nothing is done.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonDeletionCost: the controller of the workload reads deletion costs.
	ReasonDeletionCost = "DeletionCost"
	// ReasonByOrdinal: the controller of the workload deletes the highest ordinal first.
	ReasonByOrdinal = "ByOrdinal"
	// ReasonNotRead: the controller of the workload does not read deletion costs.
	ReasonNotRead = "DeletionCostNotRead"
	// ReasonAssigned: every pod belongs to a subset.
	ReasonAssigned = "Assigned"
	// ReasonUnassigned: some pods belong to no subset.
	ReasonUnassigned = "Unassigned"
	// ReasonFits: pods are created with the patch of a subset.
	ReasonFits = "Fits"
	// ReasonPatchRefused: pods are refused with the patch of a subset. It is also a reason of events.
	ReasonPatchRefused = "PatchRefused"
	// ReasonSchedulable: new pods may go to the subset.
	ReasonSchedulable = "Schedulable"
)
