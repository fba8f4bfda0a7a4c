package predicates

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// sameFits compares Fits with the oracle for every pod and template.
func sameFits(t *testing.T, o *naive, c *Checker, w naiveCluster, s *Cluster, templates []Node, pods []*v1.Pod) {
	t.Helper()
	fit, err := s.Fits(templates, pods)
	if err != nil {
		t.Fatal(err)
	}
	for j, template := range templates {
		with := append(w.copy(), o.copyOf(template, len(w)))
		for i, p := range pods {
			want := o.fits(with, p, len(w))
			k := fit.KindOf(i)
			if got := fit.Passes(j, k); got != want {
				t.Fatalf("pod %s (kind of %s) on template %s: fits is %v, want %v; reasons %v",
					p.Name, fit.Kinds()[k].Pod.Name, template.Node.Name, got, want, fit.Reasons(j, k))
			}
		}
	}
}

func TestFitsEqualTheSchedulerAskedOneByOne(t *testing.T) {
	t.Parallel()
	o := newNaive(t)
	c := newChecker(t, Options{})
	for seed := range uint64(rounds(t, 400)) {
		d := newDice(seed)
		w := naiveCluster(d.nodes(d.IntN(6)))
		templates := []Node{d.template(), d.template(), d.template()}
		templates = append(templates, d.relabelled(templates[0]), d.relabelled(templates[1]))
		var pods []*v1.Pod
		for range 8 {
			p := d.pod()
			pods = append(pods, p)
			twin := p.DeepCopy()
			twin.Name = d.name("pod")
			twin.Labels["pod-name"] = twin.Name
			pods = append(pods, twin)
		}
		t.Logf("seed %d", seed)
		sameFits(t, o, c, w, c.Cluster(w), templates, pods)
	}
}

func rounds(t *testing.T, n int) int {
	if testing.Short() {
		return n / 10
	}
	return n
}

func newChecker(t testing.TB, o Options) *Checker {
	t.Helper()
	c, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
