package balancer

// The reasons in the status of a target that keeps its size. For all other targets it is a reason
// of package apportion, capitalized.
const (
	// ReasonUnreadable means that the target cannot be read and is taken to have its last known
	// size. It is also the reason of the condition TargetsReadable.
	ReasonUnreadable = "Unreadable"
	// ReasonUnknown means that the target could never be read. Its minimum is set aside for it.
	ReasonUnknown = "Unknown"
	// ReasonMissing means that the target does not exist. Nothing is set aside for it.
	ReasonMissing = "Missing"
	// ReasonConflict means that the target must not be written.
	ReasonConflict = "Conflict"
	// ReasonSecondWriter means that something else keeps writing the size of the target. It is also
	// the reason of the condition TargetsReadable, and of an event.
	ReasonSecondWriter = "SecondWriter"
)

// The reasons of events.
const (
	// ReasonRescaled: the size of a target is written.
	ReasonRescaled = "Rescaled"
	// ReasonFallbackStarted: replicas of a target have not started in time, and are started
	// elsewhere.
	ReasonFallbackStarted = "FallbackStarted"
	// ReasonFallbackEnded: a target has recovered and is to run its share again.
	ReasonFallbackEnded = "FallbackEnded"
	// ReasonTargetUnreadable: a target cannot be read, and keeps its size.
	ReasonTargetUnreadable = "TargetUnreadable"
	// ReasonTargetConflict: a target must not be written, and keeps its size.
	ReasonTargetConflict = "TargetConflict"
)

// The reasons of conditions.
const (
	// ReasonBalanced: every target has its share.
	ReasonBalanced = "Balanced"
	// ReasonInvalidSpec: the spec is invalid, and nothing is done. It is also the reason of an
	// event.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonReplicasNotSet: spec.replicas is not set yet.
	ReasonReplicasNotSet = "ReplicasNotSet"
	// ReasonTargetsLeftAlone: some targets are not written.
	ReasonTargetsLeftAlone = "TargetsLeftAlone"
	// ReasonNotStartedInTime: replicas have not started in time.
	ReasonNotStartedInTime = "NotStartedInTime"
	// ReasonMoving: replicas leave when others run in their place.
	ReasonMoving = "Moving"
	// ReasonTargetMissing: a target does not exist, and its replicas are started elsewhere. It is
	// also the reason of an event.
	ReasonTargetMissing = "TargetMissing"
	// ReasonAllTargetsRead: every target can be read and written.
	ReasonAllTargetsRead = "AllTargetsRead"
	// ReasonNoTargetBlocked: every target is to run its own share.
	ReasonNoTargetBlocked = "NoTargetBlocked"
	// ReasonNoRoom: some replicas cannot run on any target.
	ReasonNoRoom = "NoRoom"
	// ReasonRoom: every replica has a target.
	ReasonRoom = "Room"
	// ReasonMinimumsTooLarge: the minimums sum to more than the replicas.
	ReasonMinimumsTooLarge = "MinimumsTooLarge"
	// ReasonReplicasCoverMinimums: the minimums sum to no more than the replicas.
	ReasonReplicasCoverMinimums = "ReplicasCoverMinimums"
	// ReasonReplicasRun: as many replicas run as are asked for.
	ReasonReplicasRun = "ReplicasRun"
	// ReasonReplicasMissing: fewer replicas run than are asked for.
	ReasonReplicasMissing = "ReplicasMissing"
	// ReasonComplete: every replica runs on the target that should run it.
	ReasonComplete = "Complete"
	// ReasonStarting: replicas are starting.
	ReasonStarting = "Starting"
)
