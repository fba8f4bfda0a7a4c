package apportion

import (
	"fmt"
	"strconv"
)

// InvalidError is an invalid value in an input. All errors of this package are of this type, and so
// are those about the inputs of the packages above it.
type InvalidError struct {
	// Path is the field relative to the input, as in documents: "targets[2].min", "bins[0].size",
	// "quotas[1].members[3]". It is empty if the input is a single value.
	Path string
	// Value is the invalid value.
	Value any
	// Reason is why it is invalid: "must not be negative".
	Reason string
}

// Error returns path, value and reason in the form of Kubernetes' field errors.
func (e *InvalidError) Error() string {
	value := fmt.Sprint(e.Value)
	if text, ok := e.Value.(string); ok {
		value = strconv.Quote(text)
	}
	if e.Path == "" {
		return fmt.Sprintf("invalid value: %s: %s", value, e.Reason)
	}
	return fmt.Sprintf("%s: Invalid value: %s: %s", e.Path, value, e.Reason)
}

// Invalid returns an [*InvalidError].
func Invalid(path string, value any, reason string) error {
	return &InvalidError{Path: path, Value: value, Reason: reason}
}

func invalid(value any, reason, path string, position ...any) error {
	return Invalid(fmt.Sprintf(path, position...), value, reason)
}

const notNegative = "must not be negative"
