package sidecar_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// bought are groups a and b on demand, c and d on spot.
func bought(sizes ...int) []fake.Group {
	groups := zones(sizes...)
	for i := range groups {
		groups[i].Template.Node.Labels["bought"] = []string{"on-demand", "spot"}[i/2]
	}
	return groups
}

// spotAfterBase is two nodes on demand and then a fifth of what is beyond them.
func spotAfterBase() []nodegroupset.SetPolicy {
	portion := func(bought string, weight, base int64) nodegroupset.PortionPolicy {
		return nodegroupset.PortionPolicy{
			Portion:  nodegroupset.Portion{Name: bought, Weight: weight, Base: base},
			Selector: labels.SelectorFromSet(labels.Set{"bought": bought}),
		}
	}
	return []nodegroupset.SetPolicy{{
		Name: "web", Policy: nodegroupset.Proportional,
		Portions: []nodegroupset.PortionPolicy{portion("on-demand", 20, 2), portion("spot", 80, 0)},
	}}
}

func underPolicies(policies []nodegroupset.SetPolicy) sidecar.Options {
	return sidecar.Options{Options: steering.Options{Similarity: nodegroupset.Options{Policies: policies}, LevelScaleDown: true}}
}

func TestPolicyThroughTheSidecar(t *testing.T) {
	priority := spotAfterBase()
	priority[0].Policy = nodegroupset.Priority
	slices.Reverse(priority[0].Portions)
	small := bought(0, 0, 0, 0)
	small[2].MaxSize, small[3].MaxSize = 3, 2
	for name, test := range map[string]struct {
		policies []nodegroupset.SetPolicy
		groups   []fake.Group
		cloud    fake.Config
		pods     []batch
		fault    func(*harness, caCall) callFault
		want     []int
	}{
		"the base only": {policies: spotAfterBase(), groups: bought(0, 0, 0, 0), pods: []batch{{Pods: podsOf("p", 2, 1)}},
			want: []int{1, 1, 0, 0}},
		"base 2, then 20/80": {policies: spotAfterBase(), groups: bought(0, 0, 0, 0), pods: []batch{{Pods: podsOf("p", 12, 1)}},
			want: []int{2, 2, 4, 4}},
		"in two batches": {
			policies: spotAfterBase(), groups: bought(0, 0, 0, 0), want: []int{4, 4, 12, 12},
			pods: []batch{{Pods: podsOf("p", 12, 1)}, {At: 5 * time.Minute, Pods: podsOf("q", 20, 1)}},
		},
		"spot first, at least two on demand, the rest overflows": {
			policies: priority, groups: small, pods: []batch{{Pods: podsOf("p", 12, 1)}}, want: []int{4, 3, 3, 2},
		},
		"spot has run out": {
			policies: spotAfterBase(), groups: bought(0, 0, 0, 0), pods: []batch{{Pods: podsOf("p", 12, 1)}}, want: []int{6, 6, 0, 0},
			cloud: fake.Config{StockOuts: []v1alpha1.StockOut{{Groups: []string{"c", "d"}}}},
		},
		"the sidecar restarts": {
			policies: spotAfterBase(), groups: bought(0, 0, 0, 0), pods: []batch{{Pods: podsOf("p", 12, 1)}}, want: []int{2, 2, 4, 4},
			fault: restartAfter(2, (*harness).restartSidecar),
		},
	} {
		t.Run(name, func(t *testing.T) {
			cloud := test.cloud
			cloud.Groups = test.groups
			w := newHarness(t, setup{cloud: cloud, batches: test.pods, fault: test.fault, sidecar: underPolicies(test.policies)})
			if state := w.settle(20 * time.Minute); state.Pending > 0 {
				t.Errorf("%d pods are pending", state.Pending)
			}
			if got := w.sizes(); !slices.Equal(got, test.want) {
				t.Errorf("sizes %v, want %v\n%s", got, test.want, w.log())
			}
		})
	}
}

// changing is configuration that a test hands over.
type changing[T any] struct {
	next *T
	err  error
}

