package evenkeel_test

import (
	"maps"
	"slices"
	"testing"
)

// budget is how many lines of Go the packages of a layer, or of another module of this repository, have together
// at the most, tests and generated files left out. What people can read whole stays correct for longer, so weight
// is a decision: who raises a number says in the commit what users get for it, and who makes a layer smaller
// lowers its number.
var budget = map[string]int{
	"entry":      8500,
	"drivers":    34900,
	"edges":      15700,
	"pipeline":   12800,
	"decisions":  19000,
	"arithmetic": 1950,
	"contracts":  5080,
	"data":       200,

	"e2e":                            1930,
	"integrations/clusterautoscaler": 1950,
}

// slack is how far below its number a layer may be before the number is lowered.
const slack = 500

func TestBudgetOfLines(t *testing.T) {
	lines, largest := map[string]int{}, map[string]source{}
	add := func(root string, part func(source) string) {
		packages, err := load(root)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range packages {
			name := part(p)
			lines[name] += p.lines
			if p.lines > largest[name].lines {
				largest[name] = p
			}
		}
	}
	add(".", func(p source) string {
		r, _ := rowOf(p.path) // TestLayering reports packages without a row
		return layerNames[r.layer]
	})
	for _, nested := range []string{"e2e", "integrations/clusterautoscaler"} {
		add(nested, func(source) string { return nested })
	}
	for _, name := range slices.Sorted(maps.Keys(lines)) {
		switch got, most := lines[name], budget[name]; {
		case got > most:
			t.Errorf("%s: %d lines, more than the %d in budget_test.go: delete what the change makes unnecessary (the largest "+
				"package is %s, %d lines), "+
				"or raise the number and give the reason in the commit", name, got, most, largest[name].path, largest[name].lines)
		case got < most-slack:
			t.Errorf("%s: %d lines, %d fewer than in budget_test.go: lower its number to %d", name, got, most-got, got+slack/5)
		}
	}
}
