package predicates

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func fitsOf(t *testing.T, cluster, templates []Node, pods ...*v1.Pod) *Fit {
	t.Helper()
	f, err := newChecker(t, Options{}).Fits(cluster, templates, pods)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestReasons(t *testing.T) {
	t.Parallel()
	elsewhere := func(n *v1.Node) { n.Labels[v1.LabelTopologyZone] = "b" }
	for name, tc := range map[string]struct {
		cluster  []Node
		template Node
		pod      *v1.Pod
		want     []Reason
	}{
		"fits": {template: aNode("t"), pod: aPod()},
		"too large": {template: aNode("t"), pod: aPod(asking("cpu", "64", "memory", "1Gi")), want: []Reason{
			{"NodeResourcesFit", "Insufficient cpu (wants 64, free 4 of 4 allocatable)"}}},
		"daemon set counted": {template: aNode("t").carrying(aPod(asking("cpu", "200m", "memory", "1Gi"))),
			pod: aPod(asking("cpu", "4", "memory", "7680Mi")), want: []Reason{
				{"NodeResourcesFit", "Insufficient cpu (wants 4, free 3800m of 4 allocatable)"},
				{"NodeResourcesFit", "Insufficient memory (wants 7680Mi, free 7Gi of 8Gi allocatable)"}}},
		"extended resources in order": {template: aNode("t"),
			pod: aPod(asking("example.com/b", "1", "example.com/a", "2", "ephemeral-storage", "1Gi")), want: []Reason{
				{"NodeResourcesFit", "Insufficient ephemeral-storage (wants 1Gi, free 0 of 0 allocatable)"},
				{"NodeResourcesFit", "Insufficient example.com/a (wants 2, free 0 of 0 allocatable)"},
				{"NodeResourcesFit", "Insufficient example.com/b (wants 1, free 0 of 0 allocatable)"}}},
		"too many pods": {template: aNode("t", offering("pods", "1")).carrying(aPod(asking())), pod: aPod(), want: []Reason{
			{"NodeResourcesFit", "Too many pods (node takes 1)"}}},
		"every plugin": {template: aNode("t", tainted("gpu"), cordoned), pod: aPod(asking("cpu", "5"), selecting("pool", "blue")), want: []Reason{
			{"NodeUnschedulable", "node(s) were unschedulable"},
			{"TaintToleration", "node(s) had untolerated taint(s)"},
			{"NodeAffinity", "node(s) didn't match Pod's node affinity/selector"},
			{"NodeResourcesFit", "Insufficient cpu (wants 5, free 4 of 4 allocatable)"}}},
		"host port": {template: aNode("t").carrying(aPod(hostPort(80))), pod: aPod(hostPort(80)), want: []Reason{
			{"NodePorts", "node(s) didn't have free ports for the requested pod ports"}}},
		"spread only": {
			cluster:  []Node{aNode("a", zoned("a")).carrying(aPod()), aNode("b", zoned("b"))},
			template: aNode("t", zoned("a")), pod: aPod(spread(v1.LabelTopologyZone, 1)), want: []Reason{
				{"PodTopologySpread", "node(s) didn't match pod topology spread constraints"}}},
		"spread in the other zone": {
			cluster:  []Node{aNode("a", zoned("a")).carrying(aPod()), aNode("b", zoned("b"))},
			template: aNode("t", elsewhere), pod: aPod(spread(v1.LabelTopologyZone, 1))},
		"spread and size: the size decides": {
			cluster:  []Node{aNode("a", zoned("a")).carrying(aPod()), aNode("b", zoned("b"))},
			template: aNode("t", zoned("a")), pod: aPod(asking("cpu", "5"), spread(v1.LabelTopologyZone, 1)), want: []Reason{
				{"NodeResourcesFit", "Insufficient cpu (wants 5, free 4 of 4 allocatable)"}}},
		"no such zone key": {template: aNode("t"), pod: aPod(spread(v1.LabelTopologyZone, 1)), want: []Reason{
			{"PodTopologySpread", "node(s) didn't match pod topology spread constraints (missing required label topology.kubernetes.io/zone)"}}},
		"anti-affinity": {
			cluster:  []Node{aNode("a", zoned("a")).carrying(aPod(apartOver(v1.LabelTopologyZone)))},
			template: aNode("t", zoned("a")), pod: aPod(), want: []Reason{
				{"InterPodAffinity", "node(s) didn't satisfy existing pods anti-affinity rules"}}},
		"affinity elsewhere": {
			cluster:  []Node{aNode("b", zoned("b")).carrying(aPod())},
			template: aNode("t", zoned("a")), pod: aPod(togetherOver(v1.LabelTopologyZone)), want: []Reason{
				{"InterPodAffinity", "node(s) didn't match pod affinity rules"}}},
		"hostname of a real node": {template: aNode("t"), pod: aPod(selecting(v1.LabelHostname, "t")), want: []Reason{
			{"NodeAffinity", "node(s) didn't match Pod's node affinity/selector"}}},
		"node by name": {template: aNode("t"), pod: aPod(func(p *v1.Pod) { p.Spec.NodeName = "t" }), want: []Reason{
			{"NodeName", "node(s) didn't match the requested node name"}}},
		"node by match field": {template: aNode("t"), pod: aPod(matchingField("t")), want: []Reason{
			{"NodeAffinity", "node(s) didn't satisfy plugin(s) [NodeAffinity]"}}},
		"restart of all containers": {template: aNode("t"), pod: aPod(func(p *v1.Pod) {
			p.Spec.Containers[0].RestartPolicyRules = []v1.ContainerRestartRule{{Action: v1.ContainerRestartRuleActionRestartAllContainers}}
		}), want: []Reason{{"NodeDeclaredFeatures", "node(s) didn't match Pod's required features"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fitsOf(t, tc.cluster, []Node{tc.template}, tc.pod)
			if diff := cmp.Diff(tc.want, f.Reasons(0, 0)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if got, want := f.Passes(0, 0), len(tc.want) == 0; got != want {
				t.Errorf("passes is %v, want %v", got, want)
			}
		})
	}
}

func matchingField(name string) podOption {
	return func(p *v1.Pod) {
		p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{
				{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{name}}}}}}}}
	}
}

