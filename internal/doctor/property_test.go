package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// drawn are the labels that templates may have, beside those of every node.
var drawn = []string{"team", "eks.amazonaws.com/sourceLaunchTemplateId", "topology.ebs.csi.aws.com/zone"}

// drawCluster draws groups that are similar more often than not.
func drawCluster(t *rapid.T) (o *Observation, flags []string) {
	sizes := map[string]int{}
	for i := range rapid.IntRange(1, 5).Draw(t, "groups") {
		sizes[string(rune('a'+i))] = rapid.IntRange(0, 6).Draw(t, "size")
	}
	flag := func(likely int, text string) {
		if rapid.IntRange(0, 9).Draw(t, text) < likely {
			flags = append(flags, text)
		}
	}
	flag(6, balanced)
	flag(2, "--balancing-ignore-label=team")
	if rapid.IntRange(0, 9).Draw(t, "label") == 0 {
		flags = append(flags, "--balancing-label="+rapid.SampledFrom([]string{v1.LabelInstanceTypeStable, "team"}).Draw(t, "deciding"))
	}
	flag(2, "--memory-difference-ratio=0.3")
	flags = append(flags, "--cloud-provider="+rapid.SampledFrom([]string{"aws", "clusterapi", "externalgrpc"}).Draw(t, "provider"))
	image := fmt.Sprintf("x/cluster-autoscaler:v1.%d", rapid.IntRange(33, 38).Draw(t, "minor"))
	o = cluster(sizes, deployment(image, flags...))
	for i := range o.Groups {
		n := o.Groups[i].Template.Node
		for _, label := range drawn {
			if value := rapid.IntRange(0, 5).Draw(t, label); value < 2 {
				n.Labels[label] = fmt.Sprint(value)
			}
		}
		switch rapid.IntRange(0, 7).Draw(t, "kind") {
		case 0:
			n.Labels[v1.LabelInstanceTypeStable] = "m2"
			n.Status.Capacity = v1.ResourceList{"cpu": resource.MustParse("8"), "memory": resource.MustParse("16Gi"),
				"pods": resource.MustParse("110")}
		case 1:
			n.Status.Capacity = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("13Gi"),
				"pods": resource.MustParse("110")}
		case 2:
			n.Spec.Taints = []v1.Taint{{Key: "tenant", Effect: v1.TaintEffectNoSchedule}}
		case 3:
			n.Status.Capacity = v1.ResourceList{"cpu": resource.MustParse("4"), "memory": resource.MustParse("16Gi"),
				"pods": resource.MustParse("110"), "example.com/gpu": resource.MustParse("0")}
		}
		n.Status.Allocatable = n.Status.Capacity
		for _, node := range o.Groups[i].Nodes { // as the template, and each with a name of its own
			labels := node.Labels[v1.LabelHostname]
			node.Labels = map[string]string{}
			for key, value := range n.Labels {
				node.Labels[key] = value
			}
			node.Labels[v1.LabelHostname] = labels
			node.Status, node.Spec = n.Status, n.Spec
		}
		if rapid.IntRange(0, 9).Draw(t, "odd") == 0 && len(o.Groups[i].Nodes) > 1 {
			o.Groups[i].Nodes[1].Labels["odd"] = "1"
		}
	}
	return o, flags
}

// about are the findings about sets that Cluster Autoscaler does not keep even in scale-ups.
var about = []Reason{BalancingOff, NotSimilar, JoinedWrongly}

