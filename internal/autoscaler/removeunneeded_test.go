package autoscaler_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/predicates"
)

// shrinking is a cluster of which nodes are removed. It is its own World: pods stay where a test puts them.
type shrinking struct {
	t       *testing.T
	clock   *clocktesting.FakeClock
	cloud   *fake.Cloud
	ca      *autoscaler.Autoscaler
	pods    map[string][]*v1.Pod // by node
	wants   []*v1.Pod            // pending
	leaving map[string]bool
	budgets []removal.Budget
	held    map[string]string // why pods of a node are not evicted
}

func (s *shrinking) Nodes() []predicates.Node {
	var out []predicates.Node
	for _, n := range s.cloud.RegisteredNodes() {
		if s.leaving[n.Name] {
			n = n.DeepCopy()
			n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: "ToBeDeletedByClusterAutoscaler", Effect: v1.TaintEffectNoSchedule})
		}
		out = append(out, predicates.Node{Node: n, Pods: s.pods[n.Name]})
	}
	return out
}

func (s *shrinking) Pending() []*v1.Pod { return s.wants }

func (s *shrinking) SetDeleting(node string, deleting bool) {
	s.leaving[node] = deleting
}

func (s *shrinking) Budgets() []removal.Budget { return s.budgets }

func (s *shrinking) Evict(node string) string {
	if s.held[node] == "" {
		delete(s.pods, node)
	}
	return s.held[node]
}

