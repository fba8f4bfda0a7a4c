package federation

import "github.com/evenkeel/evenkeel/replica"

// The reasons in the status of a cluster that does not share the replicas now. For all other
// clusters it is a reason of package apportion, capitalized.
const (
	ReasonUnreachable  = "Unreachable"  // it has not answered for a short time and keeps what it has
	ReasonLost         = "Lost"         // it has not answered for long, or has just returned: its replicas run elsewhere
	ReasonUnknown      = "Unknown"      // it could never be reached
	ReasonSecondWriter = "SecondWriter" // something else also writes the local object; also of an event and of Settled
	ReasonNoEntry      = "NoEntry"      // no entry of the preferences applies to it
)

// The reasons of events.
const (
	ReasonCreated            = "Created"                     // a local object is created, for the first time or again
	ReasonDeleted            = "Deleted"                     // a local object is deleted, because its cluster is to have none
	ReasonOverwritten        = "Overwritten"                 // somebody else's object or change is overwritten
	ReasonLeftBehind         = "LeftBehind"                  // a local object that was somebody else's before is not deleted
	ReasonRescaled           = "Rescaled"                    // the number of replicas of a local object changes
	ReasonMoved              = "Moved"                       // replicas leave a cluster and run in others
	ReasonRolledOut          = "TemplateChanged"             // a local object gets a new template
	ReasonRefused            = "Refused"                     // a write is refused or fails otherwise; also of the condition Settled
	ReasonFallbackStarted    = replica.ReasonFallbackStarted // replicas have not started in time, and are started elsewhere
	ReasonFallbackEnded      = replica.ReasonFallbackEnded   // a cluster has recovered and is to run its share again
	ReasonClusterLost        = "ClusterLost"                 // a cluster is lost, and its replicas start elsewhere
	ReasonClusterBack        = "ClusterBack"                 // a lost cluster shares the replicas again
	ReasonUnclearPreferences = "UnclearPreferences"          // they are easily misunderstood; also of the condition PreferencesClear
)

// The reasons of conditions.
const (
	ReasonInvalidSpec         = "InvalidSpec"         // nothing is done; also of an event
	ReasonAllPlaced           = "AllPlaced"           // every replica has a cluster that is able to run it
	ReasonNoRoom              = "NoRoom"              // some replicas have no cluster that is able to run them, or may
	ReasonAllReachable        = "AllReachable"        // every cluster can be reached
	ReasonClustersUnreachable = "ClustersUnreachable" // some clusters cannot be reached
	ReasonSettled             = "Settled"             // nothing moves or is about to
	ReasonWriting             = "Writing"             // local objects are being written
	ReasonMoving              = "Moving"              // replicas leave when others run in their place
	ReasonRolling             = "RollingOut"          // clusters wait for their turn to get the new template
	ReasonStarting            = "Starting"            // replicas are starting
	ReasonStopping            = "Stopping"            // there are more pods than replicas
	ReasonDeleting            = "Deleting"            // local objects are being deleted, for good or to be created again
	ReasonClear               = "Clear"               // the preferences say what they mean
)
