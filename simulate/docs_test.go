package simulate_test

import (
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/configs/scenarios"
)

// TestEveryFieldIsDocumented: docs/scenario.md names every field of a Scenario.
func TestEveryFieldIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../docs/scenario.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range fieldsOf(reflect.TypeFor[v1alpha1.ScenarioSpec](), map[string]bool{}) {
		if !strings.Contains(string(text), "`"+name+"`") {
			t.Errorf("docs/scenario.md does not name the field %s", name)
		}
	}
}

// fieldsOf collects the names of the fields of a type of the documents and of
// all such types it is made of.
func fieldsOf(typ reflect.Type, names map[string]bool) map[string]bool {
	for typ.Kind() == reflect.Pointer || typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map {
		typ = typ.Elem()
	}
	if typ.Kind() != reflect.Struct || typ.PkgPath() != reflect.TypeFor[v1alpha1.Scenario]().PkgPath() {
		return names
	}
	for i := range typ.NumField() {
		f := typ.Field(i)
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" {
			names[name] = true
		}
		fieldsOf(f.Type, names)
	}
	return names
}

// TestDocumentedScenario: the example of docs/scenario.md does what it expects.
func TestDocumentedScenario(t *testing.T) {
	text, err := os.ReadFile("../docs/scenario.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	setup, err := load("example", []byte(example))
	if err != nil {
		t.Fatal(err)
	}
	if report := run(t, setup); !report.Status.Holds {
		t.Error(report.Status.Expectations)
	}
}

// TestScenariosOfTheDocs: docs/simulate.md names scenarios that exist.
func TestScenariosOfTheDocs(t *testing.T) {
	for _, name := range []string{"pinned-pod", "real-cluster", "snapshot"} {
		if _, err := scenarios.Read(name); err != nil {
			t.Error(err)
		}
	}
	if len(scenarios.Names()) < 12 {
		t.Errorf("only %d scenarios", len(scenarios.Names()))
	}
}
