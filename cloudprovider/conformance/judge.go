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

// Findings are what the check of a rule finds. The first failure, or skip, ends the check: nothing
// counts after it. A warning counts unless a failure follows.
type Findings struct {
	err   error
	ended bool
}

// Add adds a finding, as Judge takes it; nil is none.
func (f *Findings) Add(err error) {
	outcome := Judge("", err).Outcome
	if f.ended || f.err != nil && outcome != Failed {
		return
	}
	f.err, f.ended = err, outcome == Failed || outcome == Skipped
}

// Failf adds a failure.
func (f *Findings) Failf(format string, args ...any) { f.Add(fmt.Errorf(format, args...)) }

// Ended reports whether the check has ended.
func (f *Findings) Ended() bool { return f.ended }

// Err is what counts, as Judge takes it.
func (f *Findings) Err() error { return f.err }

// Ask makes a call on behalf of a check, unless that has ended. An error of the call is a failure.
func Ask[A any](f *Findings, call string, do func() (A, error)) (answer A) {
	if f.ended {
		return answer
	}
	answer, err := do()
	if err != nil {
		f.Failf("%s: %w", call, err)
	}
	return answer
}
