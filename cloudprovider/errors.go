package cloudprovider

import "errors"

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

// refusals are the errors after which nothing has changed.
var refusals = [...]error{
	ErrNotImplemented, ErrNotFound, ErrInvalidDelta, ErrAboveMax, ErrBelowMin,
	ErrNotInGroup, ErrOutOfResources, ErrQuotaExceeded,
}

// Refused reports whether err, returned by a Provider, says that the cloud
// certainly did nothing, so that the nodes may be ordered elsewhere at once. It
// is false for everything else (an unavailable cloud, a timeout, an error this
// package does not know): there the target size must be read first.
func Refused(err error) bool {
	for _, refusal := range refusals {
		if errors.Is(err, refusal) {
			return true
		}
	}
	return false
}

// OwnMistake reports whether err answers a call that should not have been made: the caller's view
// of the groups or their sizes is wrong or out of date. The group itself may be healthy, so such an
// error is a reason to read the state again, not to back off from the group.
func OwnMistake(err error) bool {
	for _, mistake := range [...]error{ErrNotFound, ErrInvalidDelta, ErrAboveMax, ErrBelowMin, ErrNotInGroup} {
		if errors.Is(err, mistake) {
			return true
		}
	}
	return false
}
