package apportion

import "fmt"

// InvalidError says which part of an input is impossible. It is the only type
// of error this package returns.
type InvalidError struct {
	// Path names the field relative to the input, as the documents spell it:
	// "targets[2].min", "bins[0].size", "caps[1].members[3]".
	Path string
	// Value is what stands there.
	Value any
	// Reason says what is wrong with it: "must not be negative".
	Reason string
}

// Error gives path, value and reason in the words of Kubernetes field errors.
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
