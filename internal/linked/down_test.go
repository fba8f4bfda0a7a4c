package linked

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/nodegroupset"
)

// downGroup is a group of a test of scale-down. Names of nodes are those of groups with a number:
// b-3.
type downGroup struct {
	name, set        string
	size, min        int
	going            int // nodes on their way out, empty
	draining         int // and with pods
	whole, throttled bool
}

// deletions are nodes on their way out.
type deletions struct {
	empty, drained []string
	byGroup        map[string]int
}

func (d *deletions) DeletionsInProgress() (empty, drained []string) { return d.empty, d.drained }
func (d *deletions) DeletionsCount(group string) int                { return d.byGroup[group] }

// downCluster is what a scale-down decides on.
type downCluster struct {
	*testCloud
	deletions     *deletions
	clock         *clocktesting.FakePassiveClock
	journal       *Journal
	down          *ScaleDown
	sets          map[string]string
	nodes         map[string]*v1.Node
	limit, drains int // how many may be on their way out
}

func newDownCluster(deferral time.Duration, groups ...downGroup) *downCluster {
	c := &downCluster{
		testCloud: newCloud(), deletions: &deletions{byGroup: map[string]int{}}, clock: clocktesting.NewFakePassiveClock(start),
		sets: map[string]string{}, nodes: map[string]*v1.Node{}, limit: 10, drains: 1,
	}
	c.lost = "lost-0"
	c.journal = NewJournal(c.clock)
	c.down = NewScaleDown(deferral, c.journal)
	for _, g := range groups {
		c.sets[g.name] = g.set
		group := &testGroup{id: g.name, size: g.size, min: g.min, max: 1000, whole: g.whole}
		if g.throttled {
			group.err = fmt.Errorf("throttled")
		}
		c.groups = append(c.groups, group)
		for i := range g.size {
			node := nodeNamed(fmt.Sprintf("%s-%d", g.name, i))
			c.nodes[node.Name], c.groupOf[node.Name] = node, g.name
		}
		for i := range g.going {
			c.deletions.empty = append(c.deletions.empty, fmt.Sprintf("%s-%d", g.name, g.size-1-i))
		}
		for i := range g.draining {
			c.deletions.drained = append(c.deletions.drained, fmt.Sprintf("%s-%d", g.name, g.size-1-g.going-i))
		}
		c.deletions.byGroup[g.name] = g.going + g.draining
	}
	return c
}

func (c *downCluster) setOf(group string) string { return c.sets[group] }

// round makes a round of words such as "b-3", "b-3!" with pods to move, "b-3?" risky too, "b-3~"
// with pods to run to completion, "b-3x" that is not ready.
func (c *downCluster) round(words ...string) []Removable {
	var nodes []Removable
	for _, word := range words {
		name := strings.TrimRight(word, "!?~x")
		node := c.nodes[name]
		if node == nil {
			node = nodeNamed(name)
		}
		nodes = append(nodes, Removable{
			Node: node, Drain: strings.ContainsAny(word, "!?"), Risky: strings.Contains(word, "?"), OnCompletion: strings.Contains(word, "~"),
			Unready: strings.HasSuffix(word, "x"),
		})
	}
	return nodes
}

// decide offers nodes and returns the names of those that go, in order, and of the others why not.
func (c *downCluster) decide(nodes []Removable) (goes string, stays map[string]nodegroupset.ShrinkReason) {
	c.down.Offer(nodes)
	nodes = slices.SortedFunc(slices.Values(nodes), c.down.Compare)
	decision := Round[*testGroup]{
		Cloud: c.testCloud, Deletions: c.deletions, SetOf: c.setOf, Nodes: nodes,
		Limits: func([]int) (int, int) {
			return c.limit - len(c.deletions.empty) - len(c.deletions.drained), c.drains - len(c.deletions.drained)
		},
	}.Decide(c.down)
	var names []string
	for _, i := range decision.Go {
		names = append(names, nodes[i].Node.Name)
	}
	stays = map[string]nodegroupset.ShrinkReason{}
	for _, wait := range decision.Waits {
		stays[nodes[wait.Candidate].Node.Name] = wait.Reason
	}
	return strings.Join(names, " "), stays
}

// after lets time pass and decides on words.
func (c *downCluster) after(d time.Duration, words ...string) string {
	c.clock.SetTime(c.clock.Now().Add(d))
	goes, _ := c.decide(c.round(words...))
	return goes
}

// order returns the nodes of the cluster in the order in which they are tried; busy ones have pods
// to move.
func (c *downCluster) order(seed uint64, busy ...string) []string {
	var all []*v1.Node
	for _, node := range c.nodes {
		all = append(all, node)
	}
	all = ByName(all)
	rand.New(rand.NewPCG(seed, 0)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	order := Candidates[*testGroup]{
		Cloud: c.testCloud, Deletions: c.deletions, SetOf: c.setOf, Moves: func(node *v1.Node) bool { return slices.Contains(busy, node.Name) },
	}
	var names []string
	for _, node := range order.Order(ByName(all)) {
		names = append(names, node.Name)
	}
	return names
}

// downCase is a random cluster with candidates.
type downCase struct {
	groups     []downGroup
	candidates []string
	limits     [2]int
}

func drawDownCase(t *rapid.T) downCase {
	var out downCase
	for _, name := range []string{"a", "b", "c", "d", "x", "w"} {
		g := downGroup{name: name, size: rapid.IntRange(0, 8).Draw(t, name), min: rapid.IntRange(0, 3).Draw(t, "min"), whole: name == "w"}
		if name < "e" {
			g.set = rapid.SampledFrom([]string{"a", "c"}).Draw(t, "set")
		}
		out.groups = append(out.groups, g)
		for i := range g.size {
			kind := rapid.SampledFrom([]string{"", "!", "?", "~", "-", "-", "-"}).Draw(t, "node")
			if kind != "-" && (g.whole || i >= g.min) {
				out.candidates = append(out.candidates, fmt.Sprintf("%s-%d%s", name, i, kind))
			}
		}
	}
	out.limits = [2]int{rapid.IntRange(0, 12).Draw(t, "nodes"), rapid.IntRange(0, 4).Draw(t, "drains")}
	return out
}

func (d downCase) cluster() *downCluster {
	c := newDownCluster(10*time.Minute, d.groups...)
	c.limit, c.drains = d.limits[0], d.limits[1]
	return c
}
