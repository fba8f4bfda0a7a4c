package scale

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Reason says what kind of failure an Error is. The values are fit for conditions and labels of metrics.
type Reason string

// Reasons of an Error.
const (
	// ReasonNotFound: there is no such object. It may yet be created.
	ReasonNotFound Reason = "NotFound"
	// ReasonInvalidReference: nothing can have this reference, whatever the cluster holds.
	ReasonInvalidReference Reason = "InvalidReference"
	// ReasonUnknownKind: the API server serves no such kind, for instance because its definition is not installed.
	ReasonUnknownKind Reason = "UnknownKind"
	// ReasonNoScale: the kind has no Scale subresource.
	ReasonNoScale Reason = "NoScale"
	// ReasonEmptySelector: the Scale has no selector. It would select every pod of the namespace.
	ReasonEmptySelector Reason = "EmptySelector"
	// ReasonForbidden: a right is missing, or an admission refuses; the message says which.
	ReasonForbidden Reason = "Forbidden"
	// ReasonConflict: the object has changed since it was read. Read it again before writing it.
	ReasonConflict Reason = "Conflict"
	// ReasonRefused: the API server finds the value written invalid.
	ReasonRefused Reason = "Refused"
	// ReasonUnavailable: anything else, such as an API server that does not answer, or a Scale that can not be read. Later
	// it may work.
	ReasonUnavailable Reason = "Unavailable"
)

// Error is why a Scale could not be read or written.
type Error struct {
	Reason    Reason
	Namespace string // empty where the reference itself is at fault
	Reference Reference
	// Err says it in words, with what to do where that is known.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Namespace == "" {
		return fmt.Sprintf("%s: %v", e.Reference, e.Err)
	}
	return fmt.Sprintf("%s in namespace %s: %v", e.Reference, e.Namespace, e.Err)
}

// Unwrap gives the cause, often that of the API server.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf gives the Reason of an Error anywhere in the chain of err; empty if there is none.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// classify makes an Error of what the API server answered to a verb on the Scale of a resource.
func classify(err error, verb, namespace string, ref Reference, resource schema.GroupResource) *Error {
	e := &Error{Reason: ReasonUnavailable, Namespace: namespace, Reference: ref, Err: err}
	switch {
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err): // a path that nobody serves says nothing of the object
		e.Reason = ReasonNotFound
	case apierrors.IsConflict(err):
		e.Reason = ReasonConflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		e.Reason = ReasonRefused
	case apierrors.IsForbidden(err):
		e.Reason = ReasonForbidden
		e.Err = fmt.Errorf("a role has to allow %q on resource %q of API group %q, and admission has to agree: %w",
			verb, resource.Resource+"/scale", resource.Group, err)
	}
	return e
}
