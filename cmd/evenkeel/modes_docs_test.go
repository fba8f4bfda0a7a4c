package main

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/configs/scenarios"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// modeRow is a row of the table of behaviours by mode: the behaviour and the scenario are written by hand.
var modeRow = regexp.MustCompile("^(\\| [^|]+ \\| `([a-z-]+)` \\|) .*\\|$")

// TestDocumentedModes: the table of docs/differences.md says what comes out of a scenario in each mode. -update writes it.
func TestDocumentedModes(t *testing.T) {
	inRoot(t)
	p := readPage(t, "docs/differences.md")
	rows := 0
	for i, line := range p.lines {
		match := modeRow.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		rows++
		want := match[1]
		for _, mode := range simulate.Modes() {
			want += " " + outcome(t, match[2], mode) + " |"
		}
		switch {
		case want == line:
		case *update:
			p.lines[i] = want
		default:
			t.Errorf("the row of %s is stale (go test ./cmd/evenkeel -run Documented -update):\n%s\nwant\n%s", match[2], line, want)
		}
	}
	if rows < 10 {
		t.Errorf("%d rows, want at least 10", rows)
	}
	if *update {
		p.write(t)
	}
}

// outcome sums up a run: the sizes in the order of the groups, and what it cost.
func outcome(t *testing.T, name string, mode simulate.Mode) string {
	t.Helper()
	file, err := scenarios.Files.Open(name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	docs, err := document.Read(name, file, document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	docs[0].Object.(*v1alpha1.Scenario).Spec.Autoscaler.Mode = string(mode)
	setup, err := simulate.Load(&docs[0], simulate.Files{Open: func(file string) (io.ReadCloser, error) { return scenarios.Files.Open(file) }})
	if err != nil {
		t.Fatal(err)
	}
	report, err := simulate.Run(context.Background(), setup, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &report.Status
	sizes := make([]string, len(s.Groups))
	for i, g := range s.Groups {
		sizes[i] = fmt.Sprint(g.After)
	}
	out := strings.Join(sizes, "/")
	if len(sizes) > 6 {
		out = fmt.Sprintf("%d groups", len(sizes))
	}
	for _, part := range []struct {
		n    int
		what string
	}{{s.NodesOrdered, "ordered"}, {s.ScaleUps, "scale-ups"}, {s.NodesScaledDown, "scaled down"}, {s.Pending, "pending"}} {
		if part.n > 0 {
			out += fmt.Sprintf(", %d %s", part.n, part.what)
		}
	}
	if longest := s.PendingTime.Longest.Duration; longest > 0 {
		out += ", " + longest.String()
	}
	return out
}
