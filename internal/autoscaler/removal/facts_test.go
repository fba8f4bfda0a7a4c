package removal

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/predicates"
)

// TestRememberedFactsChangeNoDecision plays rounds over a world that changes, and plans
// each once with what the rounds before found out and once with copies of all objects,
// of which nothing is known.
func TestRememberedFactsChangeNoDecision(t *testing.T) {
	checker := newChecker(t)
	rapid.Check(t, func(t *rapid.T) {
		w, o, known := drawWorld(t), drawOptions(t), Memory{}
		for range 4 {
			known.keep(w.Nodes)
			got, err := known.Plan(w, checker, o)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Memory{}.Plan(copied(w), checker, o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatal("decisions differ (-anew +remembered):", diff)
			}
			if known.keep(w.Nodes); len(known) > len(w.Nodes) {
				t.Fatalf("facts of %d nodes are kept, there are %d", len(known), len(w.Nodes))
			}
			change(t, w)
		}
	})
}

// copied is the same world in other objects.
func copied(w *World) *World {
	c := *w
	c.Nodes = slices.Clone(w.Nodes)
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Node = predicates.Node{Node: n.Node.Node.DeepCopy()}
		for _, pod := range w.Nodes[i].Pods {
			n.Pods = append(n.Pods, pod.DeepCopy())
		}
	}
	return &c
}

// change lets time pass, budgets allow more or less, a pod leave, a pod move, a node come, go or say something else, or the
// settings of a group change.
func change(t *rapid.T, w *World) {
	w.Nodes, w.Groups, w.Budgets = slices.Clone(w.Nodes), slices.Clone(w.Groups), slices.Clone(w.Budgets)
	w.Now = w.Now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "minutes later")) * time.Minute)
	for i := range w.Budgets {
		w.Budgets[i].Allowed = rapid.IntRange(0, 4).Draw(t, "allowed")
	}
	if len(w.Nodes) == 0 {
		return
	}
	from, to := rapid.IntRange(0, len(w.Nodes)-1).Draw(t, "from"), rapid.IntRange(0, len(w.Nodes)-1).Draw(t, "to")
	n := &w.Nodes[from]
	switch rapid.IntRange(0, 4).Draw(t, "change") {
	case 0:
		w.Nodes = slices.Delete(w.Nodes, from, from+1)
	case 1:
		n.Node.Node = n.Node.Node.DeepCopy()
		n.Node.Node.Spec.Unschedulable = !n.Node.Node.Spec.Unschedulable
		n.Node.Node.Status.Allocatable = v1.ResourceList{}
	case 2:
		g := &w.Groups[rapid.IntRange(0, len(w.Groups)-1).Draw(t, "group")]
		g.Settings.ScaleDownUtilizationThreshold = rapid.SampledFrom([]float64{0.1, 0.5, 0.9}).Draw(t, "threshold")
		g.Settings.IgnoreDaemonSetsUtilization = rapid.Bool().Draw(t, "ignore daemon sets")
	default:
		if len(n.Pods) == 0 {
			return
		}
		pod := *n.Pods[0]
		n.Pods = slices.Clone(n.Pods[1:])
		pod.Spec.NodeName = w.Nodes[to].Node.Node.Name
		w.Nodes[to].Pods = slices.Concat(w.Nodes[to].Pods, []*v1.Pod{&pod})
	}
}
