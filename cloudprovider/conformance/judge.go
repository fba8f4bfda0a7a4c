package conformance

import (
	"errors"
	"fmt"
)

// Judge makes a result of what the check of a rule returned: nil when it passed,
// an error of Skip or Warn, or any other for a rule that failed.
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

// Skip is the error of a check that finds no situation to check its rule in.
func Skip(format string, args ...any) error { return &mild{Skipped, fmt.Sprintf(format, args...)} }

// Warn is the error of a check whose rule is kept at a price.
func Warn(format string, args ...any) error { return &mild{Warned, fmt.Sprintf(format, args...)} }

// mild is an error that is no failure.
type mild struct {
	outcome Outcome
	text    string
}

func (m *mild) Error() string { return m.text }

// skipped tells whether a check found no situation.
func skipped(err error) bool {
	m, ok := errors.AsType[*mild](err)
	return ok && m.outcome == Skipped
}
