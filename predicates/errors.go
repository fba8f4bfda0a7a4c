package predicates

import "errors"

var (
	// ErrNilObject is returned where a pod, a node or an object is nil.
	ErrNilObject = errors.New("nil object")
	// ErrUnknownObject is returned by New for an object no plugin looks up.
	ErrUnknownObject = errors.New("no plugin looks up objects of this type")
	// ErrConfiguration is returned by New for a scheduler configuration that
	// cannot be read or does not have exactly one profile.
	ErrConfiguration = errors.New("invalid scheduler configuration")
	// ErrChangedObject is returned for a pod or node that was changed after it had been given to a
	// Checker, which remembers what it has found out about it. Give a changed copy instead. The
	// Checker forgets everything, so that the next question is answered from the objects as they
	// are then.
	ErrChangedObject = errors.New("the object was changed after it had been given to the checker; give a changed copy")
	// ErrInterrupted is returned by every question once Options.Done is closed.
	ErrInterrupted = errors.New("interrupted")
	// ErrRange is returned by Place for node ids that do not exist.
	ErrRange = errors.New("node range out of bounds")
)