func (c *changing[T]) Changed() (value T, changed bool, err error) {
	next, err := c.next, c.err
	if c.next, c.err = nil, nil; next != nil {
		return *next, true, err
	}
	return value, false, err
}

func TestPoliciesThatAreWrongLeaveThoseBefore(t *testing.T) {
	file := &changing[[]nodegroupset.SetPolicy]{}
	options := underPolicies(spotAfterBase())
	options.Policies = file
	events := told{}
	options.Recorder = events
	w := newHarness(t, setup{cloud: fake.Config{Groups: bought(0, 0, 0, 0)}, sidecar: options})
	look := func(refused, policy string) {
		t.Helper()
		w.refresh(10 * time.Second)
		s := w.front.Status()
		if len(s.Policies) != 1 || !strings.Contains(s.Policies[0].Policy, policy) || !strings.Contains(s.Refused, refused) ||
			(s.Refused == "") != (refused == "") {
			t.Errorf("policies %+v, refused %q; want %q and %q", s.Policies, s.Refused, policy, refused)
		}
	}
	look("", "Proportional")
	unknown := []nodegroupset.SetPolicy{{Name: "x",
		Portions: []nodegroupset.PortionPolicy{{Portion: nodegroupset.Portion{Name: "x", Groups: []string{"a", "z"}}}}}}
	file.next = &unknown
	look(`spec.sets[0].portions[0].groups[1]: Invalid value: "z": is no node group of the cloud`, "Proportional")
	if events["PoliciesRefused"] != 1 {
		t.Errorf("events: %v", events)
	}
	look(`"z": is no node group`, "Proportional")
	file.err = errors.New("policies.yaml: spec.sets[0].groups: Required value")
	look("Required value", "Proportional")
	even := spotAfterBase()
	even[0].Policy = nodegroupset.Even
	file.next = &even
	look("", "Even")
	if len(w.front.Status().Warnings) != 2 {
		t.Errorf("warnings: %q", w.front.Status().Warnings)
	}
}

// TestPolicyHoldsScaleDown: the minimums given to Cluster Autoscaler let nodes go so that the ratio holds at
// every count.
func TestPolicyHoldsScaleDown(t *testing.T) {
	w := newHarness(t, setup{cloud: fake.Config{Groups: bought(3, 3, 8, 8)}, sidecar: underPolicies(spotAfterBase())})
	w.refresh(0)
	for n := 22; n > 0; n-- {
		onDemand := w.size("a") + w.size("b")
		want := min(n, 2) + (max(0, n-2)*2+5)/10
		if onDemand != want || w.size("a")+w.size("b")+w.size("c")+w.size("d") != n {
			t.Fatalf("%d of %d on demand, want %d", onDemand, n, want)
		}
		told := w.told()
		var open []string
		for id, least := range told {
			if w.size(id) > least {
				open = append(open, fmt.Sprintf("%s by %d", id, w.size(id)-least))
			}
		}
		if len(open) != 1 || !strings.HasSuffix(open[0], " by 1") {
			t.Fatalf("at %d nodes may go: %v", n, open)
		}
		w.remove(open[0][:1], 1)
		w.refresh(time.Minute)
	}
}

