package nodegroupset

import "fmt"

// InvalidError says which value of an input cannot be used and why. It is
// returned by ParseRatio, NewIndex, Index.Set, Split and Shrink; nothing has been
// changed or decided when it is.
type InvalidError struct {
	Path   string // the field, as in groups[2].max; empty where the input is one value
	Value  any    // what stood there
	Reason string // what is wrong with it
}

func (e *InvalidError) Error() string {
	value := fmt.Sprint(e.Value)
	if s, ok := e.Value.(string); ok {
		value = fmt.Sprintf("%q", s)
	}
	if e.Path == "" {
		return fmt.Sprintf("invalid value: %s: %s", value, e.Reason)
	}
	return fmt.Sprintf("%s: Invalid value: %s: %s", e.Path, value, e.Reason)
}
