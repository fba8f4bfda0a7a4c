package conformance

import (
	"context"
	"errors"
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// Harness is a cloud under test. Each rule may be given a new one, or all the
// same. Rules about growing need a group with room for two nodes; a second group
// lets the rules about foreign nodes and concurrent use see more.
type Harness struct {
	// Provider is what is checked.
	Provider cloudprovider.Provider
	// RegisteredNodes lists the node objects of the cluster; nil where they can
	// not be seen, then rules about them are skipped.
	RegisteredNodes func(context.Context) ([]*v1.Node, error)
	// Settle waits, or moves a virtual clock, until instances that were ordered
	// exist and those deleted are gone, as far as they ever will; nil where there
	// is nothing to wait for.
	Settle func(context.Context) error
}

// Outcome is how a rule came out.
type Outcome string

// The outcomes.
const (
	Passed  Outcome = "Passed"
	Failed  Outcome = "Failed"
	Skipped Outcome = "Skipped" // the cloud offers no situation to check it in
)

// Result is the outcome of one rule.
type Result struct {
	Rule    string // the rule's name
	Outcome Outcome
	Reason  string // why it failed or was skipped; empty when it passed
}

// Rule is one thing every implementation has to keep.
type Rule struct {
	Name  string // short, in kebab-case
	About string // what is required, in one sentence
	check func(context.Context, *subject) error
}

// Rules returns all rules in the order they are checked.
func Rules() []Rule {
	var all []Rule
	for _, theme := range [...][]Rule{listingRules, sizeRules, deletionRules, nodeRules, generalRules} {
		all = append(all, theme...)
	}
	return all
}

// Check checks all rules, each on the harness that open returns for it. A rule
// whose harness can not be opened has failed.
func Check(ctx context.Context, open func(context.Context) (Harness, error)) []Result {
	rules := Rules()
	results := make([]Result, 0, len(rules))
	for _, rule := range rules {
		harness, err := open(ctx)
		if err != nil {
			results = append(results, Result{Rule: rule.Name, Outcome: Failed, Reason: err.Error()})
			continue
		}
		results = append(results, rule.Check(ctx, harness))
	}
	return results
}

// Check checks one rule.
func (r Rule) Check(ctx context.Context, h Harness) Result {
	result := Result{Rule: r.Name, Outcome: Passed}
	if err := r.check(ctx, &subject{Provider: h.Provider, harness: h}); err != nil {
		result.Outcome, result.Reason = Failed, err.Error()
		if _, skipped := errors.AsType[notCheckable](err); skipped {
			result.Outcome = Skipped
		}
	}
	return result
}

// Run checks all rules as subtests, each on a harness of its own.
func Run(t *testing.T, open func(*testing.T) Harness) {
	t.Helper()
	for _, rule := range Rules() {
		t.Run(rule.Name, func(t *testing.T) {
			switch result := rule.Check(t.Context(), open(t)); result.Outcome {
			case Failed:
				t.Errorf("%s\n%s", rule.About, result.Reason)
			case Skipped:
				t.Skip(result.Reason)
			case Passed:
			}
		})
	}
}

// notCheckable is the error of a rule that finds no situation to check it in.
type notCheckable string

func (n notCheckable) Error() string { return string(n) }

// subject is the provider under test with the questions rules have in common.
type subject struct {
	cloudprovider.Provider
	harness Harness
}

func (s *subject) settle(ctx context.Context) error {
	if s.harness.Settle == nil {
		return nil
	}
	if err := s.harness.Settle(ctx); err != nil {
		return fmt.Errorf("settling: %w", err)
	}
	return nil
}

func (s *subject) registered(ctx context.Context) ([]*v1.Node, error) {
	if s.harness.RegisteredNodes == nil {
		return nil, notCheckable("node objects can not be seen")
	}
	nodes, err := s.harness.RegisteredNodes(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing node objects: %w", err)
	}
	return nodes, nil
}

// grown is a group of size Target that took Added nodes for the rule.
type grown struct {
	ID     string
	Before int // target size before
	Target int // and now
}

// groupWithRoom returns a group that has room for as many nodes.
func (s *subject) groupWithRoom(ctx context.Context, nodes int) (cloudprovider.NodeGroup, int, error) {
	groups, err := s.NodeGroups(ctx)
	if err != nil {
		return cloudprovider.NodeGroup{}, 0, fmt.Errorf("NodeGroups: %w", err)
	}
	for _, g := range groups {
		target, err := s.TargetSize(ctx, g.ID)
		if err != nil {
			return g, 0, fmt.Errorf("TargetSize(%s): %w", g.ID, err)
		}
		if target >= 0 && target >= g.MinSize && target+nodes <= g.MaxSize {
			return g, target, nil
		}
	}
	return cloudprovider.NodeGroup{}, 0, notCheckable(fmt.Sprintf("no group has room for %d more nodes", nodes))
}

// grow raises some group by so many nodes and lets them come up.
func (s *subject) grow(ctx context.Context, nodes int) (grown, error) {
	g, before, err := s.groupWithRoom(ctx, nodes)
	if err != nil {
		return grown{}, err
	}
	if err := s.IncreaseSize(ctx, g.ID, nodes); err != nil {
		return grown{}, fmt.Errorf("IncreaseSize(%s, %d) within bounds: %w", g.ID, nodes, err)
	}
	if err := s.settle(ctx); err != nil {
		return grown{}, err
	}
	target, err := s.TargetSize(ctx, g.ID)
	return grown{ID: g.ID, Before: before, Target: target}, err
}

// existing lists the group's instances that are not being deleted.
func (s *subject) existing(ctx context.Context, id string) ([]cloudprovider.Instance, error) {
	all, err := s.Nodes(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("Nodes(%s): %w", id, err)
	}
	var staying []cloudprovider.Instance
	for _, in := range all {
		if in.State != cloudprovider.InstanceDeleting {
			staying = append(staying, in)
		}
	}
	return staying, nil
}

// shrinkBack deletes nodes until the group's size is what it was, as far as the
// cloud lets it. It is courtesy: no rule depends on it.
func (s *subject) shrinkBack(ctx context.Context, id string, size int) {
	target, err := s.TargetSize(ctx, id)
	if err != nil || target <= size {
		return
	}
	staying, err := s.existing(ctx, id)
	if err != nil {
		return
	}
	if waiting := min(target-len(staying), target-size); waiting > 0 {
		_ = s.DecreaseTargetSize(ctx, id, -waiting)
		target -= waiting
	}
	for i := len(staying) - 1; i >= 0 && target > size; i-- {
		if s.DeleteNodes(ctx, id, []*v1.Node{fakeNode(staying[i].ID)}) == nil {
			target--
		}
	}
}

func fakeNode(instanceID string) *v1.Node {
	return cloudprovider.FakeNode(instanceID, cloudprovider.FakeNodeUnregistered)
}

// foreignNode is a node no cloud has.
func foreignNode() *v1.Node {
	node := fakeNode("conformance://no-such-node")
	node.Annotations = nil
	return node
}
