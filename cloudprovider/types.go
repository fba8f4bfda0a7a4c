package cloudprovider

import (
	"fmt"
	"time"
)

// NodeGroup is a group of equal nodes that grows and shrinks by number.
type NodeGroup struct {
	// ID identifies the group for as long as it exists. Never empty.
	ID string
	// MinSize and MaxSize bound what a caller may set the target size to:
	// 0 <= MinSize <= MaxSize. The target size itself may lie outside.
	MinSize, MaxSize int
	// Debug is a line about the group for people.
	Debug string
}

// Instance is one machine of a node group, registered as a node or not.
type Instance struct {
	// ID is the spec.providerID of the machine's node. Unique over all groups.
	ID string
	// State is where the machine is in its life; zero when not known.
	State InstanceState
	// Error tells why the machine could not be created; nil when nothing failed.
	Error *InstanceError
}

// InstanceState is where an instance is in its life. The numbers are those of
// the external gRPC protocol; zero means that the cloud does not tell.
type InstanceState int

// The states of an instance.
const (
	InstanceRunning  InstanceState = 1 // exists; may not be registered as a node yet
	InstanceCreating InstanceState = 2 // ordered, or failed to be created
	InstanceDeleting InstanceState = 3 // on its way out; not part of the target size
)

// String returns the state's name on the wire without its prefix.
func (s InstanceState) String() string {
	switch s {
	case 0:
		return "Unspecified"
	case InstanceRunning:
		return "Running"
	case InstanceCreating:
		return "Creating"
	case InstanceDeleting:
		return "Deleting"
	}
	return fmt.Sprintf("InstanceState(%d)", int(s))
}

// InstanceError tells why an instance could not be created.
type InstanceError struct {
	// Class decides how callers react.
	Class ErrorClass
	// Code is the cloud's own short word for the error. Never empty: on the wire
	// an empty code means that there is no error.
	Code string
	// Message is for people.
	Message string
}

// ErrorClass says what kind of failure kept a node from being created. The
// numbers are those of the external gRPC protocol.
type ErrorClass int

// The classes of failure.
const (
	// OutOfResourcesErrorClass: stock-outs and quotas. Waiting or going elsewhere helps.
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

// Defaults of Cluster Autoscaler's flags of these names, which hold for a group that sets nothing of its own.
const (
	DefaultMaxNodeProvisionTime = 15 * time.Minute
	DefaultMaxNodeStartupTime   = 15 * time.Minute
)

// GroupOptions are the settings a node group may have of its own instead of the
// autoscaler's, under Cluster Autoscaler's names. They are passed on, not
// calculated with, hence the two floats.
//
// MaxNodeStartupTime and AllowNonAtomicScaleUpToMax have no field in the
// external gRPC protocol and do not survive it.
type GroupOptions struct {
	ScaleDownUtilizationThreshold    float64 // 0 to 1
	ScaleDownGPUUtilizationThreshold float64 // 0 to 1
	ScaleDownUnneededTime            time.Duration
	ScaleDownUnreadyTime             time.Duration
	MaxNodeProvisionTime             time.Duration
	MaxNodeStartupTime               time.Duration
	ZeroOrMaxNodeScaling             bool // the group is resized to its maximum or to zero, nothing between
	AllowNonAtomicScaleUpToMax       bool
	IgnoreDaemonSetsUtilization      bool
}
