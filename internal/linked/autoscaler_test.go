package linked

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/podfit"
)

// A testGroup is a node group of an autoscaler that exists in these tests only.
type testGroup struct {
	id             string
	size, min, max int
	whole          bool  // it goes from nothing to its maximum and back only
	err            error // of its size
}

func (g *testGroup) Id() string               { return g.id } //nolint:revive,staticcheck // as NodeGroup has it
func (g *testGroup) MinSize() int             { return g.min }
func (g *testGroup) MaxSize() int             { return g.max }
func (g *testGroup) TargetSize() (int, error) { return g.size, g.err }

// A testTemplate is what such an autoscaler has for a template.
type testTemplate struct {
	node *v1.Node
	pods []*v1.Pod
}

func (t *testTemplate) read() Template {
	out := Template{Node: t.node, Pods: func() []*v1.Pod { return t.pods }, Requested: podfit.Resources{}}
	for _, pod := range t.pods {
		out.Requested.Add(1, podfit.Requests(pod))
	}
	return out
}

// testCloud is the cloud of such an autoscaler with the templates of a loop. It counts how often it
// is asked for its groups.
type testCloud struct {
	groups    []*testGroup
	byID      map[string]*testGroup // of groups, where there are many
	groupOf   map[string]string     // by node
	lost      string                // the node whose group cannot be found
	asked     int
	templates map[string]*testTemplate
	loop      int
}

var _ Cloud[*testGroup] = &testCloud{}

func newCloud() *testCloud {
	return &testCloud{groupOf: map[string]string{}, templates: map[string]*testTemplate{}}
}

func (c *testCloud) NodeGroups() []*testGroup {
	c.asked++
	return slices.Clone(c.groups)
}

// index makes a cloud of many groups, to which none is added any more, find them quickly.
func (c *testCloud) index() {
	c.byID = map[string]*testGroup{}
	for _, g := range c.groups {
		c.byID[g.id] = g
	}
}

func (c *testCloud) find(id string) *testGroup {
	if c.byID != nil {
		return c.byID[id]
	}
	if i := slices.IndexFunc(c.groups, func(g *testGroup) bool { return g.id == id }); i >= 0 {
		return c.groups[i]
	}
	return nil
}

func (c *testCloud) NodeGroupForNode(node *v1.Node) (*testGroup, error) {
	if node.Name == c.lost {
		return nil, errors.New("lost")
	}
	return c.find(c.groupOf[node.Name]), nil
}

func (c *testCloud) ZeroOrMax(g *testGroup) (bool, error) { return g.whole, nil }

func (c *testCloud) add(id string) { c.groups = append(c.groups, &testGroup{id: id, max: 10}) }

func (c *testCloud) remove(id string) {
	c.groups = slices.DeleteFunc(c.groups, func(g *testGroup) bool { return g.id == id })
}

// template makes the template of a group, with a name and hostname that no other has.
func (c *testCloud) template(id, pool string, change ...func(*v1.Node)) {
	c.loop++
	amounts := func() v1.ResourceList {
		return v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"),
			v1.ResourcePods: resource.MustParse("100")}
	}
	node := &v1.Node{Status: v1.NodeStatus{Capacity: amounts(), Allocatable: amounts()}}
	node.Labels = map[string]string{"pool": pool}
	node.Status.NodeInfo.KubeletVersion = "v1.36.3"
	for _, change := range change {
		change(node)
	}
	c.templates[id] = &testTemplate{node: node}
	c.rename(id)
}

func (c *testCloud) rename(id string) {
	node := c.templates[id].node
	node.Name = fmt.Sprintf("template-%s-%d", id, c.loop)
	node.Labels[v1.LabelHostname] = node.Name
}

func (c *testCloud) group(id, pool string, change ...func(*v1.Node)) {
	c.add(id)
	c.template(id, pool, change...)
}

// next begins a loop: all templates are made anew, and so is their map.
func (c *testCloud) next() {
	c.loop++
	c.templates = maps.Clone(c.templates)
	for id, template := range c.templates {
		c.templates[id] = &testTemplate{template.node.DeepCopy(), template.pods}
		c.rename(id)
	}
}

type testSets = Sets[*testTemplate, *testGroup]

// similar are the names of the groups similar to one, sorted.
func (c *testCloud) similar(s *testSets, id string) []string {
	out := []string{}
	for _, group := range s.Similar(id, c.templates, c) {
		out = append(out, group.id)
	}
	slices.Sort(out)
	return out
}

var start = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

func newSets(t rapid.TB, change ...func(*Flags)) *testSets {
	t.Helper()
	flags := Flags{MemoryRatio: 0.015, AllocatableRatio: 0.05, FreeRatio: 0.05}
	for _, change := range change {
		change(&flags)
	}
	options, err := flags.Similarity()
	if err != nil {
		t.Fatal(err)
	}
	s, err := NewSets[*testTemplate, *testGroup](options, (*testTemplate).read, NewJournal(clocktesting.NewFakePassiveClock(start)))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantNames(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func nodeNamed(name string) *v1.Node { return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
