package plan_test

import (
	"bytes"
	"testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/plan"
)

// Whatever the document, it is refused or answered: no pod is lost, no group shrinks
// or passes its maximum, and what binds is a domain.
func FuzzSpreadSplit(f *testing.F) {
	const head = "apiVersion: evenkeel.dev/v1alpha1\nkind: SpreadSplit\nspec: "
	f.Add([]byte(head + "{pods: 30, maxSkew: 1, podsPerNode: 2, domains: [{name: a, matchingPods: 2, active: true}, {name: b, matchingPods: 2, active: true}], groups: [{name: x, domain: a, size: 1, max: 20}, {name: y, domain: b, size: 1, max: 2}]}"))
	f.Add([]byte(head + "{pods: 12, maxSkew: 2147483647, minDomains: 3, podsPerNode: 1, extraNodes: 3, domains: [{name: a}, {name: b}], groups: [{name: x, domain: a, size: 0, max: 2147483647}]}"))
	f.Add([]byte(head + "{pods: 2147483647, maxSkew: 1, podsPerNode: 2147483647, domains: [{name: a, freeSlots: 2147483647, active: true}], groups: []}"))
	f.Add([]byte(head + "{pods: 5, maxSkew: 1, podsPerNode: 1, domains: [{name: a, active: true}, {name: b}, {name: c}], groups: [{name: x, domain: c, size: 9, max: 3}, {name: y, domain: b, size: 0, max: 9}, {name: z, domain: b, size: 3, max: 9}]}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		docs, err := document.Read("f", bytes.NewReader(data), document.Options{MaxSize: 1 << 14})
		if err != nil {
			return
		}
		for _, d := range docs {
			asked, ok := d.Object.(*v1alpha1.SpreadSplit)
			if !ok || len(plan.Validate(asked)) > 0 {
				continue
			}
			answer, err := plan.Answer(asked)
			if err != nil {
				t.Fatalf("valid, yet %v", err)
			}
			checkSplit(t, &asked.Spec, answer.(*v1alpha1.SpreadSplitStatus))
		}
	})
}

func checkSplit(t *testing.T, asked *v1alpha1.SpreadSplitSpec, answer *v1alpha1.SpreadSplitStatus) {
	t.Helper()
	if answer.Placed+answer.Unplaced != *asked.Pods || answer.Placed < 0 || answer.Unplaced < 0 || len(answer.Groups) != len(asked.Groups) {
		t.Fatalf("%d placed and %d not of %d pods, %d groups of %d", answer.Placed, answer.Unplaced, *asked.Pods, len(answer.Groups), len(asked.Groups))
	}
	for i, g := range answer.Groups {
		size, most := *asked.Groups[i].Size, *asked.Groups[i].Max
		if g.Size != size || g.NewSize < size || g.NewSize > max(size, most) {
			t.Fatalf("group %d of size %d and maximum %d gets %+v", i, size, most, g)
		}
	}
	names := map[string]bool{}
	for i := range asked.Domains {
		names[asked.Domains[i].Name] = true
	}
	for _, name := range answer.Binding {
		if !names[name] || answer.Unplaced == 0 {
			t.Fatalf("%s binds, with %d pods unplaced", name, answer.Unplaced)
		}
	}
}
