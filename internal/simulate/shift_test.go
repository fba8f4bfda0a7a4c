package simulate_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// shiftScenario is a random scenario that ends with a shift of zone za.
func shiftScenario(t *rapid.T) (text string, from, until time.Duration) {
	from = time.Duration(rapid.IntRange(0, 30).Draw(t, "from")) * time.Minute
	until = from + time.Duration(rapid.IntRange(1, 60).Draw(t, "lasts"))*time.Minute
	var b strings.Builder
	scaleDown, mode, least := rapid.Bool().Draw(t, "scale down"), "sidecar", 0
	if !scaleDown && rapid.Bool().Draw(t, "linked") {
		mode, least = "linked", 1 // it knows of the shift from an annotation of a node
	}
	fmt.Fprintf(&b, "autoscaler: {mode: %s}\n", mode)
	fmt.Fprintf(&b, "duration: %s\noptions: {scaleDownEnabled: %v}\nmachines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]\nnodeGroups:\n",
		until, scaleDown)
	for _, zone := range []string{"za", "zb", "zc"} {
		fmt.Fprintf(&b, "- {name: %s, zone: %s, machine: m, size: %d, max: 12}\n", zone, zone, rapid.IntRange(least, 4).Draw(t, zone))
	}
	b.WriteString("workloads:\n")
	for i := range rapid.IntRange(1, 5).Draw(t, "workloads") {
		fmt.Fprintf(&b, "- {name: w%d, replicas: %d, arrive: %dm, leave: %dm, requests: {cpu: 1500m}", i,
			rapid.IntRange(1, 8).Draw(t, "replicas"),
			rapid.IntRange(0, 80).Draw(t, "arrive"), rapid.IntRange(90, 150).Draw(t, "leave"))
		if rapid.Bool().Draw(t, "spread") {
			b.WriteString(", spread: [{}]")
		} else if zone := rapid.SampledFrom([]string{"", "", "za", "zb"}).Draw(t, "pinned"); zone != "" {
			fmt.Fprintf(&b, ", nodeSelector: {topology.kubernetes.io/zone: %s}", zone)
		}
		b.WriteString("}\n")
	}
	fmt.Fprintf(&b, "faults:\n  zonalShifts: [{zones: [za], from: %s, until: %s}]\n", from, until)
	if rapid.Bool().Draw(t, "refuses") {
		fmt.Fprintf(&b, "  stockOuts: [{zones: [zb], from: %dm, until: %dm}]\n", rapid.IntRange(0, 40).Draw(t, "out from"),
			rapid.IntRange(41, 80).Draw(t, "out until"))
	}
	return b.String(), from, until
}

// While a zone is shifted away nothing is ordered there and nothing is removed in its set.
func TestPropertyNoOrderInAShiftedZone(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text, from, until := shiftScenario(t)
		setup, err := loadWith(scenario(text))
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		report, err := simulate.Run(context.Background(), setup, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range report.Status.Timeline {
			if row.At.Duration < from || row.At.Duration >= until {
				continue
			}
			inZone := slices.ContainsFunc(row.Groups, func(g v1alpha1.GroupChange) bool { return g.Name == "za" })
			if row.What == v1alpha1.RowScaleUp && inZone || row.What == v1alpha1.RowScaleDown {
				t.Fatalf("+%s %s while za is shifted away from %s to %s\n%s", row.At.Duration, row.Text, from, until, text)
			}
		}
	})
}

func TestAShiftOfAScenarioIsChecked(t *testing.T) {
	groups := "machines: [{name: m, resources: {cpu: 2, memory: 8Gi}, labels: {example.com/rack: r1}}]\nnodeGroups: " +
		"[{name: a, zone: za, machine: m, max: 9}, {name: b, zone: zb, machine: m, max: 9}]\n"
	for text, want := range map[string]string{
		"faults: {zonalShifts: [{zones: [za]}]}":                                "",
		"faults: {zonalShifts: [{zones: [r1], topologyKey: example.com/rack}]}": "",
		"faults: {zonalShifts: [{}]}":                                           "spec.faults.zonalShifts[0].zones: Required value",
		"faults: {zonalShifts: [{zones: [zx]}]}":                                `spec.faults.zonalShifts[0].zones[0]: Unsupported value: "zx": supported values: "za", "zb"`,
		"faults: {zonalShifts: [{zones: [za], topologyKey: example.com/rack}]}": `spec.faults.zonalShifts[0].zones[0]: Unsupported value: "za": supported values: "r1"`,
		"faults: {zonalShifts: [{zones: [za], topologyKey: a b}]}":              "spec.faults.zonalShifts[0].topologyKey: Invalid value",
		"faults: {zonalShifts: [{zones: [za], from: 2m, until: 1m}]}":           "spec.faults.zonalShifts[0].until: Invalid value",
		"options: {zonalShiftReturnNodes: 0}":                                   "spec.options.zonalShiftReturnNodes: Invalid value",
		"options: {zonalShiftReturnPercentage: 101}":                            "spec.options.zonalShiftReturnPercentage: Invalid value",
		"options: {zonalShiftDetectUnreadyPercentage: -1}":                      "spec.options.zonalShiftDetectUnreadyPercentage: Invalid value",
		"options: {zonalShiftReturnInterval: -1s}":                              "spec.options.zonalShiftReturnInterval: Invalid value",
		"options: {zonalShiftDetectCalm: -1s}":                                  "spec.options.zonalShiftDetectCalm: Invalid value",
	} {
		_, err := loadWith(scenario(groups + text))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestAShiftOfAllZonesLeavesTheLast(t *testing.T) {
	setup, err := loadWith(scenario(`machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]
nodeGroups:
- {name: a, zone: za, machine: m, max: 9}
- {name: b, zone: zb, machine: m, max: 9}
workloads: [{name: web, replicas: 4, arrive: 2m, requests: {cpu: 1500m}}]
faults: {zonalShifts: [{zones: [zb, za], from: 1m}]}
autoscaler: {mode: sidecar}
expect: {sizes: {a: 0, b: 4}, running: 4, reasons: ["the shift of zone zb has no effect: no node group elsewhere could grow in its stead"]}`))
	if err != nil {
		t.Fatal(err)
	}
	if report := run(t, setup); !report.Status.Holds {
		t.Errorf("%+v", report.Status.Expectations)
	}
}
