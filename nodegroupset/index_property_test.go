package nodegroupset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// randomTemplate draws a template from few shapes, so that many pairs differ in
// nothing or in one thing, and its amounts lie at the edges of the tolerances.
func randomTemplate(r *rand.Rand) cloudprovider.Template {
	t := cloudprovider.Template{Node: &v1.Node{}}
	node := t.Node
	rarely := func(n int) bool { return r.IntN(n) == 0 }
	node.Labels = map[string]string{}
	node.Spec.ProviderID = []string{"", "", "", "aws:///a/i-1", "azure:///x", "kwok:n", "aws", "gce://p"}[r.IntN(8)]
	for _, key := range []string{
		"kubernetes.io/hostname", "topology.k8s.aws/zone-id", "kubernetes.azure.com/agentpool", "lifecycle", "agentpool",
		"kubernetes.azure.com/role",
		"eks.amazonaws.com/nodegroup", "pool", "kops.k8s.io/instancegroup", "example.com/odd",
	} {
		if rarely(12) {
			node.Labels[key] = []string{"", "x"}[r.IntN(2)]
		}
	}
	if arch := r.IntN(8); arch > 0 {
		node.Labels["kubernetes.io/arch"] = "amd64"
		if arch > 5 {
			node.Labels["beta.kubernetes.io/arch"] = []string{"amd64", "arm64"}[arch-6]
		}
	} else {
		node.Labels["beta.kubernetes.io/arch"] = "amd64"
	}
	for range r.IntN(3) {
		if rarely(4) {
			node.Spec.Taints = append(node.Spec.Taints, v1.Taint{
				Key: "dedicated", Value: []string{"", "gpu"}[r.IntN(2)], Effect: []v1.TaintEffect{"NoSchedule", "NoExecute"}[r.IntN(2)],
			})
		}
	}
	node.Status.Capacity = v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("4"),
		v1.ResourceMemory: nearEdge(r, 16<<30, 15, 1000),
		v1.ResourcePods:   resource.MustParse("58"),
	}
	node.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU:    nearEdge(r, 4000, 5, 100),
		v1.ResourceMemory: nearEdge(r, 15<<30, 5, 100),
		v1.ResourcePods:   resource.MustParse("58"),
	}
	scaleMilli(node.Status.Allocatable, v1.ResourceCPU)
	if rarely(6) {
		node.Status.Capacity["hugepages-2Mi"] = resource.MustParse([]string{"0", "0", "2Mi"}[r.IntN(3)])
		node.Status.Allocatable["hugepages-2Mi"] = resource.MustParse("0")
	}
	if rarely(10) {
		node.Status.Capacity[v1.ResourceCPU] = resource.MustParse([]string{"4000m", "4", "4000000001n", "4.0000005"}[r.IntN(4)])
	}
	if rarely(6) {
		huge := []string{"9223372036854775807", "8Ei", "9e18", "7766279631452241920"}[r.IntN(4)]
		node.Status.Allocatable[v1.ResourceEphemeralStorage] = resource.MustParse(huge)
	}
	if rarely(2) {
		t.Pods = append(t.Pods, podOf(list("cpu", []string{"100m", "104m", "50m"}[r.IntN(3)])))
	}
	if rarely(6) {
		t.Pods = append(t.Pods, podOf(list([]string{"ephemeral-storage", "example.com/widget"}[r.IntN(2)],
			[]string{"100", "95", "1u"}[r.IntN(3)])))
	}
	return t
}

// nearEdge draws base or what differs from it by about num/den.
func nearEdge(r *rand.Rand, base, num, den int64) resource.Quantity {
	value := base
	switch r.IntN(6) {
	case 0:
		value = base - base*num/den + int64(r.IntN(3)-1)
	case 1:
		value = base*den/(den-num) + int64(r.IntN(3)-1)
	case 2:
		value = base - base*num/(2*den)
	}
	return *resource.NewQuantity(value, resource.DecimalSI)
}

func scaleMilli(list v1.ResourceList, name v1.ResourceName) {
	quantity := list[name]
	list[name] = *resource.NewMilliQuantity(quantity.Value(), resource.DecimalSI)
}

func randomOptions(t testing.TB, r *rand.Rand) Options {
	var o Options
	if r.IntN(4) == 0 {
		o.IgnoreLabels = []string{"pool", "beta.kubernetes.io/arch"}[r.IntN(2):]
	}
	if r.IntN(6) == 0 {
		o.IgnoreLabels = append(o.IgnoreLabels, "kubernetes.io/arch")
	}
	if r.IntN(8) == 0 {
		o.DisabledPacks = []string{"basic", "aws", "azure", "kops"}[r.IntN(4):]
	}
	if r.IntN(12) == 0 {
		o.Labels = []string{"pool", "kubernetes.io/arch", "pool"}[r.IntN(2):]
	}
	given := []string{"0", "0.015", "0.05", "0.0500", "0.0532", "1", "0.000000000000000001"}
	for _, target := range []**Ratio{&o.MemoryDifferenceRatio, &o.MaxAllocatableDifferenceRatio, &o.MaxFreeDifferenceRatio} {
		if r.IntN(5) == 0 {
			*target = ratio(t, given[r.IntN(len(given))])
		}
	}
	return o
}

func TestSimilarIsThePairwiseDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	similar := 0
	for range 30_000 {
		o := randomOptions(t, r)
		a, b := randomTemplate(r), randomTemplate(r)
		if r.IntN(3) == 0 { // equal but for the order of things and one detail
			b = a.DeepCopy()
			b.Node.Status.Allocatable[v1.ResourceMemory] = nearEdge(r, 15<<30, 5, 100)
		}
		x := indexOf(t, o, map[string]cloudprovider.Template{"a": a, "b": b})
		want := newOracle(o).similar(a, b)
		if want {
			similar++
		}
		got := len(x.Similar("a")) == 1
		if got != want || got != (len(x.Similar("b")) == 1) {
			t.Fatalf("similar = %v, the definition says %v\n%+v\n%v", got, want, x.Differences("a", "b"), cmp.Diff(a, b))
		}
		if differences := x.Differences("a", "b"); (len(differences) == 0) != want {
			t.Fatalf("similar = %v, but the differences are %+v", want, differences)
		}
	}
	if similar < 3_000 || similar > 22_000 {
		t.Errorf("%d of 30,000 pairs are similar: the templates prove too little", similar)
	}
}

func TestFleetsAreThePairwiseDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for range 300 {
		o := randomOptions(t, r)
		templates := map[string]cloudprovider.Template{}
		base := randomTemplate(r)
		for i := range 2 + r.IntN(24) {
			template := randomTemplate(r)
			if r.IntN(3) > 0 {
				amounts := template.Node.Status
				template = base.DeepCopy()
				template.Node.Status.Capacity[v1.ResourceMemory] = amounts.Capacity[v1.ResourceMemory]
				template.Node.Status.Allocatable[v1.ResourceMemory] = amounts.Allocatable[v1.ResourceMemory]
				template.Node.Status.Allocatable[v1.ResourceCPU] = amounts.Allocatable[v1.ResourceCPU]
			}
			templates[fmt.Sprintf("g%02d", i)] = template
		}
		x := indexOf(t, o, templates)
		compareWithOracle(t, x, newOracle(o), templates)
		for range 4 { // changed, deleted and new groups
			name := fmt.Sprintf("g%02d", r.IntN(26))
			if r.IntN(3) == 0 {
				x.Delete(name)
				delete(templates, name)
				continue
			}
			templates[name] = randomTemplate(r)
			if err := x.Set(name, templates[name]); err != nil {
				t.Fatal(err)
			}
		}
		compareWithOracle(t, x, newOracle(o), templates)
	}
}

func compareWithOracle(t *testing.T, x *Index, o oracle, templates map[string]cloudprovider.Template) {
	t.Helper()
	if all := x.Names(); len(all) != len(templates) {
		t.Fatalf("the index has %d of %d groups", len(all), len(templates))
	}
	for name := range templates {
		want := o.partners(templates, name)
		if diff := cmp.Diff(want, x.Similar(name)); diff != "" {
			t.Fatalf("Similar(%s) (-definition +index):\n%s", name, diff)
		}
		alike, shared := x.Alike(name)
		if !slices.IsSorted(alike) || !slices.Contains(alike, name) || len(alike) != len(want)+1 {
			t.Fatalf("Alike(%s) is %v, want %v and itself", name, alike, want)
		}
		for other := range templates {
			if similar := slices.Contains(want, other); x.AreSimilar(name, other) != similar || other != name &&
				slices.Contains(alike, other) != similar {
				t.Fatalf("%s and %s: similar is %v, the index says otherwise", name, other, similar)
			}
		}
		for _, other := range alike {
			if theirs, _ := x.Alike(other); shared && &theirs[0] != &alike[0] {
				t.Fatalf("%s does not share the list of %s", other, name)
			}
		}
	}
	if diff := cmp.Diff(o.sets(templates), x.Sets()); diff != "" {
		t.Fatalf("Sets (-definition +index):\n%s", diff)
	}
}

// Groups of one large set get one list, also where their nodes differ a little, and where another
// large set has the same exact part.
func TestListsOfLargeSetsAreShared(t *testing.T) {
	templates := map[string]cloudprovider.Template{}
	for i := range 100 {
		memory := int64(i/50*32+15) << 30
		template := cloudprovider.Template{Node: &v1.Node{}}
		template.Node.Status.Capacity = list("cpu", "4")
		template.Node.Status.Allocatable = v1.ResourceList{v1.ResourceMemory: *resource.NewQuantity(memory+int64(i), resource.BinarySI)}
		templates[fmt.Sprintf("g%02d", i)] = template
	}
	x := indexOf(t, Options{}, templates)
	first, shared := x.Alike("g00")
	second, sharedToo := x.Alike("g99")
	if !shared || !sharedToo || len(first) != 50 || len(second) != 50 {
		t.Errorf("%v %v, %d and %d groups; want two shared lists of 50", shared, sharedToo, len(first), len(second))
	}
	if alike, shared := x.Alike("unknown"); len(alike) > 0 || shared {
		t.Errorf("an unknown group is like %v", alike)
	}
}

func TestTemplatesAreNotChanged(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for range 500 {
		a, b := randomTemplate(r), randomTemplate(r)
		keepA, keepB := a.DeepCopy(), b.DeepCopy()
		x := indexOf(t, Options{}, map[string]cloudprovider.Template{"a": a, "b": b})
		x.Differences("a", "b")
		if diff := cmp.Diff(keepA, a) + cmp.Diff(keepB, b); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestTheCallerMayChangeATemplateAfterSet(t *testing.T) {
	a, b := template(), template()
	x := indexOf(t, Options{}, map[string]cloudprovider.Template{"a": a, "b": b})
	a.Node.Labels["pool"] = "red"
	a.Node.Status.Capacity["cpu"] = resource.MustParse("99")
	if differences := x.Differences("a", "b"); len(differences) > 0 {
		t.Errorf("the index follows the caller's changes: %+v", differences)
	}
}
