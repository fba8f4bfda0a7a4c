package main

import (
	"testing"

	"github.com/spf13/pflag"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// A flag that is given overrides what the scenario says, also by switching something off; the others do not.
func TestGivenFlagsOverrideTheScenario(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{"--salvo-scale-up=false": false, "--salvo-scale-up": true, "--max-nodes-total=3": true} {
		var o overrides
		flags := pflag.NewFlagSet("simulate", pflag.ContinueOnError)
		o.addTo(flags)
		if err := flags.Parse([]string{text}); err != nil {
			t.Fatal(err)
		}
		var s v1alpha1.Scenario
		s.Spec.Options.SalvoScaleUp = true
		if o.applyTo(&s); s.Spec.Options.SalvoScaleUp != want {
			t.Errorf("%s: salvoScaleUp is %v", text, s.Spec.Options.SalvoScaleUp)
		}
	}
}
