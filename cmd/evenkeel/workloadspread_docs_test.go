package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/workloadspread"
)

const spreadPage = "docs/workloadspread.md"

// TestDocumentedReasonsOfSpreads: the page names every reason of a condition, an event or an admission,
// and every annotation.
func TestDocumentedReasonsOfSpreads(t *testing.T) {
	inRoot(t)
	text := readPage(t, spreadPage).prose()
	words := reasonsOf(t, "workloadspread")
	if len(words) < 15 {
		t.Errorf("only %d reasons were found: %v", len(words), words)
	}
	words = append(words, workloadspread.AnnotationSpread, workloadspread.AnnotationCost)
	for _, word := range words {
		if !strings.Contains(text, "`"+word+"`") {
			t.Errorf("%s does not name %s", spreadPage, word)
		}
	}
}

// TestDocumentedSamplesOfSpreads: the page shows the WorkloadSpread of every sample as it is, and plays
// it.
func TestDocumentedSamplesOfSpreads(t *testing.T) {
	inRoot(t)
	page := strings.Join(readPage(t, spreadPage).lines, "\n")
	names, err := filepath.Glob("configs/samples/workloadspread-*.yaml")
	if err != nil || len(names) < 5 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		_, object, _ := strings.Cut(string(text), "\n") // after the comment
		object, _, _ = strings.Cut(object, "---\n")
		if !strings.Contains(page, "```yaml\n"+object+"```") {
			t.Errorf("%s does not show the WorkloadSpread of %s", spreadPage, name)
		}
		if !strings.Contains(page, "$ evenkeel simulate -f "+name) {
			t.Errorf("%s does not play %s", spreadPage, name)
		}
	}
}