// TestPolicyBesideATopologySpread: the spread says in which zones nodes are, the policy which portion they are of, as
// soon as with Cluster Autoscaler alone. The last world is that of the scenario policy-spread, with as many nodes in
// each zone and on demand.
func TestPolicyBesideATopologySpread(t *testing.T) {
	inZones := func(groups []fake.Group, zones ...string) []fake.Group {
		for i := range groups {
			groups[i].Template.Node.Labels[zone] = zones[i%len(zones)]
			groups[i].Template.Node.Labels["bought"] = []string{"on-demand", "spot"}[i/len(zones)]
		}
		return groups
	}
	priority := spotAfterBase()
	priority[0].Policy = nodegroupset.Priority
	slices.Reverse(priority[0].Portions)
	few := inZones(zones(0, 0, 0, 0), "a", "b")
	few[2].MaxSize = 3
	for name, test := range map[string]struct {
		policies []nodegroupset.SetPolicy
		groups   []fake.Group
		batches  []batch
		perZone  int
		onDemand int
	}{
		"two zones": {
			spotAfterBase(), inZones(zones(0, 0, 0, 0), "a", "b"), []batch{{Pods: spreadOver(podsOf("p", 12, 1), "web", 1, nil, zone)}}, 6, 4,
		},
		"a node on demand in each zone": {
			spotAfterBase(), inZones(zones(1, 1, 0, 0), "a", "b"), []batch{{Pods: spreadOver(podsOf("p", 12, 1), "web", 1, nil, zone)}}, 7, 4,
		},
		"spot first, of which one zone has three": {
			priority, few, []batch{{Pods: spreadOver(podsOf("p", 12, 1), "web", 1, nil, zone)}}, 6, 3,
		},
		"three zones, twice": {
			spotAfterBase(), inZones(zones(0, 0, 0, 0, 0, 0), "a", "b", "c"), []batch{
				{Pods: spreadOver(podsOf("p", 48, 4), "web", 1, nil, zone)},
				{At: 10 * time.Minute, Pods: spreadOver(podsOf("q", 48, 4), "web", 1, nil, zone)},
			}, 8, 6,
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := noLaterThanAlone(t, setup{cloud: fake.Config{Groups: test.groups}, batches: test.batches, sidecar: underPolicies(test.policies)},
				20*time.Minute)
			state := o.w.ca.State()
			perZone, onDemand := map[string]int{}, 0
			for _, g := range test.groups {
				perZone[g.Template.Node.Labels[zone]] += o.w.size(g.ID)
				if g.Template.Node.Labels["bought"] == "on-demand" {
					onDemand += o.w.size(g.ID)
				}
			}
			for _, nodes := range perZone {
				if nodes < test.perZone || nodes > test.perZone+1 || onDemand != test.onDemand || state.Pending > 0 {
					t.Fatalf("sizes %v, %d pods pending; want %d or one more nodes per zone, %d on demand\n%s", o.w.sizes(), state.Pending, test.perZone,
						test.onDemand, o.w.log())
				}
			}
		})
	}
}

// TestTheExpanderFollowsItsConfiguration: Cluster Autoscaler reads its priorities again when they
// change, and so does the sidecar. Ones that are wrong leave those before.
func TestTheExpanderFollowsItsConfiguration(t *testing.T) {
	byPriority := func(group string) expander.Chain {
		priorities, err := expander.ParsePriorities([]byte("10: [.*]\n20: [" + group + "]\n"))
		if err != nil {
			t.Fatal(err)
		}
		chain, err := expander.New([]string{"priority"}, expander.Config{Priorities: priorities})
		if err != nil {
			t.Fatal(err)
		}
		return chain
	}
	groups := zones(0, 0)
	groups[1].Template.Node.Labels["machine"] = "other" // so that the groups are not similar
	file, events := &changing[expander.Chain]{}, told{}
	options := sidecar.Options{Options: steering.Options{Chain: byPriority("a")}, Chains: file, Recorder: events}
	batches := []batch{{Pods: podsOf("p", 2, 1)}, {At: 10 * time.Minute, Pods: podsOf("q", 3, 1)},
		{At: 20 * time.Minute, Pods: podsOf("r", 1, 1)}}
	w := newHarness(t, setup{cloud: fake.Config{Groups: groups}, batches: batches, sidecar: options})
	look := func(until time.Duration, want ...int) {
		t.Helper()
		for w.clock.Since(start) < until {
			w.ca.Step()
		}
		if !slices.Equal(w.sizes(), want) {
			t.Errorf("sizes %v, want %v\n%s", w.sizes(), want, w.log())
		}
	}
	look(9*time.Minute, 2, 0)
	next := byPriority("b")
	file.next = &next
	look(19*time.Minute, 2, 3)
	file.err = errors.New("priorities.yaml: no map")
	look(29*time.Minute, 2, 4)
	if events["ExpanderRefused"] != 1 {
		t.Errorf("events: %v", events)
	}
}
