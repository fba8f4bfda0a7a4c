// Package conformancetest runs the rules of conformance as subtests of a Go test.
//
// It is separate from conformance so that a program that checks a server does not link the package
// testing. It contains no rules.
package conformancetest

import (
	"testing"

	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
)

// Run checks all rules as subtests, each on a harness of its own.
func Run(t *testing.T, open func(*testing.T) conformance.Harness) {
	t.Helper()
	for _, rule := range conformance.Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			switch result := rule.Check(t.Context(), open(t)); result.Outcome {
			case conformance.Failed:
				t.Errorf("%s\n%s", rule.About, result.Reason)
			case conformance.Skipped:
				t.Skip(result.Reason)
			case conformance.Warned:
				t.Log(result.Reason)
			case conformance.Passed:
			}
		})
	}
}
