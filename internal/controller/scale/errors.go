package scale

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Reason is the kind of failure of an Error. The values can be used in conditions and as labels of
// metrics.
type Reason string

// Reasons of an Error.
const (
	// ReasonNotFound: the object does not exist. It may be created later.
	ReasonNotFound Reason = "NotFound"
	// ReasonInvalidReference: the reference is invalid in any cluster.
	ReasonInvalidReference Reason = "InvalidReference"
	// ReasonUnknownKind: the API server does not serve the kind, for example because its definition
	// is not installed.
	ReasonUnknownKind Reason = "UnknownKind"
	// ReasonNoScale: the kind has no Scale subresource.
	ReasonNoScale Reason = "NoScale"
	// ReasonEmptySelector: the Scale has no selector, which would select every pod of the
	// namespace.
	ReasonEmptySelector Reason = "EmptySelector"
	// ReasonForbidden: a right is missing, or admission refuses the request; the message says
	// which.
	ReasonForbidden Reason = "Forbidden"
	// ReasonConflict: the object has changed since it was read. It must be read again before it
	// is written.
	ReasonConflict Reason = "Conflict"
	// ReasonRefused: the API server refuses the value as invalid.
	ReasonRefused Reason = "Refused"
	// ReasonUnavailable: any other failure, such as an API server that does not answer. A later
	// attempt may succeed.
	ReasonUnavailable Reason = "Unavailable"
)

// Error is why a Scale could not be read or written.
type Error struct {
	Reason    Reason
	Namespace string // empty if the reference itself is invalid
	Reference v1alpha1.ScaleTargetReference
	// Err describes the failure, with what to do if that is known.
	Err error
}

// Error implements error.
func (e *Error) Error() string {
	if e.Namespace == "" {
		return fmt.Sprintf("%s: %v", e.Reference, e.Err)
	}
	return fmt.Sprintf("%s in namespace %s: %v", e.Reference, e.Namespace, e.Err)
}

// Unwrap returns the cause, often an error of the API server.
func (e *Error) Unwrap() error { return e.Err }

// ReasonOf returns the Reason of the first Error in the chain of err; empty if there is none.
func ReasonOf(err error) Reason {
	var e *Error
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

// classify converts the answer of the API server to a verb on the Scale of a resource into an
// Error.
func classify(err error, verb, namespace string, ref v1alpha1.ScaleTargetReference, resource schema.GroupResource) *Error {
	e := &Error{Reason: ReasonUnavailable, Namespace: namespace, Reference: ref, Err: err}
	switch {
	case apierrors.IsNotFound(err) && !apierrors.IsUnexpectedServerError(err): // a path that is not served says nothing about the object
		e.Reason = ReasonNotFound
	case apierrors.IsConflict(err):
		e.Reason = ReasonConflict
	case apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		e.Reason = ReasonRefused
	case apierrors.IsForbidden(err):
		e.Reason = ReasonForbidden
		e.Err = fmt.Errorf("a role has to allow %q on resource %q of API group %q, and admission has to allow it: %w",
			verb, resource.Resource+"/scale", resource.Group, err)
	}
	return e
}
