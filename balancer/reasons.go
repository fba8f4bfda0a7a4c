package balancer

import "github.com/evenkeel/evenkeel/replica"

// The reasons in the status of a target that keeps its size. For all other targets it is a reason
// of package apportion, capitalized.
const (
	ReasonUnreadable   = "Unreadable"   // it is taken to have its last known size; also of the condition TargetsReadable
	ReasonUnknown      = "Unknown"      // it could never be read: its minimum is set aside for it
	ReasonMissing      = "Missing"      // it does not exist: nothing is set aside for it
	ReasonConflict     = "Conflict"     // it must not be written
	ReasonSecondWriter = "SecondWriter" // something else keeps writing its size; also of TargetsReadable, and of an event
)

// The reasons of events.
const (
	ReasonRescaled         = "Rescaled"                    // the size of a target is written
	ReasonFallbackStarted  = replica.ReasonFallbackStarted // replicas have not started in time, and are started elsewhere
	ReasonFallbackEnded    = replica.ReasonFallbackEnded   // a target has recovered and is to run its share again
	ReasonTargetUnreadable = "TargetUnreadable"            // a target cannot be read, and keeps its size
	ReasonTargetConflict   = "TargetConflict"              // a target must not be written, and keeps its size
)

// The reasons of conditions.
const (
	ReasonBalanced              = "Balanced"              // every target has its share
	ReasonInvalidSpec           = "InvalidSpec"           // nothing is done; also of an event
	ReasonReplicasNotSet        = "ReplicasNotSet"        // spec.replicas is not set yet
	ReasonTargetsLeftAlone      = "TargetsLeftAlone"      // some targets are not written
	ReasonNotStartedInTime      = "NotStartedInTime"      // replicas have not started in time
	ReasonMoving                = "Moving"                // replicas leave when others run in their place
	ReasonTargetMissing         = "TargetMissing"         // replicas of a missing target start elsewhere; also of an event
	ReasonAllTargetsRead        = "AllTargetsRead"        // every target can be read and written
	ReasonNoTargetBlocked       = "NoTargetBlocked"       // every target is to run its own share
	ReasonNoRoom                = "NoRoom"                // some replicas cannot run on any target
	ReasonRoom                  = "Room"                  // every replica has a target
	ReasonMinimumsTooLarge      = "MinimumsTooLarge"      // the minimums sum to more than the replicas
	ReasonReplicasCoverMinimums = "ReplicasCoverMinimums" // the minimums sum to no more than the replicas
	ReasonReplicasRun           = "ReplicasRun"           // as many replicas run as are asked for
	ReasonReplicasMissing       = "ReplicasMissing"       // fewer replicas run than are asked for
	ReasonComplete              = "Complete"              // every replica runs on the target that should run it
	ReasonStarting              = "Starting"              // replicas are starting
)
