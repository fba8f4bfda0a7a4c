package predicates

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

// twin is a Cluster and the cluster that the oracle keeps of it.
type twin struct {
	t *testing.T
	o *naive
	s *Cluster
	w naiveCluster
}

func (x *twin) place(p *v1.Pod, count, lo, hi int) {
	x.t.Helper()
	var want map[int]int
	x.w, want = x.o.place(x.w, p, count, lo, hi)
	runs, err := x.s.Place(p, count, lo, hi)
	x.same("Place", p, runs, err, want)
}

func (x *twin) placeOnNew(template Node, p *v1.Pod, count, maxNodes int) {
	x.t.Helper()
	var want map[int]int
	x.w, want = x.o.placeOnNew(x.w, template, p, count, maxNodes)
	runs, err := x.s.PlaceOnNew(template, p, count, maxNodes)
	x.same("PlaceOnNew", p, runs, err, want)
}

func (x *twin) same(call string, p *v1.Pod, runs []Placement, err error, want map[int]int) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
	got := map[int]int{}
	for _, r := range runs {
		for id := r.First; id < r.First+r.Nodes; id++ {
			got[id] += r.PerNode
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		x.t.Fatalf("%s of %s: pods per node differ (-want +got):\n%s\npod: %s", call, p.Name, diff, describe(p))
	}
	x.counts()
}

// counts compares what is on every node.
func (x *twin) counts() {
	x.t.Helper()
	if x.s.Len() != len(x.w) {
		x.t.Fatalf("%d nodes, want %d", x.s.Len(), len(x.w))
	}
	for id, n := range x.w {
		want := 0
		for _, p := range n.Pods {
			if !finished(p) {
				want++
			}
		}
		if got := x.s.nodes[id].pods; got != want {
			x.t.Fatalf("%d pods on node %d, want %d", got, id, want)
		}
	}
}

func describe(p *v1.Pod) string {
	return fmt.Sprintf("labels %v selector %v affinity %+v spread %+v", p.Labels, p.Spec.NodeSelector, p.Spec.Affinity,
		p.Spec.TopologySpreadConstraints)
}

func TestPlacementsEqualTheSchedulerAskedOneByOne(t *testing.T) {
	t.Parallel()
	o, c := newNaive(t), newChecker(t, Options{})
	for seed := range uint64(rounds(t, 800)) {
		d := newDice(seed)
		t.Logf("seed %d", seed)
		replay(t, o, c, d, d.nodes(d.IntN(7)), 7)
	}
}

func TestPlacementsOnEqualNodesEqualTheSchedulerAskedOneByOne(t *testing.T) {
	t.Parallel()
	o, c := newNaive(t), newChecker(t, Options{})
	for seed := range uint64(rounds(t, 600)) {
		d := newDice(1e6 + seed)
		t.Logf("seed %d", seed)
		replay(t, o, c, d, d.fleet(), 14)
	}
}

// Pods with spread constraints, again and again: their counts are kept from call
// to call.
func TestPlacementsOfSpreadPodsEqualTheSchedulerAskedOneByOne(t *testing.T) {
	t.Parallel()
	o, c := newNaive(t), newChecker(t, Options{})
	for seed := range uint64(rounds(t, 600)) {
		d := newDice(2e6 + seed)
		t.Logf("seed %d", seed)
		d.spreadOnly = true
		replay(t, o, c, d, d.fleet(), 14)
	}
}

// Pods without constraints of their own have those of the profile, with the selectors of their
// services and owners.
func TestPlacementsUnderDefaultConstraintsEqualTheSchedulerAskedOneByOne(t *testing.T) {
	t.Parallel()
	for i, constraints := range []string{
		"{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}",
		"{maxSkew: 2, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 1, topologyKey: pool, " +
			"whenUnsatisfiable: ScheduleAnyway}",
		"{maxSkew: 1, topologyKey: pool, whenUnsatisfiable: DoNotSchedule, nodeTaintsPolicy: Honor, matchLabelKeys: [tier]}, " +
			"{maxSkew: 3, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, minDomains: 3}",
	} {
		configuration := listDefaults(constraints)
		o, c := newConfigured(t, configuration, owners()...), newChecker(t, Options{Configuration: configuration, Objects: owners()})
		for seed := range uint64(rounds(t, 200)) {
			d := newDice(3e6 + 1000*uint64(i) + seed)
			t.Logf("constraints %d, seed %d", i, seed)
			d.owned = true
			replay(t, o, c, d, d.fleet(), 14)
		}
	}
}

// listDefaults is a scheduler configuration with default constraints.
func listDefaults(constraints string) []byte {
	return []byte(schedulerHeader +
		"profiles:\n- pluginConfig:\n  - name: PodTopologySpread\n    args: {defaultingType: List, defaultConstraints: [" + constraints + "]}\n")
}

func hardSpread(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Spec.TopologySpreadConstraints, func(c v1.TopologySpreadConstraint) bool {
		return c.WhenUnsatisfiable == v1.DoNotSchedule
	})
}

// replay runs random operations on a Cluster and on the oracle's copy of it.
func replay(t *testing.T, o *naive, c *Checker, d *dice, nodes []Node, most int) {
	t.Helper()
	x := &twin{t: t, o: o, s: c.Cluster(nodes), w: naiveCluster(nodes).copy()}
	templates := []Node{d.template(), d.template()}
	p := d.pod()
	for range 6 {
		if d.one(2) {
			p = d.pod() // else more of the same, as an estimate asks
		}
		for d.spreadOnly && !hardSpread(p) {
			p = d.pod()
		}
		switch count := 1 + d.IntN(most); d.IntN(6) {
		case 0:
			x.placeOnNew(templates[d.IntN(2)], p, count, d.IntN(5))
		case 1:
			template := templates[d.IntN(2)]
			for range 2 {
				x.w = append(x.w, o.copyOf(template, len(x.w)))
			}
			x.s.AddCopies(template, 2)
		case 2:
			kept := *x
			kept.s, kept.w = x.s.Fork(), x.w.copy()
			x.place(p, count, 0, len(x.w))
			kept.counts()
			if d.one(2) {
				kept.place(p, count, 0, len(kept.w))
			}
			if d.one(2) {
				*x = kept
			}
		case 3:
			lo := d.IntN(len(x.w) + 1)
			x.place(p, count, lo, lo+d.IntN(len(x.w)-lo+1))
		default:
			x.place(p, count, 0, len(x.w))
		}
	}
	sameFits(t, o, c, x.w, x.s, templates[:1], []*v1.Pod{d.pod(), d.pod()})
}