func TestStateDependentReasonsCanBeTold(t *testing.T) {
	t.Parallel()
	for plugin, want := range map[string]bool{"PodTopologySpread": true, "InterPodAffinity": true, "NodeResourcesFit": false} {
		if got := stateDependent(plugin); got != want {
			t.Errorf("%s: %v, want %v", plugin, got, want)
		}
	}
}

func TestPodsEqualToTheSchedulerAreOneKind(t *testing.T) {
	t.Parallel()
	gone := metav1.Now()
	for name, tc := range map[string]struct {
		a, b *v1.Pod
		on   []*v1.Pod
		same bool
	}{
		"names, images, commands": {aPod(), aPod(func(p *v1.Pod) {
			p.Name, p.UID, p.Annotations = "other", "u", map[string]string{"a": "b"}
			p.Spec.Containers[0].Image, p.Spec.Containers[0].Command = "i", []string{"run"}
			p.Spec.Containers[0].Env = []v1.EnvVar{{Name: "A"}}
			p.Spec.ServiceAccountName, p.Spec.Priority = "sa", ptr.To[int32](7)
		}), nil, true},
		"equal amounts written differently": {aPod(asking("cpu", "1")), aPod(asking("cpu", "1000m")), nil, true},
		"limits": {aPod(), aPod(func(p *v1.Pod) { p.Spec.Containers[0].Resources.Limits = amountsOf("cpu", "9") }),
			nil, true},
		"a label nobody looks at":   {aPod(), aPod(podLabel("pod-name", "web-0")), nil, true},
		"none and soft constraints": {aPod(), aPod(spread(v1.LabelTopologyZone, 1, soft)), nil, true},
		"soft constraints":          {aPod(spread(v1.LabelHostname, 1, soft)), aPod(spread(v1.LabelTopologyZone, 1, soft)), nil, true},
		"volumes no plugin checks": {aPod(), aPod(func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{Name: "c", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}}
		}), nil, true},
		"a label a pod on a node looks at": {aPod(podLabel("tier", "x")), aPod(podLabel("tier", "y")), []*v1.Pod{aPod(func(p *v1.Pod) {
			apartOver(v1.LabelTopologyZone)(p)
			p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "x"}}
		})}, false},
		"a label its own constraint looks at": {aPod(spread("zone", 1, matchingKey("rev")), podLabel("rev", "1")),
			aPod(spread("zone", 1, matchingKey("rev")), podLabel("rev", "2")), nil, false},
		"requests":                       {aPod(), aPod(asking("cpu", "2")), nil, false},
		"namespaces":                     {aPod(), aPod(func(p *v1.Pod) { p.Namespace = "b" }), nil, false},
		"selectors":                      {aPod(), aPod(selecting("a", "b")), nil, false},
		"host ports":                     {aPod(), aPod(hostPort(80)), nil, false},
		"overhead":                       {aPod(), aPod(func(p *v1.Pod) { p.Spec.Overhead = amountsOf("cpu", "1") }), nil, false},
		"sidecars":                       {aPod(initContainer(nil)), aPod(initContainer(ptr.To(v1.ContainerRestartPolicyAlways))), nil, false},
		"unknown claims":                 {aPod(claiming("a")), aPod(claiming("b"), called("other")), nil, false}, // the reasons name them
		"claims, one of them used twice": {aPod(claiming("a")), aPod(claiming("b")), []*v1.Pod{aPod(claiming("a"), called("other"))}, false},
		"terminating":                    {aPod(), aPod(func(p *v1.Pod) { p.DeletionTimestamp = &gone }), nil, false},
		"anti-affinity":                  {aPod(), aPod(apartOver(v1.LabelHostname)), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := fitsOf(t, []Node{aNode("n").carrying(tc.on...)}, []Node{aNode("t")}, tc.a, tc.b)
			want := 2
			if tc.same {
				want = 1
			}
			if got := len(f.Kinds()); got != want {
				t.Errorf("%d kinds, want %d", got, want)
			}
			for i := range 2 {
				k := f.Kinds()[f.KindOf(i)]
				found := false
				for _, p := range k.Pods {
					found = found || p == i
				}
				if !found {
					t.Errorf("pod %d is not among the pods %v of its kind", i, k.Pods)
				}
			}
		})
	}
}

