package grouppolicy

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

const head = "apiVersion: evenkeel.dev/v1alpha1\nkind: NodeGroupPolicies\nmetadata: {name: fleet}\nspec:\n  sets:\n"

const spot = head + `
  - name: web
    policy: Proportional
    portions:
    - {name: on-demand, groups: [od-a, od-b], base: 2, weight: 20}
    - {name: spot, selector: {matchLabels: {bought: spot}}, weight: 80}
  - {name: db, groups: [db-a, db-b], measure: Memory}
`

func TestParse(t *testing.T) {
	_, policies, err := Parse("policies.yaml", []byte(spot))
	if err != nil || len(policies) != 2 {
		t.Fatal(policies, err)
	}
	web, db := policies[0], policies[1]
	if web.Policy != nodegroupset.Proportional || web.Portions[0].Base != 2 || web.Portions[1].Weight != 80 ||
		web.Portions[1].Selector.String() != "bought=spot" {
		t.Errorf("web: %+v", web)
	}
	if db.Measure != nodegroupset.ByMemory || len(db.Portions) != 1 || len(db.Portions[0].Groups) != 2 {
		t.Errorf("db: %+v", db)
	}
}

func TestBaseIsInTheUnitOfTheMeasure(t *testing.T) {
	for text, want := range map[string]int64{
		"measure: CPU, portions: [{name: p, groups: [a], base: 8}]":            8000,
		"measure: CPU, portions: [{name: p, groups: [a], base: 500m}]":         500,
		"measure: Memory, portions: [{name: p, groups: [a], base: 16Gi}]":      16384,
		"measure: Memory, portions: [{name: p, groups: [a], base: 1}]":         1,
		"measure: Nodes, portions: [{name: p, groups: [a], base: 2147483647}]": 2147483647,
	} {
		_, policies, err := Parse("p", []byte(head+"  - {name: s, policy: Priority, "+text+"}"))
		if err != nil || policies[0].Portions[0].Base != want {
			t.Errorf("%s: %+v, %v; want a base of %d", text, policies, err, want)
		}
	}
}

func TestRefused(t *testing.T) {
	proportional := func(portions string) string { return "{name: s, policy: Proportional, portions: [" + portions + "]}" }
	for _, tc := range []struct{ set, want string }{
		{"{groups: [a]}", "spec.sets[0].name: Required value"},
		{"{name: s}", "spec.sets[0].groups: Required value: name node groups here or select them by labels with selector"},
		{"{name: s, policy: Priority}", "spec.sets[0].portions: Required value: policy Priority shares between portions"},
		{"{name: s, policy: Fair, groups: [a]}",
			`spec.sets[0].policy: Unsupported value: "Fair": supported values: "Even", "Proportional", "Priority"`},
		{"{name: s, measure: GPU, groups: [a]}", `spec.sets[0].measure: Unsupported value: "GPU"`},
		{"{name: s, groups: [a], portions: [{name: p, groups: [b]}]}",
			"spec.sets[0].portions: Forbidden: policy Even shares between all groups alike"},
		{"{name: s, policy: Priority, groups: [a], portions: [{name: p, groups: [b]}]}",
			"spec.sets[0]: Forbidden: policy Priority shares between portions"},
		{"{name: s, groups: [a, a]}", `spec.sets[0].groups[1]: Duplicate value: "a"`},
		{"{name: s, groups: [a]}\n  - {name: s, groups: [b]}", `spec.sets[1].name: Duplicate value: "s"`},
		{"{name: s, groups: [a]}\n  - {name: t, groups: [a]}", `spec.sets[1].groups[0]: Duplicate value: "a"`},
		{"{name: s, selector: {}}", "spec.sets[0].selector: Invalid value: \"{}\": selects every node group"},
		{"{name: s, selector: {matchExpressions: [{key: a, operator: Has}]}}", "spec.sets[0].selector: Invalid value"},
		{proportional("{name: p, groups: [a], weight: -1}, {name: q, groups: [b]}"),
			"spec.sets[0].portions[0].weight: Invalid value: -1: must be between 0 and 2147483647"},
		{proportional("{name: p, groups: [a], weight: 0}, {name: q, groups: [b], weight: 0}"),
			"spec.sets[0].portions: Invalid value: the weights sum to 0"},
		{proportional("{name: p, groups: [a]}, {name: p, groups: [b]}"), `spec.sets[0].portions[1].name: Duplicate value: "p"`},
		{proportional("{name: p}"), "spec.sets[0].portions[0].groups: Required value"},
		{proportional("{name: p, groups: [a], base: -1}"), `spec.sets[0].portions[0].base: Invalid value: "-1": must not be negative`},
		{proportional("{name: p, groups: [a], base: 1500m}"),
			`spec.sets[0].portions[0].base: Invalid value: "1500m": must be a whole number of nodes`},
		{proportional("{name: p, groups: [a], base: 3Gi}"), `spec.sets[0].portions[0].base: Invalid value: "3Gi": is more than any set can have`},
		{proportional("{name: p, groups: [a], base: 9223372036854775807E}"), "is out of range"},
		{"{name: s, policy: Priority, portions: [{name: p, groups: [a], weight: 1}]}",
			"spec.sets[0].portions[0].weight: Forbidden: counts with policy Proportional only"},
		{"{name: s, groups: [a, b], startupDeadline: -5m}", `spec.sets[0].startupDeadline: Invalid value: "-5m0s": must be 1s or more`},
		{"{name: s, groups: [a, b], startupDeadline: 0s}", `spec.sets[0].startupDeadline: Invalid value: "0s": must be 1s or more`},
		{"{name: s, groups: [a, b], startupDeadline: 5}", "spec.sets[0].startupDeadline"},
		{"{name: s, groups: [a, b], startupDeadline: soon}", "spec.sets[0].startupDeadline"},
		{"{name: s, groups: [a, b], startupDeadline: 9999999999h}", "spec.sets[0].startupDeadline"},
		{"{name: s, groups: [a], startupDeadline: 5m}",
			"spec.sets[0].startupDeadline: Invalid value: \"5m0s\": needs another node group to order from"},
		{"{name: s, policy: Priority, portions: [{name: p, groups: [a]}], startupDeadline: 5m}",
			"spec.sets[0].startupDeadline: Invalid value: \"5m0s\": needs another node group to order from"},
		{"{name: s, group: [a]}", "spec.sets[0].group: unknown field"},
		{"{name: s, groups: [a]}\n---\n" + head + "  - {name: s, groups: [a]}", "must have one document of kind NodeGroupPolicies, not 2"},
	} {
		_, policies, err := Parse("policies.yaml", []byte(head+"  - "+tc.set))
		var invalid *document.Invalid
		if !errors.As(err, &invalid) || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "policies.yaml") ||
			policies != nil {
			t.Errorf("%s:\n%v\nwant %s", tc.set, err, tc.want)
		}
	}
}

