package conformance_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance"
	"github.com/evenkeel/evenkeel/cloudprovider/conformance/conformancetest"
	"github.com/evenkeel/evenkeel/fake"
)

// fleet is a cloud with every situation the rules ask for: boot and termination
// times, options, an over-full group and one whose orders stay unfulfilled.
func fleet() fake.Config {
	template := func(zone string) cloudprovider.Template {
		resources := v1.ResourceList{
			v1.ResourceCPU:    resource.MustParse("4"),
			v1.ResourceMemory: resource.MustParse("16Gi"),
			v1.ResourcePods:   resource.MustParse("110"),
		}
		return cloudprovider.Template{
			Node: &v1.Node{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
				Status:     v1.NodeStatus{Capacity: resources},
			},
			Pods: []*v1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "agent"}}},
		}
	}
	return fake.Config{
		Groups: []fake.Group{
			{ID: "a", MaxSize: 10, Size: 1, Template: template("a"), BootTime: 40 * time.Second, TerminationTime: 10 * time.Second},
			{ID: "b", MaxSize: 10, Size: 2, Template: template("b"), ReadyDelay: 20 * time.Second,
				Options: &cloudprovider.GroupOptions{MaxNodeProvisionTime: time.Hour}},
			{ID: "over-full", MaxSize: 1, Size: 3, Template: template("b")},
			{ID: "starved", MaxSize: 5, Template: template("c")},
		},
		StockOuts: []v1alpha1.StockOut{{Groups: []string{"starved"}, Mode: v1alpha1.StockOutSilent}},
	}
}

// open starts a cloud and lets wrong, if given, come between it and the rules.
func open(wrong func(cloudprovider.Provider) cloudprovider.Provider) (conformance.Harness, error) {
	clock := clocktesting.NewFakeClock(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC))
	cloud, err := fake.New(fleet(), clock)
	if err != nil {
		return conformance.Harness{}, err
	}
	h := conformance.Harness{
		Provider: cloud,
		RegisteredNodes: func(context.Context) ([]*v1.Node, error) {
			return cloud.RegisteredNodes(), nil
		},
		WaitForNodes: func(context.Context) error {
			for at, ok := cloud.NextEvent(); ok; at, ok = cloud.NextEvent() {
				clock.SetTime(at)
			}
			return nil
		},
	}
	if wrong != nil {
		h.Provider = wrong(cloud)
	}
	return h, nil
}

func TestFakeConforms(t *testing.T) {
	conformancetest.Run(t, func(t *testing.T) conformance.Harness {
		h, err := open(nil)
		if err != nil {
			t.Fatal(err)
		}
		return h
	})
}

func TestFakeConformsWithoutSkips(t *testing.T) {
	for _, rule := range conformance.Rules() {
		h, err := open(nil)
		if err != nil {
			t.Fatal(err)
		}
		result := rule.Check(t.Context(), h)
		if result.Outcome != conformance.Passed || result.Reason != "" {
			t.Errorf("%s: %s: %s", result.Rule, result.Outcome, result.Reason)
		}
	}
}

// TestFakeConformsOnOneHarness runs all rules on the same cloud, as against a
// server: no rule leaves the cloud in a state that fails another.
func TestFakeConformsOnOneHarness(t *testing.T) {
	shared, err := open(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, rule := range conformance.Rules() {
		result := rule.Check(t.Context(), shared)
		if result.Outcome != conformance.Passed {
			t.Errorf("%s: %s: %s", result.Rule, result.Outcome, result.Reason)
		}
	}
}

func TestSkipsWhatCannotBeChecked(t *testing.T) {
	empty, err := fake.New(fake.Config{}, clocktesting.NewFakeClock(time.Time{}))
	if err != nil {
		t.Fatal(err)
	}
	skipped := 0
	for _, rule := range conformance.Rules() {
		result := rule.Check(t.Context(), conformance.Harness{Provider: empty})
		if fails := result.Rule == "groups-listed"; (result.Outcome == conformance.Failed) != fails {
			t.Errorf("%s %s on a cloud without groups: %s", result.Rule, result.Outcome, result.Reason)
		}
		if result.Outcome == conformance.Skipped {
			skipped++
			if result.Reason == "" {
				t.Errorf("%s was skipped without a reason", result.Rule)
			}
		}
	}
	if skipped == 0 {
		t.Error("nothing was skipped on a cloud without groups")
	}
}

func Example() {
	for _, rule := range conformance.Rules()[:3] {
		cloud, err := fake.New(fleet(), clocktesting.NewFakeClock(time.Time{}))
		if err != nil {
			panic(err)
		}
		result := rule.Check(context.Background(), conformance.Harness{Provider: cloud})
		fmt.Println(result.Rule, result.Outcome)
	}
	// Output:
	// listing-sorted Passed
	// listing-stable Passed
	// ids-unique Passed
}
