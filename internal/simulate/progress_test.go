package simulate_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/evenkeel/evenkeel/configs/scenarios"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

// TestProgressMovesWithinARound: what a run describes itself moves while one round
// is worked out, and changes nothing of the result.
func TestProgressMovesWithinARound(t *testing.T) {
	setup, _ := loadCounting(t, 400)
	quiet, err := simulate.Run(context.Background(), setup, nil)
	if err != nil {
		t.Fatal(err)
	}
	type key struct {
		round int
		doing string
	}
	seen, last := map[key]int{}, simulate.Progress{}
	report, err := simulate.Run(context.Background(), setup, func(p simulate.Progress) {
		if p.At < last.At || p.Rounds < last.Rounds || p.Step.Done > p.Step.Total || p.Step.Total > 0 && p.Step.Of == "" {
			t.Errorf("%+v after %+v", p, last)
		}
		if p.Step.Doing == last.Step.Doing && p.Step.Done > last.Step.Done {
			seen[key{p.Rounds, p.Step.Doing}]++
		}
		last = p
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, doing := range []string{"matching pods with node groups", "estimating the nodes of each group"} {
		if seen[key{1, doing}] == 0 {
			t.Errorf("round 1 does not move while %s: %v", doing, seen)
		}
	}
	bound := 0
	for k, n := range seen {
		if k.doing == "binding pods to nodes" {
			bound += n
		}
	}
	if bound < 300 {
		t.Errorf("binding moved %d times", bound)
	}
	if diff := cmp.Diff(quiet, report); diff != "" {
		t.Errorf("being watched changes the run (-alone +watched):\n%s", diff)
	}
}

func TestProgressOfReadingFiles(t *testing.T) {
	_, steps := loadCounting(t, 3000)
	if len(steps) < 3 || steps[0].Step.Done != 0 || steps[0].Step.Total < 1 || steps[0].Step.Doing != "reading spec.objects" {
		t.Fatalf("%d steps, the first is %+v", len(steps), steps[0])
	}
	moved := false
	for i := 1; i < len(steps); i++ {
		moved = moved || steps[i].Step.Done > steps[i-1].Step.Done
	}
	if !moved {
		t.Error("reading does not move")
	}
}

// loadCounting loads a scenario with pods of several kinds and three groups, and
// what was told meanwhile.
func loadCounting(t *testing.T, pods int) (*simulate.Setup, []simulate.Progress) {
	t.Helper()
	var b strings.Builder
	b.WriteString(`{"apiVersion":"evenkeel.dev/v1alpha1","kind":"Scenario","metadata":{"name":"x"},"spec":{
		"machines":[{"name":"m","resources":{"cpu":8,"memory":"32Gi"}}],
		"nodeGroups":[{"name":"a","machine":"m","zone":"a","max":99},{"name":"b","machine":"m","zone":"b","max":99},{"name":"c","machine":"m","zone":"c","max":99}],
		"objects":[`)
	for i := range pods {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"apiVersion":"v1","kind":"Pod","metadata":{"namespace":"default","name":"p%d","annotations":{"filler":%q}},
			"spec":{"containers":[{"name":"c","resources":{"requests":{"cpu":"%dm"}}}]}}`, i, strings.Repeat("x", 500), 200+i%4)
	}
	b.WriteString("]}}")
	docs, err := document.Read("s.json", strings.NewReader(b.String()), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	var steps []simulate.Progress
	setup, err := simulate.Load(&docs[0], simulate.Files{
		Open:     func(name string) (io.ReadCloser, error) { return scenarios.Files.Open(name) },
		Progress: func(p simulate.Progress) { steps = append(steps, p) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return setup, steps
}
