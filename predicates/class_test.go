package predicates

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// Of the kinds that pass both of two templates of one class, as many find a place
// on new nodes of the one as of the other, in the same way.
func TestTemplatesOfOneClassTakeEquallyMany(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	compared, ofTwoShapes := 0, 0
	for seed := range uint64(rounds(t, 1500)) {
		d := newDice(3e6 + seed)
		s := c.Cluster(d.nodes(d.IntN(5)))
		templates := []Node{d.template()}
		for range 4 {
			templates = append(templates, d.relabelled(templates[d.IntN(len(templates))]))
		}
		var pods []*v1.Pod
		for range 6 {
			pods = append(pods, d.pod())
		}
		fit, err := s.Fits(templates, pods)
		if err != nil {
			t.Fatal(err)
		}
		for i := range templates {
			for j := range i {
				if fit.ClassOf(i) != fit.ClassOf(j) {
					continue
				}
				compared++
				if fit.shapeOf[i] != fit.shapeOf[j] {
					ofTwoShapes++
				}
				if diff := cmp.Diff(packed(t, s, fit, templates, i, j), packed(t, s, fit, templates, j, i)); diff != "" {
					t.Fatalf("seed %d: templates %d and %d:\n%s", seed, i, j, diff)
				}
			}
		}
	}
	if ofTwoShapes < 100 {
		t.Errorf("only %d of %d pairs were of two shapes", ofTwoShapes, compared)
	}
}

// packed puts the kinds that pass both templates on new nodes of one of them.
func packed(t *testing.T, s *Cluster, fit *Fit, templates []Node, on, other int) []Placement {
	t.Helper()
	f := s.Fork()
	first := f.Len()
	var all []Placement
	for k, kind := range fit.Kinds() {
		if !fit.Passes(on, k) || !fit.Passes(other, k) {
			continue
		}
		before, err := f.Place(kind.Pod, 2, first, f.Len())
		if err != nil {
			t.Fatal(err)
		}
		runs, err := f.PlaceOnNew(templates[on], kind.Pod, 3, 2)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, before...), runs...)
	}
	return all
}