func soft(c *v1.TopologySpreadConstraint) { c.WhenUnsatisfiable = v1.ScheduleAnyway }

func matchingKey(key string) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MatchLabelKeys = []string{key} }
}

func minDomains(n int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &n }
}

func initContainer(policy *v1.ContainerRestartPolicy) podOption {
	return func(p *v1.Pod) {
		p.Spec.InitContainers = []v1.Container{{Name: "init", RestartPolicy: policy,
			Resources: v1.ResourceRequirements{Requests: amountsOf("cpu", "1")}}}
	}
}

// shapes is how many different shapes the templates have.
func (f *Fit) shapes() int { return slices.Max(f.shapeOf) + 1 }

func TestTemplatesThatDifferInWhatNoPodLooksAtAreOneShape(t *testing.T) {
	t.Parallel()
	plain := aPod()
	for name, tc := range map[string]struct {
		b    Node
		pods []*v1.Pod
		want int
	}{
		"names and hostnames":         {aNode("u"), []*v1.Pod{plain, aPod(spread(v1.LabelHostname, 1))}, 1},
		"a label nobody looks at":     {aNode("u", nodeLabel("group", "g")), []*v1.Pod{plain}, 1},
		"zones nobody looks at":       {aNode("u", zoned("b")), []*v1.Pod{plain}, 1},
		"a soft taint":                {aNode("u", softTaint), []*v1.Pod{plain}, 1},
		"zones of a spread":           {aNode("u", zoned("b")), []*v1.Pod{aPod(spread(v1.LabelTopologyZone, 1))}, 2},
		"a selected label":            {aNode("u", nodeLabel("pool", "x")), []*v1.Pod{plain, aPod(selecting("pool", "x"))}, 2},
		"a taint":                     {aNode("u", tainted("x")), []*v1.Pod{plain}, 2},
		"a cordon":                    {aNode("u", cordoned), []*v1.Pod{plain}, 2},
		"allocatable":                 {aNode("u", offering("cpu", "5")), []*v1.Pod{plain}, 2},
		"daemon set pods":             {aNode("u").carrying(aPod()), []*v1.Pod{plain}, 2},
		"amounts written differently": {aNode("u", offering("cpu", "4000m")), []*v1.Pod{plain}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := fitsOf(t, nil, []Node{aNode("t"), tc.b}, tc.pods...).shapes(); got != tc.want {
				t.Errorf("%d shapes, want %d", got, tc.want)
			}
		})
	}
}

