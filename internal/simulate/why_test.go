package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// groupNamed finds a row of the report.
func groupNamed(t testing.TB, r *v1alpha1.ScenarioReport, name string) v1alpha1.GroupReport {
	t.Helper()
	for _, g := range r.Status.Groups {
		if g.Name == name {
			return g
		}
	}
	t.Fatalf("no group %s", name)
	return v1alpha1.GroupReport{}
}

func TestWhyAGroupIsNotInTheChosenOnesSet(t *testing.T) {
	for name, c := range map[string]struct{ group, why, field, left, right string }{
		"label":         {"machine: m, labels: {team-pool: b}", "differs by label team-pool: b against a", "labels[team-pool]", "b", "a"},
		"missing label": {"machine: m, labels: {}", "differs by label team-pool: none against a", "labels[team-pool]", "", "a"},
		"taint": {"machine: m, labels: {team-pool: a}, taints: [{key: dedicated, value: x, effect: NoSchedule}]",
			"differs by taint dedicated:NoSchedule: x against none", "taints[dedicated:NoSchedule]", "x", ""},
		"memory":   {"machine: memory, labels: {team-pool: a}", "differs by capacity memory: 10Gi against 8Gi", "capacity.memory", "10Gi", "8Gi"},
		"cpu":      {"machine: cpu, labels: {team-pool: a}", "differs by capacity cpu: 4 against 2", "capacity.cpu", "4", "2"},
		"reserved": {"machine: reserved, labels: {team-pool: a}", "differs by allocatable cpu: 1800m against 2", "allocatable.cpu", "1800m", "2"},
		"gpu": {"machine: gpu, labels: {team-pool: a}", "differs by capacity nvidia.com/gpu: 1 against none", "capacity.nvidia.com/gpu",
			"1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := fmt.Sprintf(`
options: {expander: priority, priorities: {"10": [np.*], "1": [other]}}
machines:
- {name: m, resources: {cpu: 2, memory: 8Gi}, labels: {node.kubernetes.io/instance-type: one}}
- {name: memory, resources: {cpu: 2, memory: 10Gi}, labels: {node.kubernetes.io/instance-type: one}}
- {name: cpu, resources: {cpu: 4, memory: 8Gi}, labels: {node.kubernetes.io/instance-type: one}}
- {name: reserved, resources: {cpu: 2, memory: 8Gi}, allocatable: {cpu: 1800m}, labels: {node.kubernetes.io/instance-type: one}}
- {name: gpu, resources: {cpu: 2, memory: 8Gi, nvidia.com/gpu: 1}, labels: {node.kubernetes.io/instance-type: one}}
nodeGroups:
- {name: np1, zone: z1, machine: m, max: 9, labels: {team-pool: a}}
- {name: np2, zone: z2, machine: m, max: 9, labels: {team-pool: a}}
- {name: other, zone: z3, max: 9, %s}
workloads: [{name: w, replicas: 4, requests: {cpu: 1500m}, tolerations: [{key: dedicated, operator: Exists}]}]`, c.group)
			setup, err := loadWith(scenario(text))
			if err != nil {
				t.Fatal(err)
			}
			report := run(t, setup)
			g, chosen := groupNamed(t, report, "other"), groupNamed(t, report, "np1")
			if !strings.Contains(g.Why, c.why) || g.DiffersFrom != "np1" {
				t.Errorf("why %q, differs from %q; want %q", g.Why, g.DiffersFrom, c.why)
			}
			at := slices.IndexFunc(g.Differences, func(d v1alpha1.FieldDifference) bool { return d.Field == c.field })
			if at < 0 || value(g.Differences[at].Left) != c.left || value(g.Differences[at].Right) != c.right {
				t.Errorf("differences %+v, want %s: %s against %s", g.Differences, c.field, c.left, c.right)
			}
			if g.Set == chosen.Set || g.Set < 1 || len(chosen.Differences) != 0 || chosen.DiffersFrom != "" {
				t.Errorf("sets %d and %d, the chosen one differs by %v", g.Set, chosen.Set, chosen.Differences)
			}
		})
	}
}

func value(side *string) string {
	if side == nil {
		return ""
	}
	return *side
}

// Similarity is not transitive: the set that is shown is the one that the split had, whichever
// group was chosen.
func TestTheSetIsThatOfTheSplit(t *testing.T) {
	for chosen, want := range map[string]map[string]int{"a": {"a": 1, "b": 1, "c": 2}, "c": {"a": 1, "b": 2, "c": 2}} {
		setup, err := loadWith(scenario(fmt.Sprintf(`
options: {expander: priority, priorities: {"10": [^%s$], "1": [.*]}}
machines:
- {name: m1, resources: {cpu: 2, memory: 1000Mi}, labels: {node.kubernetes.io/instance-type: one}}
- {name: m2, resources: {cpu: 2, memory: 1012Mi}, labels: {node.kubernetes.io/instance-type: one}}
- {name: m3, resources: {cpu: 2, memory: 1024Mi}, labels: {node.kubernetes.io/instance-type: one}}
nodeGroups:
- {name: a, zone: z1, max: 9, machine: m1}
- {name: b, zone: z2, max: 9, machine: m2}
- {name: c, zone: z3, max: 9, machine: m3}
workloads: [{name: w, replicas: 6, requests: {cpu: 1500m}}]`, chosen)))
		if err != nil {
			t.Fatal(err)
		}
		report := run(t, setup)
		for name, set := range want {
			g := groupNamed(t, report, name)
			if g.Set != set || !slices.Contains(report.Status.Sets[g.Set-1], name) {
				t.Errorf("%s chosen: %s is in set %d of %v, want %d: %s", chosen, name, g.Set, report.Status.Sets, set, g.Why)
			}
			if levelled := strings.Contains(g.Why, "levelled"); levelled == (g.DiffersFrom != "") || levelled != (g.Set == want[chosen]) {
				t.Errorf("%s chosen: %s in set %d: %s", chosen, name, g.Set, g.Why)
			}
		}
	}
}

// A group that gets nothing is large enough beside smaller ones only.
func TestLargeEnoughOnlyBesideSmallerGroups(t *testing.T) {
	for name, c := range map[string]struct {
		sizes    [3]int
		replicas int // that need a node each
		want     [3]string
	}{
		"larger": {[3]int{1, 3, 6}, 14, [3]string{"chosen, levelled with b, c", "similar to a, levelled with it",
			"large enough beside a, b"}},
		"as large": {[3]int{4, 3, 4}, 12, [3]string{"level with b", "similar to a, levelled with it", "level with b"}},
		"its turn later": {[3]int{1, 1, 1}, 4, [3]string{"chosen, levelled with b, c", "similar to a, the nodes needed went to a",
			"similar to a, the nodes needed went to a"}},
		"larger than one": {[3]int{0, 2, 3}, 6, [3]string{"chosen, levelled with b, c", "large enough beside a", "large enough beside a"}},
	} {
		t.Run(name, func(t *testing.T) {
			text := "machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]\noptions: {expander: priority, priorities: {\"9\": " +
				"[a], \"1\": [.*]}}\nnodeGroups:\n"
			for i, size := range c.sizes {
				text += fmt.Sprintf("- {name: %c, zone: z%d, machine: m, size: %d, max: 20}\n", 'a'+i, i, size)
			}
			setup, err := loadWith(scenario(text + fmt.Sprintf("workloads: [{name: w, replicas: %d, requests: {cpu: 1500m}}]", c.replicas)))
			if err != nil {
				t.Fatal(err)
			}
			report := run(t, setup)
			for i, want := range c.want {
				if g := report.Status.Groups[i]; g.Why != want {
					t.Errorf("%s %d→%d: %q, want %q", g.Name, g.Before, g.After, g.Why, want)
				}
			}
		})
	}
}

// The label that names the groups has another value in each of them.
func TestTheGroupLabelIsNoDifference(t *testing.T) {
	for name, c := range map[string]struct {
		label, labels string
		sets          int
	}{
		"no pack has it":         {"team-pool", "team-pool: GROUP", 1},
		"with the zone":          {"team-pool,topology.kubernetes.io/zone", "team-pool: one", 1},
		"another label":          {"team-pool", "team-pool: GROUP, other: GROUP", 2},
		"how capacity is bought": {"lifecycle", "lifecycle: GROUP", 2},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for i, group := range []string{"a", "b"} {
				files["t.yaml"] += nodeYAML(group, fmt.Sprint("z", i), "", strings.ReplaceAll(c.labels, "GROUP", group))
			}
			text := scenario("groupLabel: " + c.label +
				"\nnodeGroupsFrom: [{file: t.yaml, max: 9}]\nworkloads: [{name: w, replicas: 4, requests: {cpu: 1500m}}]")
			if report := run(t, loadFiles(t, text, files)); len(report.Status.Sets) != c.sets {
				t.Errorf("sets %v, want %d", report.Status.Sets, c.sets)
			}
		})
	}
}
