package simulate_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/configs/scenarios"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// fewer are the scenarios in which fewer pods run in a mode than in the others.
var fewer = map[string]int{
	// They open zone c, whose one node then holds the other zones back.
	"spread-closed-zone/stock": 14, "spread-closed-zone/expander": 14, "spread-closed-zone/sidecar": 14,
}

// TestEveryModePlaysEveryScenario: in every mode as many pods run in the end as in the mode of the scenario, and a
// second run says the same.
func TestEveryModePlaysEveryScenario(t *testing.T) {
	names := scenarios.Names()
	if testing.Short() {
		names = []string{"proposal-example", "quota", "zones-from-zero"}
	}
	for _, name := range names {
		own := run(t, builtIn(t, name)).Status.Running
		for _, mode := range simulate.Modes() {
			t.Run(fmt.Sprintf("%s/%s", name, mode), func(t *testing.T) {
				t.Parallel()
				play := func() string {
					setup := builtIn(t, name)
					setup.Mode = mode
					report := run(t, setup)
					want, known := fewer[name+"/"+string(mode)]
					if !known {
						want = own
					}
					if got := report.Status.Running; got != want {
						t.Errorf("%d pods run, want %d", got, want)
					}
					return describe(report)
				}
				if first, second := play(), play(); first != second {
					t.Errorf("a second run differs:\n%s", cmp.Diff(first, second))
				}
			})
		}
	}
}

// TestWhatModesOrder: the sizes that come out, in the order of the groups' names.
func TestWhatModesOrder(t *testing.T) {
	for _, test := range []struct {
		scenario string
		sizes    map[simulate.Mode]string // sorted where chance decides which group gets more
		sorted   bool
	}{
		{"proposal-example", map[simulate.Mode]string{simulate.Stock: "4 4 6", simulate.Expander: "4 4 6", simulate.Linked: "4 4 6",
			simulate.Sidecar: "4 4 6"}, false},
		{"zones-from-zero", map[simulate.Mode]string{simulate.Stock: "3 4 4", simulate.Expander: "3 4 4", simulate.Linked: "3 4 4",
			simulate.Sidecar: "3 4 4"}, true},
		{"label-noise", map[simulate.Mode]string{simulate.Expander: "3 3 3", simulate.Linked: "3 3 3", simulate.Sidecar: "3 3 3"}, true},
		{"headroom", map[simulate.Mode]string{simulate.Linked: "5 1 1", simulate.Sidecar: "5 1 1"}, false},
		{"spread-one-round", map[simulate.Mode]string{simulate.Expander: "6 6 6", simulate.Linked: "6 6 6", simulate.Sidecar: "6 6 6"}, true},
	} {
		for _, mode := range simulate.Modes() {
			want, asked := test.sizes[mode]
			if !asked {
				continue
			}
			setup := builtIn(t, test.scenario)
			setup.Mode = mode
			var sizes []string
			for _, g := range run(t, setup).Status.Groups {
				sizes = append(sizes, fmt.Sprint(g.After))
			}
			if test.sorted {
				slices.Sort(sizes)
			}
			if got := strings.Join(sizes, " "); got != want {
				t.Errorf("%s, %s: %s, want %s", test.scenario, mode, got, want)
			}
		}
	}
}

// TestPodsThatAreNewWait: like Cluster Autoscaler, no mode orders nodes for pods in the loop in which they appear.
func TestPodsThatAreNewWait(t *testing.T) {
	for _, mode := range simulate.Modes() {
		setup := builtIn(t, "zones-from-zero")
		setup.Mode = mode
		for _, row := range run(t, setup).Status.Timeline {
			if row.What == "scale-up" {
				if row.At.Duration != simulate.DefaultScanInterval {
					t.Errorf("%s: the first scale-up is at +%s, want +%s", mode, row.At.Duration, simulate.DefaultScanInterval)
				}
				break
			}
		}
	}
}

// TestReleases: before 1.36 a target size stays as it is when nodes do not come.
func TestReleases(t *testing.T) {
	for version, repaired := range map[string]bool{"1.34": false, "1.35": false, "1.36": true} {
		setup, err := loadWith(scenario("autoscaler: {mode: stock, version: \"" + version +
			"\"}\nduration: 16m\nworkloads: [{name: w, replicas: 2, requests: {cpu: 1500m}}]\n" +
			"faults: {stockOuts: [{zones: [z], mode: Silent}]}"))
		if err != nil {
			t.Fatal(err)
		}
		report := run(t, setup)
		got := slices.ContainsFunc(report.Status.Timeline, func(row v1alpha1.TimelineRow) bool {
			return row.What == v1alpha1.RowRepair && strings.Contains(row.Text, "did not come within the provision time")
		})
		if got != repaired {
			t.Errorf("%s: repaired %v, want %v:\n%s", version, got, repaired, describe(report))
		}
	}
}
