package simulate_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// deadlineScenario is a set with a start-up deadline of five minutes: two groups on spot and two on
// demand. Every pod takes a node of its own.
type deadlineScenario struct {
	policy string
	boot   map[string]string // of groups; a minute else
	faults []string
	pods   [][2]int // minute and number of all pods since the start
	pinned bool     // the pods run on spot only
	max    int
	quota  int // of on demand; 0 for none
}

func (d *deadlineScenario) play() (*v1alpha1.ScenarioReport, error) {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: evenkeel.dev/v1alpha1
kind: Scenario
metadata: {name: late}
spec:
  duration: 6h
  policies:
  - name: web
    startupDeadline: 5m
    policy: %s
    portions:
    - {name: spot, groups: [spot-a, spot-b]}
    - {name: on-demand, groups: [on-demand-a, on-demand-b]}
  machines:
  - {name: m, resources: {cpu: 2, memory: 8Gi, pods: 29}}
  nodeGroups:
`, d.policy)
	for _, name := range []string{"on-demand-a", "on-demand-b", "spot-a", "spot-b"} {
		boot := "40s"
		if d.boot[name] != "" {
			boot = d.boot[name]
		}
		fmt.Fprintf(&b, "  - {name: %s, zone: zone-%s, machine: m, max: %d, bootTime: %s, labels: {bought: %s}}\n", name, name[len(name)-1:],
			d.max, boot, name[:len(name)-2])
	}
	fmt.Fprintf(&b, "  workloads:\n  - name: web\n    replicas: 0\n    requests: {cpu: 1500m, memory: 1Gi}\n")
	if d.pinned {
		b.WriteString("    nodeSelector: {bought: spot}\n")
	}
	b.WriteString("    scale:\n")
	for _, step := range d.pods {
		fmt.Fprintf(&b, "    - {at: %dm, replicas: %d}\n", step[0], step[1])
	}
	if d.quota > 0 {
		fmt.Fprintf(&b, "  quotas: [{name: on-demand, groups: [on-demand-a, on-demand-b], nodes: %d}]\n", d.quota)
	}
	fmt.Fprintf(&b, "  faults:\n    stockOuts: [%s]\n", strings.Join(d.faults, ", "))
	setup, err := load("late", []byte(b.String()))
	if err != nil {
		return nil, fmt.Errorf("%w\n%s", err, &b)
	}
	return simulate.Run(context.Background(), setup, nil)
}

// orders sum up what was ordered and given up.
type orders struct {
	ordered, givenUp map[string]int
}

// kept is how many nodes were ordered and not given up.
func (o orders) kept() (n int) {
	for group, nodes := range o.ordered {
		n += nodes - o.givenUp[group]
	}
	return n
}

func ordersOf(report *v1alpha1.ScenarioReport) orders {
	out := orders{ordered: map[string]int{}, givenUp: map[string]int{}}
	for i := range report.Status.Timeline {
		row := &report.Status.Timeline[i]
		for _, c := range row.Groups {
			switch row.What {
			case v1alpha1.RowScaleUp:
				out.ordered[c.Name] += c.Nodes
			case v1alpha1.RowRepair:
				out.givenUp[c.Name] += c.Nodes
			}
		}
	}
	return out
}

// TestLateCapacityIsOrderedElsewhere: whatever comes late or never on spot, all pods run soon after
// the deadline, no node is ordered more than twice, and a member that is late gets few orders.
func TestLateCapacityIsOrderedElsewhere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := deadlineScenario{policy: rapid.SampledFrom([]string{"Priority", "Proportional"}).Draw(t, "policy"), max: 40,
			boot: map[string]string{}}
		for _, name := range []string{"spot-a", "spot-b"} {
			switch rapid.SampledFrom([]string{"well", "slow", "never", "for a while"}).Draw(t, name) {
			case "slow":
				d.boot[name] = rapid.SampledFrom([]string{"4m30s", "5m", "6m", "20m"}).Draw(t, name+" boots")
			case "never":
				d.faults = append(d.faults, fmt.Sprintf("{groups: [%s], mode: Silent}", name))
			case "for a while":
				from := rapid.IntRange(0, 60).Draw(t, name+" from")
				d.faults = append(d.faults, fmt.Sprintf("{groups: [%s], mode: Silent, from: %dm, until: %dm}", name, from,
					from+rapid.IntRange(1, 120).Draw(t, name+" for")))
			}
		}
		at, pods := 0, 0
		for range rapid.IntRange(1, 6).Draw(t, "steps") {
			at += rapid.IntRange(0, 50).Draw(t, "pause")
			pods += rapid.IntRange(1, 6).Draw(t, "pods")
			if n := len(d.pods); n > 0 && d.pods[n-1][0] == at {
				d.pods = d.pods[:n-1]
			}
			d.pods = append(d.pods, [2]int{at, pods})
		}
		report, err := d.play()
		if err != nil {
			t.Fatal(err)
		}
		got := ordersOf(report)
		// Both spot members may be late one after the other, and one that brings its nodes just at the
		// deadline once more: those are kept, though others have been ordered.
		if s := report.Status; s.Pending > 0 || got.kept() > 2*pods || s.PendingTime.Longest.Duration > 17*time.Minute {
			t.Fatalf("%d pending, %s at most, %d nodes ordered for %d pods\n%s", s.Pending, s.PendingTime.Longest.Duration, got.kept(), pods,
				describe(report))
		}
		// A member that was well gets all pods that arrive until its nodes are known to be late.
		arrived := 0
		for i := range d.pods {
			before := 0
			for _, p := range d.pods[:i+1] {
				if p[0] < d.pods[i][0]-5 {
					before = p[1]
				}
			}
			arrived = max(arrived, d.pods[i][1]-before)
		}
		for name, n := range got.givenUp {
			if most := arrived + len(d.pods); n > most || strings.HasPrefix(name, "on-demand") {
				t.Fatalf("%s: %d nodes given up, want %d at most, and none on demand\n%s", name, n, most, describe(report))
			}
		}
	})
}

// TestLateMemberIsLeftAloneThoughTheAutoscalerDoesNotBackItOff: Cluster Autoscaler deletes an instance
// that does not become a node in time, and no scale-up has failed for it. What it would have brought is
// not ordered from the same member again.
func TestLateMemberIsLeftAloneThoughTheAutoscalerDoesNotBackItOff(t *testing.T) {
	scenario := deadlineScenario{policy: "Priority", max: 10, boot: map[string]string{"spot-a": "6m"}, pods: [][2]int{{50, 1}, {51, 2}}}
	report, err := scenario.play()
	if err != nil {
		t.Fatal(err)
	}
	if longest := report.Status.PendingTime.Longest.Duration; longest > 6*time.Minute+15*time.Second {
		t.Errorf("a pod waited %s\n%s", longest, describe(report))
	}
}

// TestLateCapacityThatNothingElseReplaces stays on order until the maximum node provision time.
func TestLateCapacityThatNothingElseReplaces(t *testing.T) {
	for name, test := range map[string]struct {
		scenario deadlineScenario
		givenUp  map[string]int
		longest  time.Duration
	}{
		"replaced on demand": {
			scenario: deadlineScenario{max: 10, boot: map[string]string{"spot-a": "8m", "spot-b": "8m"}},
			givenUp:  map[string]int{"spot-a": 2, "spot-b": 2}, longest: 6*time.Minute + 11*time.Second,
		},
		"the pods run on spot only": {
			scenario: deadlineScenario{max: 10, boot: map[string]string{"spot-a": "8m", "spot-b": "8m"}, pinned: true},
			longest:  8*time.Minute + 30*time.Second,
		},
		"the pods run on spot only, of which one zone is well": {
			scenario: deadlineScenario{max: 10, boot: map[string]string{"spot-a": "8m"}, pinned: true},
			givenUp:  map[string]int{"spot-a": 2}, longest: 6*time.Minute + 11*time.Second,
		},
		"every member is late": {
			scenario: deadlineScenario{max: 10, boot: map[string]string{"spot-a": "8m", "spot-b": "8m", "on-demand-a": "8m", "on-demand-b": "8m"}},
			givenUp:  map[string]int{"spot-a": 2, "spot-b": 2}, longest: 13*time.Minute + 31*time.Second,
		},
		"there is room for some": { // which shows when they are ordered only
			scenario: deadlineScenario{max: 10, quota: 3, boot: map[string]string{"spot-a": "8m", "spot-b": "8m"}},
			givenUp:  map[string]int{"spot-a": 2, "spot-b": 2}, longest: 18*time.Minute + 32*time.Second,
		},
		"the others refuse at first": { // and are backed off: spot-a is the only one that can grow
			scenario: deadlineScenario{max: 10, pods: [][2]int{{0, 4}, {6, 8}}, faults: []string{
				"{groups: [spot-a], mode: Silent}", "{groups: [spot-b, on-demand-a, on-demand-b], mode: Refuse, until: 10m}",
			}},
			givenUp: map[string]int{"spot-a": 12}, longest: 26*time.Minute + 23*time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			test.scenario.policy = "Priority"
			if test.scenario.pods == nil {
				test.scenario.pods = [][2]int{{0, 4}}
			}
			report, err := test.scenario.play()
			if err != nil {
				t.Fatal(err)
			}
			got := ordersOf(report)
			if longest := report.Status.PendingTime.Longest.Duration; !maps.Equal(got.givenUp, test.givenUp) || longest != test.longest {
				t.Errorf("given up %v, longest wait %s; want %v, %s\n%s", got.givenUp, longest, test.givenUp, test.longest, describe(report))
			}
		})
	}
}
