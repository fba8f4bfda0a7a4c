package cloudprovider

import (
	"errors"
	"slices"
)

// Compare with errors.Is. Implementations wrap them with the group's id and other details, except
// for ErrNotImplemented, which is returned unwrapped because Cluster Autoscaler compares it with
// ==.
var (
	// ErrNotImplemented: the cloud does not offer this at all. Allowed for
	// Template, Options and prices only.
	ErrNotImplemented = errors.New("not implemented")
	// ErrNotFound: there is no node group with this id, or no longer.
	ErrNotFound = errors.New("node group not found")
	// ErrInvalidDelta: a change of size with the wrong sign, of zero, or a
	// decrease that would have to delete instances. Nothing was changed.
	ErrInvalidDelta = errors.New("invalid change of size")
	// ErrAboveMax: the increase would end above the group's maximum. Nothing was
	// changed.
	ErrAboveMax = errors.New("above the maximum size")
	// ErrBelowMin: the deletion would end below the group's minimum. Nothing was
	// deleted.
	ErrBelowMin = errors.New("below the minimum size")
	// ErrNotInGroup: a node to be deleted does not belong to the group. Nothing was deleted.
	ErrNotInGroup = errors.New("node is not in the group")
	// ErrOutOfResources: the cloud has no more such machines at the moment. Nothing was changed.
	ErrOutOfResources = errors.New("out of resources")
	// ErrQuotaExceeded: the account may not have more machines. Nothing was changed.
	ErrQuotaExceeded = errors.New("quota exceeded")
	// ErrUnavailable: the cloud did not answer, or not properly. The call may have
	// had its effect.
	ErrUnavailable = errors.New("cloud unavailable")
)

// mistakes are the errors that answer a call that should not have been made, and refusals those after which
// nothing has changed.
var (
	mistakes = []error{ErrNotFound, ErrInvalidDelta, ErrAboveMax, ErrBelowMin, ErrNotInGroup}
	refusals = append([]error{ErrNotImplemented, ErrOutOfResources, ErrQuotaExceeded}, mistakes...)
)

func isAny(err error, of []error) bool {
	return slices.ContainsFunc(of, func(one error) bool { return errors.Is(err, one) })
}

// Refused reports whether err, returned by a Provider, says that the cloud
// certainly did nothing, so that the nodes may be ordered elsewhere at once. It
// is false for everything else (an unavailable cloud, a timeout, an error this
// package does not know): there the target size must be read first.
func Refused(err error) bool { return isAny(err, refusals) }

// OwnMistake reports whether err answers a call that should not have been made: the caller's view
// of the groups or their sizes is wrong or out of date. The group itself may be healthy, so such an
// error is a reason to read the state again, not to back off from the group.
func OwnMistake(err error) bool { return isAny(err, mistakes) }
