package conformance_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/fake"
)

// changed calls note with the group of every call that changes or may change one.
func changed(note func(group string, deleted []*v1.Node)) variant {
	return func(p cloudprovider.Provider) cloudprovider.Provider {
		return wrong{
			Provider: p,
			increase: func(ctx context.Context, id string, delta int) error {
				note(id, nil)
				return p.IncreaseSize(ctx, id, delta)
			},
			decrease: func(ctx context.Context, id string, delta int) error {
				note(id, nil)
				return p.DecreaseTargetSize(ctx, id, delta)
			},
			deleteNodes: func(ctx context.Context, id string, nodes []*v1.Node) error {
				note(id, nodes)
				return p.DeleteNodes(ctx, id, nodes)
			},
		}
	}
}

func TestReadingRulesChangeNothing(t *testing.T) {
	for _, rule := range conformance.Rules() {
		if rule.Reach != conformance.Reads {
			continue
		}
		h, err := open(changed(func(group string, _ []*v1.Node) { t.Errorf("%s changes %s", rule.Name, group) }))
		if err != nil {
			t.Fatal(err)
		}
		if result := rule.Check(t.Context(), h); result.Outcome != conformance.Passed {
			t.Errorf("%+v", result)
		}
	}
}

// TestOnlyNamedGroupsChange: no other group is touched, no node that was there
// before is deleted, and sizes are what they were.
func TestOnlyNamedGroupsChange(t *testing.T) {
	for _, rule := range conformance.Rules() {
		had := map[string]bool{}
		h, err := open(changed(func(group string, deleted []*v1.Node) {
			if group != "b" && group != "conformance-no-such-group" {
				t.Errorf("%s changes %s", rule.Name, group)
			}
			for _, node := range deleted {
				if had[node.Name] {
					t.Errorf("%s deletes %s", rule.Name, node.Name)
				}
			}
		}))
		if err != nil {
			t.Fatal(err)
		}
		h.Groups = []string{"b"}
		instances, err := h.Provider.Nodes(t.Context(), "b")
		if err != nil {
			t.Fatal(err)
		}
		for _, in := range instances {
			had[in.ID] = true
		}
		if result := rule.Check(t.Context(), h); result.Outcome != conformance.Passed && rule.Name != "decrease-lowers-target" {
			t.Errorf("%+v", result)
		}
		if size, err := h.Provider.TargetSize(t.Context(), "b"); err != nil || size != len(had) {
			t.Errorf("%s leaves %d nodes of %d, error %v", rule.Name, size, len(had), err)
		}
	}
}

func TestPolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud, err := fake.New(fleet(), clock.RealClock{})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		polling := conformance.Polling{Interval: time.Second, Timeout: time.Minute, Clock: clock.RealClock{}}
		check := func(what string, want time.Duration, groups ...string) {
			t.Helper()
			if err := polling.WaitForNodes(cloud, groups)(t.Context()); err != nil {
				t.Errorf("%s: %v", what, err)
			}
			if got := time.Since(began); got != want {
				t.Errorf("%s after %s, want %s", what, got, want)
			}
		}
		check("nothing to wait for", 0, "a", "b")
		if err := cloud.IncreaseSize(t.Context(), "a", 2); err != nil {
			t.Fatal(err)
		}
		check("booted", 40*time.Second, "a")
		if err := cloud.IncreaseSize(t.Context(), "starved", 1); err != nil {
			t.Fatal(err)
		}
		check("given up", 100*time.Second, "starved")
		instances, err := cloud.Nodes(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		if err := cloud.DeleteNodes(t.Context(), "a", []*v1.Node{cloudprovider.FakeNode(instances[0].ID, "")}); err != nil {
			t.Fatal(err)
		}
		check("gone", 110*time.Second, "a")
	})
}

// TestPollingFails: with the provider's error, or the context's.
func TestPollingFails(t *testing.T) {
	h, err := open(nil)
	if err != nil {
		t.Fatal(err)
	}
	polling := conformance.Polling{Interval: time.Millisecond, Timeout: time.Hour, Clock: clock.RealClock{}}
	if err := polling.WaitForNodes(h.Provider, []string{"no such group"})(t.Context()); err == nil {
		t.Error("an unknown group is complete")
	}
	if err := h.Provider.IncreaseSize(t.Context(), "starved", 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if err := polling.WaitForNodes(h.Provider, []string{"starved"})(ctx); err == nil {
		t.Error("what never comes is complete")
	}
}

func TestJudge(t *testing.T) {
	results := []conformance.Result{
		conformance.Judge("r", nil), conformance.Judge("r", context.Canceled),
		conformance.Judge("r", conformance.Skip("no %s", "group")), conformance.Judge("r", conformance.Warn("slow")),
	}
	want := []conformance.Result{
		{Rule: "r", Outcome: conformance.Passed}, {Rule: "r", Outcome: conformance.Failed, Reason: "context canceled"},
		{Rule: "r", Outcome: conformance.Skipped, Reason: "no group"}, {Rule: "r", Outcome: conformance.Warned, Reason: "slow"},
	}
	if !slices.Equal(results, want) {
		t.Errorf("%+v", results)
	}
}
