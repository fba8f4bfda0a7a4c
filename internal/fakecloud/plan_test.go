package fakecloud

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"
)

const owner = "fleet"

// machine is a node of the cloud.
func machine(name string, ready v1.ConditionStatus) *v1.Node {
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name}},
		Spec:       v1.NodeSpec{ProviderID: "fake://g/" + name},
		Status: v1.NodeStatus{
			Capacity:   v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")},
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}},
		},
	}
}

// registered is the Node object of a machine, as it looks in the API server.
func registered(name string, ready v1.ConditionStatus, changes ...func(*v1.Node)) *v1.Node {
	v := view{owner: owner}
	n := v.object(machine(name, ready))
	n.UID = types.UID("uid-" + name)
	for _, change := range changes {
		change(n)
	}
	return n
}

func ofSomebodyElse(n *v1.Node) { delete(n.Annotations, OwnerAnnotation) }
func leaving(n *v1.Node)        { n.DeletionTimestamp = &metav1.Time{} }
func larger(n *v1.Node)         { n.Status.Capacity[v1.ResourceCPU] = resource.MustParse("4") }
func relabelled(n *v1.Node)     { n.Labels["team"] = "blue" }
func movedTo(id string) func(*v1.Node) {
	return func(n *v1.Node) { n.Spec.ProviderID = id }
}