func newShrinking(t *testing.T, config fake.Config, down removal.Options, linked *autoscaler.Linked) *shrinking {
	t.Helper()
	s := &shrinking{t: t, clock: clocktesting.NewFakeClock(epoch), pods: map[string][]*v1.Pod{}, leaving: map[string]bool{}}
	var err error
	if s.cloud, err = fake.New(config, s.clock); err != nil {
		t.Fatal(err)
	}
	checker, err := predicates.New(t.Context(), predicates.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.ca, err = autoscaler.New(autoscaler.Config{
		Clock: s.clock, Cloud: s.cloud, World: s, Connection: autoscaler.Connection{Provider: s.cloud},
		Options: autoscaler.Options{
			Timeout: time.Hour, ProvisionTime: 15 * time.Minute, Removal: &down, Checker: checker, Linked: linked,
			Balance: linked != nil,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// shrinkable is a group of nodes with 4 cores, and with a minimum.
func shrinkable(id string, size, least int) fake.Group {
	g := groupOf(id, size, 10, 0)
	g.MinSize, g.TerminationTime = least, time.Minute
	g.Template.Node.Status.Allocatable = g.Template.Node.Status.Capacity
	g.Template.Node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	return g
}

func shrinkables(all ...fake.Group) fake.Config { return fake.Config{Groups: all} }

// after lets time pass and runs a loop.
func (s *shrinking) after(d time.Duration) *autoscaler.ScaleDown {
	s.t.Helper()
	s.clock.Step(d)
	report, err := s.ca.Loop()
	if err = errors.Join(err, report.Err); err != nil {
		s.t.Fatal(err)
	}
	if report.ScaleDown == nil {
		s.t.Fatalf("no scale-down at +%s", s.clock.Since(epoch))
	}
	return report.ScaleDown
}

// fill puts a pod of the given cores on nodes.
func (s *shrinking) fill(cpu string, nodes ...string) {
	for _, name := range nodes {
		pod := podsOf("on-"+name, 1, cpu)[0]
		pod.Spec.NodeName = name
		s.pods[name] = append(s.pods[name], pod)
	}
}

// expect compares the outcomes, as "Goes 2, WaitsForTime 1".
func expect(t *testing.T, what string, down *autoscaler.ScaleDown, want string) {
	t.Helper()
	counts := map[removal.Outcome]int{}
	for _, o := range down.Decision.Nodes {
		counts[o.Outcome]++
	}
	var parts []string
	for outcome, n := range counts {
		parts = append(parts, fmt.Sprintf("%s %d", outcome, n))
	}
	slices.Sort(parts)
	if got := strings.Join(parts, ", "); got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

func TestUnneededTime(t *testing.T) {
	s := newShrinking(t, shrinkables(shrinkable("a", 3, 1)), removal.Options{}, nil)
	first := s.after(0)
	expect(t, "at first", first, "WaitsForTime 3")
	if want := epoch.Add(10 * time.Minute); !first.Decision.Next.Equal(want) {
		t.Errorf("looks again at %s, want %s", first.Decision.Next, want)
	}
	expect(t, "too early", s.after(10*time.Minute-1), "WaitsForTime 3")
	s.fill("3", "a-0001")
	expect(t, "one is used", s.after(1), "Goes 2, InUse 1")
	expect(t, "on their way", s.after(10*time.Second), "Fixed 1, Leaving 2")
	s.pods = map[string][]*v1.Pod{}
	expect(t, "at the minimum", s.after(time.Hour), "Fixed 1")
}

func TestUnneededTimeStartsAnew(t *testing.T) {
	s := newShrinking(t, shrinkables(shrinkable("a", 2, 1)), removal.Options{}, nil)
	s.after(0)
	s.fill("3", "a-0001")
	expect(t, "used for a moment", s.after(5*time.Minute), "InUse 1, WaitsForTime 1")
	s.pods = map[string][]*v1.Pod{}
	down := s.after(5 * time.Minute)
	expect(t, "later", down, "Goes 1, WaitsForTime 1")
	if len(down.Attempts) != 1 || !slices.Equal(down.Attempts[0].Nodes, []string{"a-0002"}) {
		t.Errorf("%v went, want a-0002", down.Attempts)
	}
}

func TestCoolDownAfterGrowth(t *testing.T) {
	s := newShrinking(t, shrinkables(shrinkable("a", 2, 0), shrinkable("b", 1, 1)), removal.Options{}, nil)
	s.fill("3", "b-0001")
	s.after(0)
	apart := podsOf("apart", 1, "3")
	apart[0].Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "zone-b"}
	apart[0].CreationTimestamp.Time = s.clock.Now()
	s.wants = apart // needs a new node of b
	expect(t, "while it grows", s.after(6*time.Minute), "InUse 1, WaitsForTime 2")
	s.wants = nil
	s.fill("3", "b-0002")
	down := s.after(5 * time.Minute)
	expect(t, "in the cool-down", down, "InUse 2, WaitsForCoolDown 2")
	if want := epoch.Add(16 * time.Minute); !down.Decision.Next.Equal(want) {
		t.Errorf("looks again at %s, want %s", down.Decision.Next, want)
	}
	expect(t, "after it", s.after(5*time.Minute), "Goes 2, InUse 2")
}

// TestDeferral: a cannot shrink, so in a linked build the nodes of b wait for the level of their set, but not forever.
// Cluster Autoscaler alone removes them.
func TestDeferral(t *testing.T) {
	config := func() fake.Config { return shrinkables(shrinkable("a", 3, 0), shrinkable("b", 3, 0)) }
	used := []string{"a-0001", "a-0002", "a-0003"}
	alone := newShrinking(t, config(), removal.Options{}, nil)
	alone.fill("3", used...)
	alone.after(0)
	expect(t, "alone", alone.after(10*time.Minute), "Goes 3, InUse 3")

	s := newShrinking(t, config(), removal.Options{}, &autoscaler.Linked{})
	s.fill("3", used...)
	expect(t, "at first", s.after(0), "InUse 3, WaitsForTime 3")
	expect(t, "one is level", s.after(10*time.Minute), "Goes 1, InUse 3, WaitsForLevel 2")
	down := s.after(2 * time.Minute)
	expect(t, "the others wait", down, "InUse 3, WaitsForLevel 2")
	for _, o := range down.Decision.Nodes {
		if o.Outcome == removal.WaitsForLevel && o.Behind != "a" {
			t.Errorf("%s waits behind %q, want a", o.Node, o.Behind)
		}
	}
	expect(t, "long enough", s.after(8*time.Minute), "Goes 2, InUse 3")
}

// TestDeferralIsForgotten where a node is needed meanwhile: it then waits the whole time again.
func TestDeferralIsForgotten(t *testing.T) {
	s := newShrinking(t, shrinkables(shrinkable("a", 3, 0), shrinkable("b", 2, 0)), removal.Options{}, &autoscaler.Linked{})
	s.fill("3", "a-0001", "a-0002", "a-0003")
	s.after(0)
	expect(t, "both wait", s.after(10*time.Minute), "InUse 3, WaitsForLevel 2")
	s.fill("3", "b-0001")
	expect(t, "one is needed", s.after(5*time.Minute), "InUse 4, WaitsForLevel 1")
	delete(s.pods, "b-0001")
	expect(t, "the other goes", s.after(5*time.Minute), "Goes 1, InUse 3, WaitsForTime 1")
	expect(t, "it waits again", s.after(10*time.Minute), "InUse 3, WaitsForLevel 1")
	expect(t, "the whole time", s.after(10*time.Minute), "Goes 1, InUse 3")
}

func TestNoDeferral(t *testing.T) {
	zero := time.Duration(0)
	s := newShrinking(t, shrinkables(shrinkable("a", 3, 0), shrinkable("b", 3, 0)), removal.Options{},
		&autoscaler.Linked{MaxBalanceDeferral: &zero})
	s.fill("3", "a-0001", "a-0002", "a-0003")
	s.after(0)
	expect(t, "without deferral", s.after(10*time.Minute), "Goes 3, InUse 3")
}

func TestParallelism(t *testing.T) {
	for name, linked := range map[string]*autoscaler.Linked{"alone": nil, "linked": {}} {
		s := newShrinking(t, shrinkables(shrinkable("a", 6, 0), shrinkable("b", 6, 0)), removal.Options{MaxParallelism: 3}, linked)
		s.fill("500m", "a-0001", "a-0002", "b-0001", "b-0002")
		s.after(0)
		down := s.after(10 * time.Minute)
		drains := 0
		for _, at := range down.Decision.Go {
			if down.Decision.Nodes[at].Drain {
				drains++
			}
		}
		if len(down.Decision.Go) != 3 || drains > 1 {
			t.Errorf("%s: %d go, %d of them with pods, want 3 and at most one", name, len(down.Decision.Go), drains)
		}
		down = s.after(10 * time.Second)
		if len(down.Decision.Go) != 0 || !slices.ContainsFunc(down.Decision.Nodes,
			func(o removal.NodeOutcome) bool { return o.Outcome == removal.WaitsForLimit }) {
			t.Errorf("%s: while they leave: %v", name, down.Decision.Nodes)
		}
		if down = s.after(time.Minute); len(down.Decision.Go) != 3 {
			t.Errorf("%s: when they are gone: %v", name, down.Decision.Nodes)
		}
	}
}

func TestUnreadyNodesHaveTheirOwnTime(t *testing.T) {
	config := shrinkables(shrinkable("a", 2, 0), shrinkable("b", 4, 0))
	config.Outages = []v1alpha1.Outage{{Zones: []string{"zone-a"}, FaultWindow: during(time.Second, 0)}}
	s := newShrinking(t, config, removal.Options{}, &autoscaler.Linked{})
	s.fill("3", "b-0001", "b-0002", "b-0003", "b-0004")
	s.after(0)
	s.after(time.Minute)
	expect(t, "after ten minutes", s.after(10*time.Minute), "InUse 4, WaitsForTime 2")
	expect(t, "after twenty, without waiting for balance", s.after(10*time.Minute), "Goes 2, InUse 4")
}

// TestFailedDeletions: a group that failed does not stop the others, and nothing more goes for a while.
func TestFailedDeletions(t *testing.T) {
	config := shrinkables(shrinkable("a", 2, 0), shrinkable("b", 2, 0))
	config.Calls = []v1alpha1.CallFault{{Methods: []string{fake.MethodDeleteNodes}, Groups: []string{"a"}, First: 1, Error: "boom"}}
	s := newShrinking(t, config, removal.Options{}, nil)
	s.after(0)
	down := s.after(10 * time.Minute)
	expect(t, "refused", down, "Goes 4")
	for _, attempt := range down.Attempts {
		if failed := attempt.Group == "a"; failed != errors.Is(attempt.Err, cloudprovider.ErrUnavailable) || failed != (attempt.Shrank == 0) {
			t.Errorf("attempt %+v", attempt)
		}
	}
	down = s.after(10 * time.Second)
	expect(t, "soon after", down, "Leaving 2, WaitsForCoolDown 2")
	expect(t, "once more", s.after(down.Decision.Next.Sub(s.clock.Now())), "Goes 2")
}

func TestAllOrNothingGroupsStay(t *testing.T) {
	whole := shrinkable("a", 2, 0)
	whole.Options = &cloudprovider.GroupOptions{ZeroOrMaxNodeScaling: true}
	own := shrinkable("b", 2, 0)
	own.Options = &cloudprovider.GroupOptions{ScaleDownUnneededTime: time.Minute}
	s := newShrinking(t, shrinkables(whole, own), removal.Options{}, nil)
	s.after(0)
	expect(t, "the group's own time", s.after(time.Minute), "Fixed 2, Goes 2")
}
