package expander

import "errors"

var (
	// ErrUnknownStrategy is returned for a name the registry does not have.
	ErrUnknownStrategy = errors.New("unknown expander")

	// ErrDuplicateStrategy is returned for a name that stands in a chain twice.
	ErrDuplicateStrategy = errors.New("expander given more than once")

	// ErrUnreachableStrategy is returned for a name that stands behind a
	// strategy which always leaves a single option.
	ErrUnreachableStrategy = errors.New("expander never reached")

	// ErrNoPriorities is returned when the strategy priority is asked for and
	// the Config has no Priorities.
	ErrNoPriorities = errors.New("expander priority needs a priorities configuration")

	// ErrNoOptions is returned by Chain.Choose when there is nothing to choose from.
	ErrNoOptions = errors.New("no scale-up options to choose from")

	// ErrDuplicateOption is returned by Chain.Choose when two options are for
	// one node group, for then no order of the options would be stable.
	ErrDuplicateOption = errors.New("two scale-up options for one node group")
)
