package federation

// The reasons in the status of a cluster that does not share the replicas now. For all other
// clusters it is a reason of package apportion, capitalized.
const (
	// ReasonUnreachable means that the cluster has not answered for a short time and keeps what it
	// has.
	ReasonUnreachable = "Unreachable"
	// ReasonLost means that the cluster has not answered for long, or has returned only a moment ago.
	// Its replicas run elsewhere.
	ReasonLost = "Lost"
	// ReasonUnknown means that the cluster could never be reached.
	ReasonUnknown = "Unknown"
	// ReasonSecondWriter means that something else also writes the local object, which is left as it
	// is for a while. It is also the reason of an event and of the condition Settled.
	ReasonSecondWriter = "SecondWriter"
	// ReasonNoEntry means that no entry of the preferences applies to the cluster.
	ReasonNoEntry = "NoEntry"
)

// The reasons of events.
const (
	// ReasonCreated: a local object is created, for the first time or because it was deleted.
	ReasonCreated = "Created"
	// ReasonDeleted: a local object is deleted, because its cluster is to have none.
	ReasonDeleted = "Deleted"
	// ReasonOverwritten: somebody else's object of that name, or somebody else's change, is
	// overwritten.
	ReasonOverwritten = "Overwritten"
	// ReasonLeftBehind: a local object that was somebody else's before is not deleted.
	ReasonLeftBehind = "LeftBehind"
	// ReasonRescaled: the number of replicas of a local object changes.
	ReasonRescaled = "Rescaled"
	// ReasonMoved: replicas leave a cluster and run in others.
	ReasonMoved = "Moved"
	// ReasonRolledOut: a local object gets a new template.
	ReasonRolledOut = "TemplateChanged"
	// ReasonRefused: a cluster refuses a write, or the write fails otherwise. It is also the reason of the condition Settled.
	ReasonRefused = "Refused"
	// ReasonFallbackStarted: replicas have not started in time, and are started elsewhere.
	ReasonFallbackStarted = "FallbackStarted"
	// ReasonFallbackEnded: a cluster has recovered and is to run its share again.
	ReasonFallbackEnded = "FallbackEnded"
	// ReasonClusterLost: a cluster is lost, and its replicas start elsewhere.
	ReasonClusterLost = "ClusterLost"
	// ReasonClusterBack: a lost cluster shares the replicas again.
	ReasonClusterBack = "ClusterBack"
	// ReasonUnclearPreferences: the preferences are easily misunderstood. It is also the reason of
	// the condition PreferencesClear.
	ReasonUnclearPreferences = "UnclearPreferences"
)

// The reasons of conditions.
const (
	// ReasonInvalidSpec: the spec is invalid, and nothing is done. It is also the reason of an event.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonAllPlaced: every replica has a cluster that is able to run it.
	ReasonAllPlaced = "AllPlaced"
	// ReasonNoRoom: some replicas have no cluster that is able to run them, or may.
	ReasonNoRoom = "NoRoom"
	// ReasonAllReachable: every cluster can be reached.
	ReasonAllReachable = "AllReachable"
	// ReasonClustersUnreachable: some clusters cannot be reached.
	ReasonClustersUnreachable = "ClustersUnreachable"
	// ReasonSettled: nothing moves or is about to.
	ReasonSettled = "Settled"
	// ReasonWriting: local objects are being written.
	ReasonWriting = "Writing"
	// ReasonMoving: replicas leave when others run in their place.
	ReasonMoving = "Moving"
	// ReasonRolling: clusters wait for their turn to get the new template.
	ReasonRolling = "RollingOut"
	// ReasonStarting: replicas are starting.
	ReasonStarting = "Starting"
	// ReasonStopping: there are more pods than replicas.
	ReasonStopping = "Stopping"
	// ReasonDeleting: the object is deleted, and some of its local objects are still there; or a local object
	// is being deleted, and is created again when it is gone.
	ReasonDeleting = "Deleting"
	// ReasonClear: the preferences say what they mean.
	ReasonClear = "Clear"
)