func softTaint(n *v1.Node) {
	n.Spec.Taints = []v1.Taint{{Key: "x", Effect: v1.TaintEffectPreferNoSchedule}}
}

func TestFitsRunsThePluginsOncePerKindAndWhatItLooksAt(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	pods, templates := benchPods(4_000, 200), benchTemplates(500, 25)
	f, err := c.Fits(nil, templates, pods)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Kinds()) != 200 || f.shapes() != 25 {
		t.Errorf("%d kinds and %d shapes, want 200 and 25", len(f.Kinds()), f.shapes())
	}
	pre, filter := c.preFilterRuns, c.filterRuns
	// 40 kinds look at a label and tell the shapes apart; to the others they are five sizes.
	asked := int64(40*25 + 160*5)
	if pre != asked || filter > 2*asked { // a second run names every plugin
		t.Errorf("%d PreFilter and %d Filter runs, want %d", pre, filter, asked)
	}
	if ratio := int64(len(pods)*len(templates)) / (pre + filter); ratio < 100 {
		t.Errorf("only %d times fewer runs than pods times groups", ratio)
	}
}

func TestFitsRefusesNil(t *testing.T) {
	t.Parallel()
	c := newChecker(t, Options{})
	good := []Node{aNode("n")}
	for name, call := range map[string]func() error{
		"pod":         func() error { _, err := c.Fits(good, good, []*v1.Pod{nil}); return err },
		"template":    func() error { _, err := c.Fits(good, []Node{{}}, nil); return err },
		"node":        func() error { _, err := c.Fits([]Node{{}}, good, nil); return err },
		"pod on node": func() error { _, err := c.Fits([]Node{good[0].carrying(nil)}, good, nil); return err },
		"daemon pod":  func() error { _, err := c.Fits(nil, []Node{good[0].carrying(nil)}, nil); return err },
	} {
		if err := call(); !errors.Is(err, ErrNilObject) {
			t.Errorf("nil %s: %v, want ErrNilObject", name, err)
		}
	}
}

func TestFitsAreTheSameEachTime(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		d := newDice(seed)
		w, templates := d.nodes(4), []Node{d.template(), d.template()}
		pods := []*v1.Pod{d.pod(), d.pod(), d.pod(), d.pod()}
		a, b := fitsOf(t, w, templates, pods...), fitsOf(t, w, templates, pods...)
		if fmt.Sprint(a.reasons, a.kindOf, a.shapeOf) != fmt.Sprint(b.reasons, b.kindOf, b.shapeOf) {
			t.Fatalf("seed %d: two runs differ", seed)
		}
	}
}
