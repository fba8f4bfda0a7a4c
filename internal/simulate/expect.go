package simulate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// expectations checks the report against spec.expect.
func (s *simulation) expectations(r *v1alpha1.ScenarioReport) []v1alpha1.Expectation {
	e := s.setup.Expect
	if e == nil {
		return nil
	}
	c := &checks{status: &r.Status, sizes: map[string]int{}}
	for _, g := range r.Status.Groups {
		c.sizes[g.Name] = g.After
	}
	for _, name := range slices.Sorted(maps.Keys(e.Sizes)) {
		c.equal(fmt.Sprintf("sizes[%s]", name), int(e.Sizes[name]), c.sizes[name])
	}
	c.equalIfGiven("running", e.Running, r.Status.Running)
	c.equalIfGiven("pending", e.Pending, r.Status.Pending)
	if e.Sets != nil {
		c.sets(e.Sets)
	}
	for i, d := range e.MaxDifference {
		c.difference(i, d)
	}
	for _, skew := range e.Skew {
		c.atMost(fmt.Sprintf("skew[%s]", skew.Workload), int(skew.Pods), s.skew(skew))
	}
	if e.MaxRounds != nil {
		c.atMost("maxRounds", int(*e.MaxRounds), r.Status.ScaleUps)
	}
	c.equalIfGiven("nodesOrdered", e.NodesOrdered, r.Status.NodesOrdered)
	c.equalIfGiven("nodesScaledDown", e.NodesScaledDown, r.Status.NodesScaledDown)
	c.subsets(e.Subsets, r.Status.WorkloadSpreads)
	for i, text := range e.Reasons {
		found := inReport(&r.Status, text)
		c.add(fmt.Sprintf("reasons[%d]", i), strconv.Quote(text), map[bool]string{true: "found", false: "not found"}[found], found)
	}
	return c.results
}

// checks collects results.
type checks struct {
	status  *v1alpha1.ScenarioReportStatus
	sizes   map[string]int
	results []v1alpha1.Expectation
}

func (c *checks) add(check, want, got string, ok bool) {
	c.results = append(c.results, v1alpha1.Expectation{Check: check, Want: want, Got: got, OK: ok})
}

func (c *checks) equal(check string, want, got int) {
	c.add(check, strconv.Itoa(want), strconv.Itoa(got), want == got)
}

func (c *checks) equalIfGiven(check string, want *int32, got int) {
	if want != nil {
		c.equal(check, int(*want), got)
	}
}

func (c *checks) atMost(check string, want, got int) {
	c.add(check, "at most "+strconv.Itoa(want), strconv.Itoa(got), got <= want)
}

func (c *checks) subsets(want map[string]map[string]int32, spreads []v1alpha1.WorkloadSpreadReport) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		got := map[string]int{}
		for i := range spreads {
			if s := &spreads[i]; s.Name == name || s.Name == orDefault("")+"/"+name {
				got[""] = s.Unassigned
				for _, subset := range s.Subsets {
					got[subset.Name] = subset.Running + subset.Pending
				}
			}
		}
		for _, subset := range slices.Sorted(maps.Keys(want[name])) {
			c.equal(fmt.Sprintf("subsets[%s][%s]", name, subset), int(want[name][subset]), got[subset])
		}
	}
}

// sets compares sets; the result has only those that are on one side.
func (c *checks) sets(want [][]string) {
	expected, found := asTexts(want), asTexts(c.status.Sets)
	if expected.Equal(found) {
		c.equal("sets", len(want), len(c.status.Sets))
		return
	}
	only := func(a, b sets.Set[string]) string { return strings.Join(sets.List(a.Difference(b)), " ") }
	c.add("sets", only(expected, found), only(found, expected), false)
}

func asTexts(all [][]string) sets.Set[string] {
	texts := sets.New[string]()
	for _, set := range all {
		texts.Insert(strings.Join(slices.Sorted(slices.Values(set)), ","))
	}
	return texts
}

// difference compares the sizes of the named groups; without names, of every set.
func (c *checks) difference(i int, d v1alpha1.ExpectDifference) {
	compared := [][]string{d.Groups}
	if len(d.Groups) == 0 {
		compared = c.status.Sets
	}
	worst := 0
	for _, set := range compared {
		sizes := map[string]int{}
		for _, name := range set {
			sizes[name] = c.sizes[name]
		}
		worst = max(worst, apart(sizes))
	}
	c.atMost(fmt.Sprintf("maxDifference[%d]", i), int(d.Nodes), worst)
}

// skew returns the largest minus the smallest number of running pods of a workload over the domains
// that have a ready node.
func (s *simulation) skew(e v1alpha1.ExpectSkew) int {
	key := cmp.Or(e.TopologyKey, v1.LabelTopologyZone)
	pods := map[string]int{}
	for _, n := range s.cluster.nodes {
		if domain, ok := n.object.Labels[key]; ok && n.ready {
			pods[domain] += 0
		}
	}
	for _, p := range s.cluster.pods {
		if p.node != nil && p.owner != nil && p.owner.Name == e.Workload {
			pods[p.node.object.Labels[key]]++
		}
	}
	return apart(pods)
}

// inReport reports whether a text occurs in the report: in the timeline, in a group's
// reason or template, or in the reason of pods still pending or nodes still there.
func inReport(status *v1alpha1.ScenarioReportStatus, text string) bool {
	var all []string
	for i := range status.Timeline {
		all = append(all, status.Timeline[i].Text)
	}
	for i := range status.Groups {
		all = append(all, status.Groups[i].Why, status.Groups[i].Template)
	}
	for _, n := range status.WaitingNodes {
		all = append(all, n.Reason)
	}
	for _, p := range status.PendingPods {
		all = append(all, p.Reason)
	}
	return slices.ContainsFunc(all, func(one string) bool { return strings.Contains(one, text) })
}