func TestPlan(t *testing.T) {
	const yes, no, unknown = v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown
	one := func(n *v1.Node) []*v1.Node { return []*v1.Node{n} }
	for _, tc := range []struct {
		name            string
		desired, actual []*v1.Node
		held            []string
		inherited       bool
		want            []string
	}{
		{name: "nothing"},
		{name: "a node that came ready", desired: one(machine("a", yes)), want: []string{"a: create True"}},
		{name: "a node that came and boots", desired: one(machine("a", no)), want: []string{"a: hold, create False"}},
		{name: "a node that came and boots, the lease is held already", desired: one(machine("a", no)), held: []string{"a"},
			want: []string{"a: create False"}},
		{name: "a node as it should be", desired: one(machine("a", yes)), actual: one(registered("a", yes))},
		{name: "a node that kwok has lost is kwok's", desired: one(machine("a", yes)), actual: one(registered("a", unknown))},
		{name: "a node that still boots", desired: one(machine("a", no)), actual: one(registered("a", no)), held: []string{"a"}},
		{name: "a node that boots and is given up by the control plane", desired: one(machine("a", no)), actual: one(registered("a", unknown)),
			held: []string{"a"}},
		{name: "a node that has booted", desired: one(machine("a", yes)), actual: one(registered("a", no)), held: []string{"a"},
			want: []string{"a: ready True, release"}},
		{name: "a node whose release failed", desired: one(machine("a", yes)), actual: one(registered("a", yes)), held: []string{"a"},
			want: []string{"a: ready True, release"}},
		{name: "a node whose zone goes down", desired: one(machine("a", unknown)), actual: one(registered("a", yes)),
			want: []string{"a: hold, ready Unknown"}},
		{name: "a node that is down and was made ready", desired: one(machine("a", unknown)), actual: one(registered("a", yes)),
			held: []string{"a"}, want: []string{"a: ready Unknown, contested"}},
		{name: "a node that boots and was made ready", desired: one(machine("a", no)), actual: one(registered("a", yes)), held: []string{"a"},
			want: []string{"a: ready False, contested"}},
		{name: "a node that booted when its zone went down", desired: one(machine("a", unknown)), actual: one(registered("a", no)),
			held: []string{"a"}, want: []string{"a: ready Unknown"}},
		{name: "a node whose zone comes back", desired: one(machine("a", yes)), actual: one(registered("a", unknown)), held: []string{"a"},
			want: []string{"a: ready True, release"}},
		{name: "a node that went", actual: one(registered("a", yes)), want: []string{"a: remove"}},
		{name: "a node that went while it booted", actual: one(registered("a", no)), held: []string{"a"}, want: []string{"a: remove, release"}},
		{name: "a lease without a node", held: []string{"a"}, want: []string{"a: release"}},
		{name: "a node on its way out", actual: one(registered("a", yes, leaving))},
		{name: "a node on its way out that is wanted", desired: one(machine("a", yes)), actual: one(registered("a", yes, leaving))},
		{name: "a node of somebody else", actual: one(registered("a", yes, ofSomebodyElse))},
		{name: "the name is somebody else's", desired: one(machine("a", no)), actual: one(registered("a", yes, ofSomebodyElse)),
			want: []string{"a: foreign"}},
		{name: "others may change nodes", desired: one(machine("a", yes)), actual: one(registered("a", yes, larger, relabelled))},
		{name: "an equal node of an earlier run", desired: one(machine("a", yes)), actual: one(registered("a", yes, relabelled)),
			inherited: true},
		{name: "a larger node of an earlier run", desired: one(machine("a", yes)), actual: one(registered("a", yes, larger)), inherited: true,
			want: []string{"a: remove"}},
		{name: "a node of another group of an earlier run", desired: one(machine("a", yes)),
			actual: one(registered("a", yes, movedTo("fake://h/a"))), inherited: true, want: []string{"a: remove"}},
		{
			name:    "those that go come first",
			desired: []*v1.Node{machine("c", yes), machine("b", yes)}, actual: []*v1.Node{registered("z", yes), registered("y", yes)},
			want: []string{"y: remove", "z: remove", "c: create True", "b: create True"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := view{owner: owner, desired: tc.desired, actual: map[string]*v1.Node{}, held: map[string]types.UID{},
				inherited: sets.New[types.UID]()}
			for _, n := range tc.actual {
				v.actual[n.Name] = n
				if tc.inherited {
					v.inherited.Insert(n.UID)
				}
			}
			for _, name := range tc.held {
				v.held[name] = types.UID("lease-" + name)
			}
			var got []string
			for _, s := range plan(v) {
				got = append(got, s.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestObjectIsTheClouds(t *testing.T) {
	n := machine("a", v1.ConditionFalse)
	n.UID, n.ResourceVersion, n.Finalizers, n.Spec.PodCIDR = "1", "2", []string{"x/y"}, "10.0.0.0/24"
	n.Labels[v1.LabelArchStable] = "arm64"
	n.Annotations = map[string]string{"color": "red"}
	n.Spec.Taints = []v1.Taint{
		{Key: "dedicated", Effect: v1.TaintEffectNoSchedule},
		{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule},
		{Key: v1.TaintNodeUnreachable, Effect: v1.TaintEffectNoExecute},
	}
	v := view{owner: owner}
	got := v.object(n)
	want := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", Labels: map[string]string{v1.LabelHostname: "a", v1.LabelArchStable: "arm64"},
			Annotations: map[string]string{"color": "red", OwnerAnnotation: owner, "kwok.x-k8s.io/node": "fake"},
		},
		Spec: v1.NodeSpec{ProviderID: "fake://g/a", Taints: []v1.Taint{{Key: "dedicated", Effect: v1.TaintEffectNoSchedule}}},
		Status: v1.NodeStatus{
			Capacity: n.Status.Capacity, Conditions: n.Status.Conditions, Phase: v1.NodeRunning,
			NodeInfo: v1.NodeSystemInfo{Architecture: "arm64", OperatingSystem: "linux", KubeletVersion: "fake", ContainerRuntimeVersion: "fake"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(n.Annotations) != 1 {
		t.Error("the cloud's node was changed")
	}
}

// Done once, a plan leaves nothing to do: neither for nodes as they are wanted
// nor for leases. Nodes of somebody else stay.
func TestPlanConverges(t *testing.T) {
	status := rapid.SampledFrom([]v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown})
	name := rapid.StringMatching("[a-e]")
	rapid.Check(t, func(t *rapid.T) {
		v := view{owner: owner, actual: map[string]*v1.Node{}, held: map[string]types.UID{}}
		foreign := sets.New[string]()
		actual := rapid.MapOf(name, status).Draw(t, "actual")
		for _, name := range slices.Sorted(maps.Keys(actual)) {
			v.actual[name] = registered(name, actual[name])
			if rapid.Bool().Draw(t, "foreign") {
				ofSomebodyElse(v.actual[name])
				foreign.Insert(name)
			}
		}
		for _, name := range rapid.SliceOfDistinct(name, rapid.ID).Draw(t, "held") {
			v.held[name] = types.UID("lease-" + name)
		}
		wanted := rapid.MapOf(name, status).Draw(t, "desired")
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			v.desired = append(v.desired, machine(name, wanted[name]))
		}
		for _, s := range plan(v) {
			do(&v, s)
		}
		for _, s := range plan(v) {
			if !s.foreign && !foreign.Has(s.name) {
				t.Errorf("left to do: %v", s)
			}
		}
		for name := range foreign {
			if n := v.actual[name]; n == nil || v.owns(n) {
				t.Errorf("%s of somebody else was touched", name)
			}
		}
		for name, ready := range wanted {
			if _, held := v.held[name]; !foreign.Has(name) && held == (ready == v1.ConditionTrue) {
				t.Errorf("%s is to be %s, its lease is held: %v", name, ready, held)
			}
		}
	})
}

// do does a step as the API server would.
func do(v *view, s step) {
	if s.hold {
		v.held[s.name] = types.UID("lease-" + s.name)
	}
	if s.create != nil {
		v.actual[s.name] = s.create
	}
	if s.remove != "" {
		delete(v.actual, s.name)
	}
	if s.ready != nil {
		v.actual[s.name].Status.Conditions = []v1.NodeCondition{*s.ready}
	}
	if s.release != "" {
		delete(v.held, s.name)
	}
}

// String tells the parts of a step, for tests.
func (s step) String() string {
	var parts []string
	add := func(needed bool, part string) {
		if needed {
			parts = append(parts, part)
		}
	}
	add(s.foreign, "foreign")
	add(s.hold, "hold")
	if s.create != nil {
		add(true, "create "+string(readyOf(s.create).Status))
	}
	add(s.remove != "", "remove")
	if s.ready != nil {
		add(true, "ready "+string(s.ready.Status))
	}
	add(s.release != "", "release")
	add(s.contested, "contested")
	return s.name + ": " + strings.Join(parts, ", ")
}