// TestTheRecommendationIsTheLeastThatRemovesAllFindings tries every lesser way: nothing is recommended only if nothing is
// wrong with the sets, evenkeel only if no flags of Cluster Autoscaler do, and what is recommended does.
func TestTheRecommendationIsTheLeastThatRemovesAllFindings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, flags := drawCluster(t)
		d, err := Diagnose(o)
		if err != nil {
			t.Fatal(err)
		}
		r := d.Status.Recommendation
		wrong := slices.ContainsFunc(d.Status.Findings, func(f Finding) bool { return slices.Contains(about, f.Reason) })
		for _, f := range d.Status.Findings {
			if f.Way.beyond(r.Way) {
				t.Errorf("%s needs %s, and %s is recommended", f.Reason, f.Way, r.Way)
			}
		}
		if r.Way != WayNothing && !slices.ContainsFunc(d.Status.Findings, func(f Finding) bool { return f.Way == r.Way }) {
			t.Errorf("no finding needs %s", r.Way)
		}
		flagsDo := wrong && possible(t, o)
		switch {
		case wrong && r.Way == WayNothing:
			t.Errorf("nothing is recommended for %+v", d.Status.Findings)
		case wrong && flagsDo && r.Way == WayExpander:
			t.Errorf("flags would do, and evenkeel is recommended: %+v", d.Status.Findings)
		case wrong && !flagsDo && r.Way == WayAutoscaler:
			t.Errorf("no flags do, and these are recommended: %+v", r)
		}
		if r.Way != WayAutoscaler {
			return
		}
		after := slices.DeleteFunc(slices.Clone(flags), func(flag string) bool { return slices.Contains(r.Without, flag) })
		again := &Observation{Label: o.Label, Status: o.Status, Groups: o.Groups, Nodes: o.Nodes}
		again.AddWorkload(deployment(o.Autoscaler().Image, append(after, r.Flags...)...))
		then, err := Diagnose(again)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range then.Status.Findings {
			if slices.Contains(about, f.Reason) || f.Reason == NodesDiffer && f.Way != "" {
				t.Errorf("with %q, without %q there still is %s: %s", r.Flags, r.Without, f.Reason, f.Message)
			}
		}
	})
}

// possible tries all flags that can matter: whether Cluster Autoscaler finds the sets of evenkeel with any of them.
func possible(t *rapid.T, o *Observation) bool {
	d := diagnoser{observed: o, autoscaler: o.Autoscaler(), groups: map[string]*Group{}}
	for i := range o.Groups {
		d.groups[o.Groups[i].Name] = &o.Groups[i]
	}
	d.readFleet()
	if err := d.fleet.fill(); err != nil {
		t.Fatal(err)
	}
	if d.fleet.agrees(d.fleet.options) {
		return true
	}
	keys := append([]string{"eks.amazonaws.com/nodegroup", v1.LabelInstanceTypeStable, "odd"}, drawn...)
	for _, key := range keys {
		if d.fleet.having(key) == len(d.fleet.templates) && d.fleet.agrees(nodegroupset.Options{Labels: []string{key}}) {
			return true
		}
	}
	keys = slices.DeleteFunc(keys, func(key string) bool { // equal everywhere, so that ignoring it changes nothing
		return !slices.ContainsFunc(o.Groups, func(g Group) bool { return g.Template.Node.Labels[key] != o.Groups[0].Template.Node.Labels[key] })
	})
	wide, err := nodegroupset.ParseRatio("0.3")
	if err != nil {
		t.Fatal(err)
	}
	for some := range 1 << len(keys) {
		for _, ratio := range []*nodegroupset.Ratio{nil, &wide} {
			options := d.fleet.options // what the user has said stays
			options.Labels, options.IgnoreLabels = nil, slices.Clone(options.IgnoreLabels)
			for _, into := range ratios(&options) {
				if *into == nil {
					*into = ratio
				}
			}
			for i, key := range keys {
				if some&(1<<i) != 0 {
					options.IgnoreLabels = append(options.IgnoreLabels, key)
				}
			}
			if d.fleet.effect && d.fleet.agrees(options) {
				return true
			}
		}
	}
	return false
}

// TestTheOrderOfTheInputDoesNotMatter shuffles groups and nodes.
func TestTheOrderOfTheInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o, _ := drawCluster(t)
		other := *o
		other.Groups = rapid.Permutation(slices.Clone(o.Groups)).Draw(t, "groups")
		other.Nodes = rapid.Permutation(slices.Clone(o.Nodes)).Draw(t, "nodes")
		states := *o.Status
		states.Groups = rapid.Permutation(slices.Clone(o.Status.Groups)).Draw(t, "states")
		other.Status = &states
		first, err := Diagnose(o)
		if err != nil {
			t.Fatal(err)
		}
		second, err := Diagnose(&other)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(first, second, cmp.AllowUnexported(Flags{})); diff != "" {
			t.Errorf("(-first +second):\n%s", diff)
		}
	})
}

