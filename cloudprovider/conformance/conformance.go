package conformance

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Harness is a cloud under test. Each rule may be given a new one, or all the same. Rules about
// scale-up need a group with room for two nodes. With a second group the rules about foreign nodes
// and concurrent use check more.
type Harness struct {
	// Provider is what is checked.
	Provider cloudprovider.Provider
	// RegisteredNodes lists the node objects of the cluster; nil if they cannot be read, in which
	// case the rules about them are skipped.
	RegisteredNodes func(context.Context) ([]*v1.Node, error)
	// WaitForNodes waits, or moves a virtual clock, until the instances that were ordered exist and the
	// deleted ones are gone, or until this can no longer happen; nil if there is nothing to wait
	// for. See Polling.
	WaitForNodes func(context.Context) error
	// Groups are the ids of the groups that may be changed; empty means all.
	Groups []string
}

// Outcome is the outcome of a rule.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "Passed"
	Failed  Outcome = "Failed"
	Skipped Outcome = "Skipped" // the cloud offers no situation to check it in
	Warned  Outcome = "Warned"  // it works, but at a cost
)

// Result is the outcome of one rule.
type Result struct {
	Rule    string // the rule's name
	Outcome Outcome
	Reason  string // empty when it passed
}

// Reach is what a rule touches.
type Reach int

// How far rules reach.
const (
	Reads     Reach = iota // changes nothing
	Changes                // orders or deletes nodes, or makes such calls that must be refused
	InProcess              // like Changes, but does not apply to a provider behind a protocol
)

// Rule is a rule that every implementation must follow.
type Rule struct {
	Name  string // short, in kebab-case
	Reach Reach
	About string // what is required, in one sentence
	// Find returns what the rule finds, as Judge takes it.
	Find func(context.Context, Harness) error
}

// Rules returns all rules in the order they are checked.
func Rules() []Rule {
	return slices.Concat(listingRules, sizeRules, deletionRules, nodeRules, generalRules)
}

// Check checks one rule.
func (r Rule) Check(ctx context.Context, h Harness) Result { return Judge(r.Name, r.Find(ctx, h)) }

// on makes a check of the provider of a harness.
func on(check func(context.Context, *subject)) func(context.Context, Harness) error {
	return func(ctx context.Context, h Harness) error {
		s := &subject{Provider: h.Provider, harness: h}
		check(ctx, s)
		return s.Err()
	}
}
