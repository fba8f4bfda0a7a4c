package simulate_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/configs/scenarios"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

var update = flag.Bool("update", false, "write testdata/golden")

// builtIn loads a scenario that comes with the program.
func builtIn(t testing.TB, name string) *simulate.Setup {
	t.Helper()
	text, err := scenarios.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	setup, err := load(name, text)
	if err != nil {
		t.Fatal(err)
	}
	return setup
}

func load(name string, text []byte) (*simulate.Setup, error) {
	docs, err := document.Read(name, bytes.NewReader(text), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		return nil, err
	}
	open := func(name string) (io.ReadCloser, error) { return scenarios.Files.Open(name) }
	return simulate.Load(&docs[0], simulate.Files{Open: open})
}

func run(t testing.TB, setup *simulate.Setup) *v1alpha1.ScenarioReport {
	t.Helper()
	report, err := simulate.Run(context.Background(), setup, nil)
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// TestScenarios plays every scenario that comes with the program: what it
// expects holds, a second run says the same, and so does the golden file.
func TestScenarios(t *testing.T) {
	for _, name := range scenarios.Names() {
		t.Run(name, func(t *testing.T) {
			report := run(t, builtIn(t, name))
			if report.Name != name {
				t.Errorf("the scenario of %s.yaml calls itself %s", name, report.Name)
			}
			if len(report.Status.Expectations) == 0 {
				t.Error("expects nothing")
			}
			for _, e := range report.Status.Expectations {
				if !e.OK {
					t.Errorf("%s: got %s, want %s", e.Check, e.Got, e.Want)
				}
			}
			got := describe(report)
			if again := describe(run(t, builtIn(t, name))); again != got {
				t.Errorf("a second run differs:\n%s", cmp.Diff(got, again))
			}
			compareGolden(t, filepath.Join("testdata", "golden", name+".txt"), got)
		})
	}
}

func compareGolden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("differs from %s (-update writes it):\n%s", file, cmp.Diff(string(want), got))
	}
}

// describe is the report in lines that a person can review as a diff.
func describe(r *v1alpha1.ScenarioReport) string {
	var b strings.Builder
	for _, row := range r.Status.Timeline {
		fmt.Fprintf(&b, "+%s %s: %s\n", row.At.Duration, row.What, row.Text)
	}
	b.WriteString("\n")
	for _, g := range r.Status.Groups {
		fmt.Fprintf(&b, "%s in %s: %d -> %d of %d, %d ready, %d pods, set %d, template from %s: %s\n",
			g.Name, g.Zone, g.Before, g.After, g.Max, g.Ready, g.Pods, g.Set, g.Template, g.Why)
	}
	b.WriteString("\n")
	for _, p := range r.Status.PendingPods {
		fmt.Fprintf(&b, "%d pending, as %s: %s\n", p.Pods, p.Example, p.Reason)
	}
	fmt.Fprintf(&b, "%d running, %d pending, %d nodes ordered, %d removed, %d scale-ups, %d rounds, ended at +%s, settled: %t\n",
		r.Status.Running, r.Status.Pending, r.Status.NodesOrdered, r.Status.NodesRemoved, r.Status.ScaleUps, r.Status.Rounds,
		r.Status.End.Duration, r.Status.Settled)
	return b.String()
}

// TestChosenGroupDoesNotMatter plays the headroom scenario with the groups
// renamed so that each of them comes first once.
func TestChosenGroupDoesNotMatter(t *testing.T) {
	for _, roles := range []string{"a b c", "b c a", "c a b"} {
		setup := builtIn(t, "headroom")
		names := strings.Fields(roles)
		want := map[string]int{}
		for i := range setup.Cloud.Groups {
			g := &setup.Cloud.Groups[i]
			want[names[i]] = g.MaxSize
			g.ID = names[i]
		}
		setup.Expect = nil
		for _, g := range run(t, setup).Status.Groups {
			if g.After != want[g.Name] {
				t.Errorf("roles %s: %s has %d nodes, want %d", roles, g.Name, g.After, want[g.Name])
			}
		}
	}
}

// TestFailedExpectation says what was expected and what came.
func TestFailedExpectation(t *testing.T) {
	setup := builtIn(t, "proposal-example")
	running := int32(99)
	setup.Expect = &v1alpha1.ScenarioExpect{
		Sizes: map[string]int32{"a": 5}, Running: &running, Sets: [][]string{{"a"}, {"b", "c"}}, Reasons: []string{"aliens"},
	}
	report := run(t, setup)
	want := []v1alpha1.Expectation{
		{Check: "sizes[a]", Want: "5", Got: "4"},
		{Check: "running", Want: "99", Got: "14"},
		{Check: "sets", Want: "a b,c", Got: "a,b,c"},
		{Check: "reasons[0]", Want: `"aliens"`, Got: "not found"},
	}
	if diff := cmp.Diff(want, report.Status.Expectations); diff != "" || report.Status.Holds {
		t.Errorf("holds: %t, expectations:\n%s", report.Status.Holds, diff)
	}
}
