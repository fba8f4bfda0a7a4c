package workloadspread

// The reasons of refusals, events and conditions.
const (
	ReasonNoRoom           = "NoRoom"           // no subset has room for the pod
	ReasonCreationTimedOut = "CreationTimedOut" // a pod that was admitted has not been seen in time
	ReasonUnschedulable    = "Unschedulable"    // new pods pass over a subset
	ReasonRescheduled      = "Rescheduled"      // a pod that cannot be scheduled is deleted

	ReasonFound        = "Found"               // the workload exists
	ReasonNotFound     = "NotFound"            // there is no such workload
	ReasonUnreadable   = "Unreadable"          // it cannot be read, or does not say how many replicas it asks for
	ReasonValid        = "Valid"               // the spec is valid
	ReasonInvalidSpec  = "InvalidSpec"         // the spec is invalid, and nothing is done
	ReasonDeletionCost = "DeletionCost"        // the controller of the workload reads deletion costs
	ReasonByOrdinal    = "ByOrdinal"           // it deletes the highest ordinal first
	ReasonNotRead      = "DeletionCostNotRead" // it does not read deletion costs
	ReasonAssigned     = "Assigned"            // every pod belongs to a subset
	ReasonUnassigned   = "Unassigned"          // some pods belong to no subset
	ReasonFits         = "Fits"                // pods are created with the patch of a subset
	ReasonPatchRefused = "PatchRefused"        // pods are refused with the patch of a subset
	ReasonSchedulable  = "Schedulable"         // new pods may go to the subset
)
