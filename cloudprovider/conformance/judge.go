package conformance

import (
	"errors"
	"fmt"
)

// Judge converts what the check of a rule returned into a result: nil means that it passed, an
// error of Skip or Warn means that outcome, and any other error means that it failed.
func Judge(rule string, err error) Result {
	if err == nil {
		return Result{Rule: rule, Outcome: Passed}
	}
	result := Result{Rule: rule, Outcome: Failed, Reason: err.Error()}
	if mild, ok := errors.AsType[*mild](err); ok {
		result.Outcome = mild.outcome
	}
	return result
}

// Skip is the error of a check that finds no situation in which its rule applies.
func Skip(format string, args ...any) error { return &mild{Skipped, fmt.Sprintf(format, args...)} }

// Warn is the error of a check whose rule is followed, but at a cost.
func Warn(format string, args ...any) error { return &mild{Warned, fmt.Sprintf(format, args...)} }

// mild is an error that is not a failure.
type mild struct {
	outcome Outcome
	text    string
}

func (m *mild) Error() string { return m.text }

// skipped reports whether a check found no situation to check.
func skipped(err error) bool {
	m, ok := errors.AsType[*mild](err)
	return ok && m.outcome == Skipped
}
