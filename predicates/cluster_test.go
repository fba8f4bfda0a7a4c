package predicates

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
)

func placed(t *testing.T, want ...Placement) func(runs []Placement, err error) {
	return func(runs []Placement, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, runs); diff != "" {
			t.Errorf("placements -want +got:\n%s", diff)
		}
	}
}

func TestPlaceFillsInIDOrder(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	full := aPod(asking("cpu", "4"))
	mixed := func() *Cluster {
		return c.Cluster([]Node{aNode("n0"), aNode("n1").carrying(full), aNode("n2", cordoned), aNode("n3"), aNode("n4", tainted("x")),
			aNode("n5", offering("cpu", "2"))})
	}
	for name, tc := range map[string]struct {
		pod           *v1.Pod
		count, lo, hi int
		want          []Placement
	}{
		"some of one node":            {aPod(), 3, 0, 6, []Placement{{0, 1, 3}}},
		"over many":                   {aPod(), 9, 0, 6, []Placement{{0, 1, 4}, {3, 1, 4}, {5, 1, 1}}},
		"all":                         {aPod(), 99, 0, 6, []Placement{{0, 1, 4}, {3, 1, 4}, {5, 1, 2}}},
		"a range":                     {aPod(), 99, 2, 4, []Placement{{3, 1, 4}}},
		"an empty range":              {aPod(), 99, 3, 3, nil},
		"none":                        {aPod(), 0, 0, 6, nil},
		"fewer than none":             {aPod(), -1, 0, 6, nil},
		"one per node":                {aPod(apartOver(v1.LabelHostname)), 99, 3, 6, []Placement{{3, 1, 1}, {5, 1, 1}}},
		"repelled by what is there":   {aPod(asking("cpu", "0"), apartOver(v1.LabelHostname)), 99, 0, 2, []Placement{{0, 1, 1}}},
		"one port per node":           {aPod(hostPort(80)), 99, 0, 6, []Placement{{0, 1, 1}, {3, 1, 1}, {5, 1, 1}}},
		"the pod limit":               {aPod(asking()), 99, 0, 1, []Placement{{0, 1, 10}}},
		"too large":                   {aPod(asking("cpu", "5")), 99, 0, 6, nil},
		"by hostname":                 {aPod(selecting(v1.LabelHostname, "n3")), 99, 0, 6, []Placement{{3, 1, 4}}},
		"by match field":              {aPod(matchingField("n3")), 99, 0, 6, []Placement{{3, 1, 4}}},
		"even over hosts that fit it": {aPod(spread(v1.LabelHostname, 1)), 99, 0, 6, []Placement{{0, 1, 1}, {3, 1, 1}, {5, 1, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			placed(t, tc.want...)(mixed().Place(tc.pod, tc.count, tc.lo, tc.hi))
		})
	}
}

// The plugin's own update for an added pod knows the two least domains only and
// would let a second pod into zone a while zone c has none.
func TestSpreadOverThreeZonesKeepsTheTrueMinimum(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	s := c.Cluster([]Node{aNode("a", zoned("a")), aNode("b", zoned("b")), aNode("c", zoned("c"))})
	p := aPod(spread(v1.LabelTopologyZone, 1))
	placed(t, Placement{0, 2, 1})(s.Place(p, 9, 0, 2))
	placed(t, Placement{2, 1, 2})(s.Place(p, 9, 2, 3))
	placed(t, Placement{0, 2, 2})(s.Place(p, 9, 0, 2))
}

func TestMinDomainsOverHostsCountsEveryHost(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	p := aPod(spread(v1.LabelHostname, 1, minDomains(4)))
	placed(t, Placement{0, 3, 1})(c.Cluster(nodesOf(3)).Place(p, 99, 0, 3))
	placed(t, Placement{0, 4, 4})(c.Cluster(nodesOf(4)).Place(p, 99, 0, 4))
	placed(t, Placement{0, 5, 4})(c.Cluster(nodesOf(5)).Place(p, 99, 0, 5))
}

func TestPodsRepelAcrossNodesThatShareAHostname(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	group := nodeLabel(v1.LabelHostname, "group")
	s := c.Cluster(nodesOf(3, group))
	placed(t, Placement{0, 1, 1})(s.Place(aPod(apartOver(v1.LabelHostname)), 9, 0, 3))
	placed(t)(s.Place(aPod(), 9, 0, 3))
	s = c.Cluster(nodesOf(3, group))
	placed(t, Placement{0, 1, 4})(s.Place(aPod(podLabel("app", "db")), 4, 0, 3))
	placed(t, Placement{1, 1, 1})(s.Place(aPod(apartOver(v1.LabelHostname)), 9, 0, 3))
	placed(t)(s.Place(aPod(asking()), 9, 0, 3))
}

func TestPlaceOnNewOpensWhatIsNeeded(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	daemon := aPod(podLabel("app", "daemon"), asking("cpu", "500m"))
	template := aNode("t", zoned("a")).carrying(daemon)
	for name, tc := range map[string]struct {
		on         []Node
		pod        *v1.Pod
		count, max int
		want       []Placement
	}{
		"as many as needed":     {nil, aPod(), 7, 9, []Placement{{0, 2, 3}, {2, 1, 1}}},
		"as many as allowed":    {nil, aPod(), 99, 2, []Placement{{0, 2, 3}}},
		"exactly full":          {nil, aPod(), 6, 9, []Placement{{0, 2, 3}}},
		"nothing to place":      {nil, aPod(), 0, 9, nil},
		"no node allowed":       {nil, aPod(), 9, 0, nil},
		"fewer than none":       {nil, aPod(), 9, -1, nil},
		"does not fit":          {nil, aPod(asking("cpu", "4")), 9, 9, nil},
		"one per node":          {nil, aPod(apartOver(v1.LabelHostname)), 3, 9, []Placement{{0, 3, 1}}},
		"only the new nodes":    {nodesOf(2), aPod(), 4, 9, []Placement{{2, 1, 3}, {3, 1, 1}}},
		"one zone of two":       {[]Node{aNode("b", zoned("b"))}, aPod(spread(v1.LabelTopologyZone, 2)), 99, 9, []Placement{{1, 1, 2}}},
		"the only zone":         {nil, aPod(spread(v1.LabelTopologyZone, 1)), 7, 9, []Placement{{0, 2, 3}, {2, 1, 1}}},
		"even over new hosts":   {nil, aPod(spread(v1.LabelHostname, 1)), 4, 9, []Placement{{0, 1, 3}, {1, 1, 1}}},
		"never on a named node": {nodesOf(1), aPod(selecting(v1.LabelHostname, "t")), 4, 9, nil},
		"together in a zone":    {nil, aPod(togetherOver(v1.LabelTopologyZone)), 7, 9, []Placement{{0, 2, 3}, {2, 1, 1}}},
		"apart in a zone":       {nil, aPod(apartOver(v1.LabelTopologyZone)), 7, 9, []Placement{{0, 1, 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := c.Cluster(tc.on)
			runs, err := s.PlaceOnNew(template, tc.pod, tc.count, tc.max)
			placed(t, tc.want...)(runs, err)
			opened := 0
			for _, r := range tc.want {
				opened += r.Nodes
			}
			if got, want := s.Len(), len(tc.on)+opened; got != want {
				t.Errorf("%d nodes, want %d", got, want)
			}
		})
	}
}

func TestAForkDoesNotLeak(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	base := c.Cluster(nodesOf(4))
	placed(t, Placement{0, 1, 2})(base.Place(aPod(), 2, 0, 4))
	left, right := base.Fork(), base.Fork()
	placed(t, Placement{0, 1, 2}, Placement{1, 1, 4})(left.Place(aPod(), 6, 0, 4))
	placed(t, Placement{4, 2, 4})(left.PlaceOnNew(aNode("t"), aPod(), 8, 2))
	right.Add(aNode("other"))
	right.AddCopies(aNode("t"), 1)
	placed(t, Placement{1, 5, 1})(right.Place(aPod(apartOver(v1.LabelHostname)), 9, 0, 6))
	placed(t, Placement{0, 1, 2}, Placement{1, 3, 4})(base.Place(aPod(), 99, 0, 4))
	for name, tc := range map[string]struct {
		s    *Cluster
		want []int
	}{
		"base": {base, []int{4, 4, 4, 4}}, "left": {left, []int{4, 4, 0, 0, 4, 4}}, "right": {right, []int{2, 1, 1, 1, 1, 1}},
	} {
		var got []int
		for id := range tc.s.Len() {
			got = append(got, tc.s.nodes[id].pods)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: pods per node -want +got:\n%s", name, diff)
		}
	}
}

func TestNodesHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := newChecker(t, Options{}).Cluster(nodesOf(1))
	if first := s.AddCopies(aNode("t"), 2); first != 1 {
		t.Errorf("first copy is node %d, want 1", first)
	}
	if first := s.Add(aNode("real"), aNode("real-2")); first != 3 {
		t.Errorf("first added is node %d, want 3", first)
	}
	if first := s.AddCopies(aNode("t"), 0); first != 5 || s.Len() != 5 {
		t.Errorf("no copies: first %d, %d nodes", first, s.Len())
	}
	var names []string
	for id, st := range s.nodes {
		names = append(names, s.object(id, st).Name)
	}
	if diff := cmp.Diff([]string{"node-0", "t~1", "t~2", "real", "real-2"}, names); diff != "" {
		t.Errorf("names -want +got:\n%s", diff)
	}
	placed(t, Placement{2, 1, 4})(s.Place(aPod(selecting(v1.LabelHostname, "t~2")), 9, 0, 5))
}

func TestLabelsLookedAtLaterTellNodesApartFromThenOn(t *testing.T) {
	t.Parallel()
	s := newChecker(t, Options{}).Cluster([]Node{aNode("a", nodeLabel("pool", "x")), aNode("b"), aNode("c", nodeLabel("pool", "x"))})
	placed(t, Placement{0, 3, 1})(s.Place(aPod(apartOver(v1.LabelHostname)), 3, 0, 3))
	f := s.Fork()
	placed(t, Placement{0, 1, 3}, Placement{2, 1, 3})(s.Place(aPod(podLabel("app", "db"), selecting("pool", "x")), 99, 0, 3))
	placed(t, Placement{0, 3, 3})(f.Place(aPod(podLabel("app", "db")), 99, 0, 3))
}

func TestPlaceRefusesBadInput(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	good := c.Cluster(nodesOf(2))
	place := func(s *Cluster, p *v1.Pod, lo, hi int) error { _, err := s.Place(p, 1, lo, hi); return err }
	onNew := func(s *Cluster, n Node, p *v1.Pod) error { _, err := s.PlaceOnNew(n, p, 1, 1); return err }
	broken := good.Fork()
	broken.AddCopies(Node{}, 1)
	for name, tc := range map[string]struct{ got, want error }{
		"nil pod":              {place(good, nil, 0, 2), ErrNilObject},
		"low too low":          {place(good, aPod(), -1, 2), ErrRange},
		"high too high":        {place(good, aPod(), 0, 3), ErrRange},
		"low above high":       {place(good, aPod(), 2, 1), ErrRange},
		"nil pod on new":       {onNew(good, aNode("t"), nil), ErrNilObject},
		"nil template":         {onNew(good, Node{}, aPod()), ErrNilObject},
		"nil pod on template":  {onNew(good, aNode("t").carrying(nil), aPod()), ErrNilObject},
		"nil node in cluster":  {place(c.Cluster([]Node{{}}), aPod(), 0, 0), ErrNilObject},
		"nil pod in cluster":   {place(c.Cluster([]Node{aNode("n").carrying(nil)}), aPod(), 0, 0), ErrNilObject},
		"nil template added":   {place(broken, aPod(), 0, 2), ErrNilObject},
		"nothing wrong at all": {place(good, aPod(), 0, 2), nil},
	} {
		if !errors.Is(tc.got, tc.want) {
			t.Errorf("%s: %v, want %v", name, tc.got, tc.want)
		}
	}
}

func TestInputsAreNeverChanged(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	for seed := range uint64(60) {
		d := newDice(seed)
		nodes, template, pods := d.fleet(), d.template(), []*v1.Pod{d.pod(), d.pod(), d.pod()}
		var before []*v1.Pod
		var objects []*v1.Node
		for _, n := range append(nodes[:len(nodes):len(nodes)], template) {
			objects = append(objects, n.Node.DeepCopy())
			for _, p := range n.Pods {
				before = append(before, p.DeepCopy())
			}
		}
		for _, p := range pods {
			before = append(before, p.DeepCopy())
		}
		s := c.Cluster(nodes)
		for _, p := range pods {
			if _, err := s.Place(p, 5, 0, s.Len()); err != nil {
				t.Fatal(err)
			}
			if _, err := s.PlaceOnNew(template, p, 5, 3); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Fits([]Node{template}, pods); err != nil {
			t.Fatal(err)
		}
		var after []*v1.Pod
		for i, n := range append(nodes[:len(nodes):len(nodes)], template) {
			if diff := cmp.Diff(objects[i], n.Node); diff != "" {
				t.Fatalf("seed %d: node changed:\n%s", seed, diff)
			}
			after = append(after, n.Pods...)
		}
		if diff := cmp.Diff(before, append(after, pods...)); diff != "" {
			t.Fatalf("seed %d: pod changed:\n%s", seed, diff)
		}
	}
}

func TestCostDoesNotGrowWithEqualPodsOrNodes(t *testing.T) {
	t.Parallel()
	runs := func(pods, nodes int) int64 {
		c := newChecker(t, Options{})
		s := c.Cluster(nil)
		if got, err := s.PlaceOnNew(aNode("t"), aPod(), pods, nodes); err != nil || total(got) != pods {
			t.Fatal(got, err)
		}
		if got, err := s.Place(aPod(asking()), nodes, 0, s.Len()); err != nil || total(got) != nodes {
			t.Fatal(got, err)
		}
		return c.filterRuns
	}
	if small, large := runs(40, 10), runs(40_000, 10_000); large != small {
		t.Errorf("%d Filter runs for 10 nodes, %d for 10,000", small, large)
	}
}

// replace puts another node, with the pods on it, in the place of one.
func (s *Cluster) replace(t *testing.T, id int, n Node) {
	t.Helper()
	s.lock()
	defer s.unlock()
	st, err := s.u.stateOf(n, false)
	if err != nil {
		t.Fatal(err)
	}
	s.set(id, st)
	s.refresh()
}

// TestReplacedNodesAreLookedAtAnew: a fork with a node replaced answers as a
// Cluster made of the nodes as they are then, and the original does not change.
func TestReplacedNodesAreLookedAtAnew(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	for seed := range uint64(rounds(t, 400)) {
		d := newDice(8e6 + seed)
		nodes := d.fleet()
		original := c.Cluster(nodes)
		fork := original.Fork()
		id := d.IntN(len(nodes))
		changed := slices.Clone(nodes)
		changed[id] = Node{Node: nodes[id].Node.DeepCopy()}
		changed[id].Node.Spec.Unschedulable = d.one(2)
		if d.one(2) {
			changed[id].Pods = []*v1.Pod{d.pod()}
		}
		fork.replace(t, id, changed[id])
		p := d.pod()
		for _, same := range []struct {
			name      string
			got, want *Cluster
		}{{"the fork", fork, c.Cluster(changed)}, {"the original", original, c.Cluster(nodes)}} {
			got, err := same.got.Place(p, 5, 0, len(nodes))
			if err != nil {
				t.Fatal(err)
			}
			want, err := same.want.Place(p, 5, 0, len(nodes))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("seed %d: %s places otherwise (-want +got):\n%s\n%s", seed, same.name, diff, describe(p))
			}
		}
	}
}
