package apportion

import "fmt"

// InvalidError is an invalid value in an input. All errors of this package are of this type.
type InvalidError struct {
	// Path is the field relative to the input, as in documents: "targets[2].min", "bins[0].size",
	// "quotas[1].members[3]".
	Path string
	// Value is the invalid value.
	Value any
	// Reason is why it is invalid: "must not be negative".
	Reason string
}

// Error returns path, value and reason in the form of Kubernetes' field errors.
func (e *InvalidError) Error() string {
	if text, ok := e.Value.(string); ok {
		return fmt.Sprintf("%s: Invalid value: %q: %s", e.Path, text, e.Reason)
	}
	return fmt.Sprintf("%s: Invalid value: %v: %s", e.Path, e.Value, e.Reason)
}

func invalid(value any, reason, path string, position ...any) error {
	return &InvalidError{Path: fmt.Sprintf(path, position...), Value: value, Reason: reason}
}

const notNegative = "must not be negative"