// TestApartIsTheFewestMoves compares with the obvious way: move a node at a time from the largest group that may
// shrink to the smallest that may grow, as long as that makes them more even.
func TestApartIsTheFewestMoves(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := diagnoser{groups: map[string]*Group{}}
		var names []string
		sizes := map[string]int{}
		for i := range rapid.IntRange(1, 5).Draw(t, "groups") {
			name := string(rune('a' + i))
			least := rapid.IntRange(0, 3).Draw(t, "min")
			g := &Group{Name: name, Min: least, Max: least + rapid.IntRange(0, 8).Draw(t, "room"), Bounded: true}
			g.state = &autoscalerstatus.Group{Target: rapid.IntRange(0, 12).Draw(t, "size")}
			d.groups[name], sizes[name] = g, g.state.Target
			names = append(names, name)
		}
		moves := 0
		for ; ; moves++ {
			from, to := "", ""
			for _, name := range names {
				least, most := d.groups[name].bounds()
				if sizes[name] > min(least, d.groups[name].size()) && (from == "" || sizes[name] > sizes[from]) {
					from = name
				}
				if sizes[name] < most && (to == "" || sizes[name] < sizes[to]) {
					to = name
				}
			}
			if from == "" || to == "" || sizes[from]-sizes[to] < 2 {
				break
			}
			sizes[from]--
			sizes[to]++
		}
		if got := d.apart(names, false); got != moves {
			t.Errorf("%d nodes apart, %d moves lead to %v", got, moves, sizes)
		}
	})
}

// A flag is found wherever it stands, and whatever stands around it.
func FuzzReadFlags(f *testing.F) {
	f.Add("./cluster-autoscaler", "--v=4", "aws")
	f.Add("sh -c", "exec cluster-autoscaler --v 4 \\\n --balance-similar-node-groups", "a b")
	f.Fuzz(func(t *testing.T, first, second, value string) {
		flags := readFlags([]string{first}, []string{second, "--expander=" + value})
		if got := flags.Get("expander", ""); flags.field != "" && got != strings.Trim(value, "\"'") {
			t.Errorf("the expander is %q, want %q", got, value)
		}
		after := flags.With([]string{"--cloud-provider=gce", "--balancing-label=a", "--balancing-label=b"}, []string{second})
		if got := after.Get("cloud-provider", ""); after.field != "" && got != "gce" {
			t.Errorf("the provider is %q", got)
		}
		if all := after.All("balancing-label"); after.field != "" && !slices.Equal(all[max(0, len(all)-2):], []string{"a", "b"}) {
			t.Errorf("balancing labels %q", all)
		}
	})
}

func ExampleDiagnose() {
	o := &Observation{Label: "eks.amazonaws.com/nodegroup", Status: &autoscalerstatus.Status{Time: noon, Running: true}}
	o.AddWorkload(deployment("registry.k8s.io/autoscaling/cluster-autoscaler:v1.36.1", "--cloud-provider=aws"))
	for name, size := range map[string]int{"workers-a": 6, "workers-b": 1} {
		g := Group{Name: name, Template: &cloudprovider.Template{Node: node(name, 0)}}
		for i := range size {
			g.Nodes = append(g.Nodes, node(name, i))
		}
		o.Groups = append(o.Groups, g)
	}
	d, err := Diagnose(o)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, f := range d.Status.Findings {
		fmt.Printf("%s, %d nodes apart, %s helps\n", f.Reason, f.Apart, f.Way)
	}
	fmt.Println(strings.Join(d.Status.Recommendation.Flags, " "))
	// Output:
	// BalancingOff, 2 nodes apart, ClusterAutoscaler helps
	// --balance-similar-node-groups=true
}
