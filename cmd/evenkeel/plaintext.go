package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
)

// The listeners that need no TLS for the protocol that they speak.
const providerListener, metricsListener = "provider", "metrics"

// plaintextFlag is the flag --allow-plaintext of a server with several listeners: those that it
// names, or all of them without a value.
type plaintextFlag struct{ allowed []string }

func (p *plaintextFlag) addTo(f *pflag.FlagSet) {
	f.Var(p, "allow-plaintext", "`LISTENERS` that may be without TLS on addresses other than loopback, comma-separated: "+providerListener+", "+metricsListener+"; all without a value")
	f.Lookup("allow-plaintext").NoOptDefVal = "true"
}

// Set implements pflag.Value.
func (p *plaintextFlag) Set(value string) error {
	p.allowed = nil
	if all, err := strconv.ParseBool(value); err == nil {
		if all {
			p.allowed = []string{providerListener, metricsListener}
		}
		return nil
	}
	for name := range strings.SplitSeq(value, ",") {
		if name != providerListener && name != metricsListener {
			return fmt.Errorf("there is no listener %q: must be %s or %s", name, providerListener, metricsListener)
		}
		p.allowed = append(p.allowed, name)
	}
	return nil
}

// String implements pflag.Value.
func (p *plaintextFlag) String() string { return strings.Join(p.allowed, ",") }

// Type implements pflag.Value.
func (*plaintextFlag) Type() string { return "listeners" }

func (p *plaintextFlag) allows(listener string) bool { return slices.Contains(p.allowed, listener) }
