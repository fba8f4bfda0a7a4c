package nodegroupset

import (
	"errors"
	"maps"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/evenkeel/evenkeel/apportion"
	"github.com/evenkeel/evenkeel/cloudprovider"
)

// boughtFleet has an on-demand and a spot group in two zones, and two groups of another kind.
func boughtFleet() map[string]*v1.Node {
	node := func(bought, cpu string) *v1.Node {
		size := v1.ResourceList{"cpu": resource.MustParse(cpu), "memory": resource.MustParse("8Gi")}
		return &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"bought": bought}},
			Status:     v1.NodeStatus{Capacity: size, Allocatable: size},
		}
	}
	return map[string]*v1.Node{
		"od-a": node("on-demand", "4"), "od-b": node("on-demand", "4"),
		"spot-a": node("spot", "4"), "spot-b": node("spot", "8"),
		"x": node("gpu", "4"), "y": node("gpu", "4"),
	}
}

func boughtPolicy() SetPolicy {
	return SetPolicy{Name: "web", Policy: Proportional, Measure: ByCPU, Portions: []PortionPolicy{
		{Portion: Portion{Name: "on-demand", Groups: []string{"od-b", "od-a"}, Weight: 20, Base: 2000}},
		{Portion: Portion{Name: "spot", Weight: 80}, Selector: labels.SelectorFromSet(labels.Set{"bought": "spot"})},
	}}
}

func TestDeclaredSetsJoinGroupsThatDiffer(t *testing.T) {
	nodes := boughtFleet()
	x, err := NewIndex(Options{Policies: []SetPolicy{boughtPolicy()}})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		if err := x.Set(name, cloudprovider.Template{Node: nodes[name]}); err != nil {
			t.Fatal(err)
		}
	}
	if diff := gocmp.Diff([][]string{{"od-a", "od-b", "spot-a", "spot-b"}, {"x", "y"}}, x.Sets()); diff != "" {
		t.Errorf("sets (-want +got):\n%s", diff)
	}
	if got := x.Similar("spot-b"); !slices.Equal(got, []string{"od-a", "od-b", "spot-a"}) || !x.AreSimilar("od-a", "spot-b") ||
		x.AreSimilar("od-a", "x") {
		t.Errorf("similar to spot-b: %v", got)
	}
	for name := range nodes {
		alike, _ := x.Alike(name)
		if got := x.Similar(name); len(alike) != len(got)+1 {
			t.Errorf("%s: Similar %v, Alike %v", name, got, alike)
		}
	}
	if got := x.Differences("od-a", "spot-b"); got != nil {
		t.Errorf("members of a declared set differ: %v", got)
	}
	if got := DiffersBy(x.Differences("x", "od-a")); got != "differs by policy: none against web" {
		t.Error(got)
	}
	if got := x.Explain().Sets; len(got) != 2 || got[0].Policy != "web, Proportional by CPU: on-demand 20 after a base of 2, spot 80" ||
		got[1].Policy != "" {
		t.Errorf("explained sets: %+v", got)
	}
	x.Delete("spot-a")
	if got := x.Similar("spot-b"); !slices.Equal(got, []string{"od-a", "od-b"}) {
		t.Errorf("without spot-a: %v", got)
	}
}

func TestTermsOfADeclaredSet(t *testing.T) {
	terms := Options{Policies: []SetPolicy{boughtPolicy()}}.Declared(boughtFleet())
	want := &Terms{
		Set: "web", Policy: Proportional, Measure: ByCPU,
		Portions: []Portion{
			{Name: "on-demand", Groups: []string{"od-a", "od-b"}, Weight: 20, Base: 2000},
			{Name: "spot", Groups: []string{"spot-a", "spot-b"}, Weight: 80},
		},
		Capacity: map[string]int64{"od-a": 4000, "od-b": 4000, "spot-a": 4000, "spot-b": 8000},
	}
	if diff := gocmp.Diff(want, terms["spot-b"]); diff != "" || len(terms) != 4 || terms["od-a"] != terms["spot-b"] {
		t.Errorf("%d terms (-want +got):\n%s", len(terms), diff)
	}
	if got := terms["od-a"].String(); got != "Proportional by CPU: on-demand 20 after a base of 2, spot 80" {
		t.Error(got)
	}
	request := want.Of(SplitRequest{Nodes: 3, Groups: []Group{{Name: "od-a", Max: 9}, {Name: "spot-b", Max: 9}}}, "od-a")
	result, err := Split(request)
	if err != nil || !slices.Equal(sizesOf(result), []int64{1, 1}) {
		t.Errorf("3 nodes of 4 cores: %+v, %v; want one of 4 and one of 8", result, err)
	}
}

func TestPoliciesThatDoNotSuitTheGroupsAreRefused(t *testing.T) {
	for path, change := range map[string]func(p *SetPolicy) []SetPolicy{
		"sets[0].portions[0].groups[1]": func(p *SetPolicy) []SetPolicy {
			p.Portions[0].Groups[1] = "od-z"
			return []SetPolicy{*p}
		},
		"sets[0].portions[1].selector": func(p *SetPolicy) []SetPolicy {
			p.Portions[1].Selector = labels.Everything()
			return []SetPolicy{*p}
		},
		"sets[1].portions[0].groups[0]": func(p *SetPolicy) []SetPolicy {
			return []SetPolicy{*p, {Name: "other", Portions: []PortionPolicy{{Portion: Portion{Groups: []string{"spot-a"}}}}}}
		},
	} {
		p := boughtPolicy()
		err := CheckPolicies(change(&p), boughtFleet())
		var invalid *apportion.InvalidError
		if !errors.As(err, &invalid) || invalid.Path != path {
			t.Errorf("error %v, want one at %s", err, path)
		}
	}
	if err := CheckPolicies([]SetPolicy{boughtPolicy()}, boughtFleet()); err != nil {
		t.Error(err)
	}
}
