package cloudprovider

import (
	"fmt"
	"time"
)

// NodeGroup is a group of equal nodes, whose number can be changed.
type NodeGroup struct {
	// ID identifies the group as long as it exists. Never empty.
	ID string
	// MinSize and MaxSize bound the target sizes that a caller may set: 0 <= MinSize <= MaxSize.
	// The current target size may be outside.
	MinSize, MaxSize int
	// Debug is a line about the group for human readers.
	Debug string
}

// Instance is one machine of a node group, registered as a node or not.
type Instance struct {
	// ID is the spec.providerID of the machine's node. Unique over all groups.
	ID string
	// State is the state of the machine; zero if unknown.
	State InstanceState
	// Error describes why the machine could not be created; nil if nothing failed.
	Error *InstanceError
}

// InstanceState is a state in the lifecycle of an instance. The numbers are those of the external
// gRPC protocol; zero means that the state is unknown.
type InstanceState int

// The states of an instance.
const (
	InstanceRunning  InstanceState = 1 // exists; may not be registered as a node yet
	InstanceCreating InstanceState = 2 // ordered, or failed to be created
	InstanceDeleting InstanceState = 3 // being deleted; not part of the target size
)

// String returns the state's name on the wire without its prefix.
func (s InstanceState) String() string {
	names := [...]string{"Unspecified", InstanceRunning: "Running", InstanceCreating: "Creating", InstanceDeleting: "Deleting"}
	if s < 0 || int(s) >= len(names) {
		return fmt.Sprintf("InstanceState(%d)", int(s))
	}
	return names[s]
}

// InstanceError describes why an instance could not be created.
type InstanceError struct {
	// Class determines how callers react.
	Class ErrorClass
	// Code is the cloud's own short word for the error. Never empty: on the wire
	// an empty code means that there is no error.
	Code string
	// Message is for human readers.
	Message string
}

// ErrorClass says what kind of failure kept a node from being created. The
// numbers are those of the external gRPC protocol.
type ErrorClass int

// The classes of failure.
const (
	// OutOfResourcesErrorClass: stock-outs and quotas. Waiting, or another node group, may help.
	OutOfResourcesErrorClass ErrorClass = 1
	// OtherErrorClass: everything else.
	OtherErrorClass ErrorClass = 99
)

// String returns a name for the class.
func (c ErrorClass) String() string {
	switch c {
	case OutOfResourcesErrorClass:
		return "OutOfResources"
	case OtherErrorClass:
		return "Other"
	}
	return fmt.Sprintf("ErrorClass(%d)", int(c))
}

// Defaults of Cluster Autoscaler's flags of these names, which apply to a group without settings of
// its own.
const (
	DefaultMaxNodeProvisionTime = 15 * time.Minute
	DefaultMaxNodeStartupTime   = 15 * time.Minute
)

// GroupOptions are the settings a node group may have of its own instead of the autoscaler's, under
// Cluster Autoscaler's names. They are passed on and not used in calculations, hence the two
// floats.
//
// MaxNodeStartupTime and AllowNonAtomicScaleUpToMax have no field in the external gRPC protocol and
// are lost on the way.
type GroupOptions struct {
	ScaleDownUtilizationThreshold    float64 // 0 to 1
	ScaleDownGPUUtilizationThreshold float64 // 0 to 1
	ScaleDownUnneededTime            time.Duration
	ScaleDownUnreadyTime             time.Duration
	MaxNodeProvisionTime             time.Duration
	MaxNodeStartupTime               time.Duration
	ZeroOrMaxNodeScaling             bool // the group is resized only to its maximum or to zero
	AllowNonAtomicScaleUpToMax       bool
	IgnoreDaemonSetsUtilization      bool
}