func TestFileIsReadAgainWhenItChanges(t *testing.T) {
	name := filepath.Join(t.TempDir(), "policies.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := Open(name); err == nil {
		t.Fatal("a missing file was opened")
	}
	write(spot)
	f, policies, err := Open(name)
	if err != nil || len(policies) != 2 {
		t.Fatal(policies, err)
	}
	look := func(wantSets int, wantErr string) {
		t.Helper()
		policies, changed, err := f.Changed()
		if (err == nil) != (wantErr == "") || err != nil && !strings.Contains(err.Error(), wantErr) || changed != (wantSets > 0) ||
			len(policies) != wantSets {
			t.Errorf("%d sets, changed %t, %v; want %d, %q", len(policies), changed, err, wantSets, wantErr)
		}
	}
	look(0, "")
	write(head + "  - {name: s}")
	look(0, "spec.sets[0].groups: Required value")
	look(0, "") // said once
	write(head + "  - {name: s, groups: [a]}")
	look(1, "")
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	look(0, "no such file")
	look(0, "")
	write(head + "  - {name: s, groups: [a]}")
	look(0, "") // as before
	write(spot)
	look(2, "")
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(spot))
	f.Add([]byte(head + "  - {name: s, policy: Priority, measure: CPU, portions: [{name: p, groups: [a], base: 500m}]}"))
	f.Fuzz(func(t *testing.T, content []byte) {
		declared, policies, err := Parse("policies.yaml", content)
		if err != nil {
			if policies != nil {
				t.Errorf("policies beside an error: %v", err)
			}
			return
		}
		if len(policies) != len(declared.Spec.Sets) {
			t.Fatalf("%d policies of %d sets", len(policies), len(declared.Spec.Sets))
		}
		for _, p := range policies {
			request := nodegroupset.SplitRequest{Nodes: 7, Policy: p.Policy}
			for i, portion := range p.Portions {
				portion.Portion.Groups = []string{string(rune('a'+i%26)) + strings.Repeat("x", i/26)}
				request.Portions = append(request.Portions, portion.Portion)
				request.Groups = append(request.Groups, nodegroupset.Group{Name: portion.Portion.Groups[0], Max: 100})
			}
			if _, err := nodegroupset.Split(request); err != nil {
				t.Fatalf("%+v is accepted, and cannot be used: %v", p, err)
			}
		}
	})
}
