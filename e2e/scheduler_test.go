// Package e2e holds what the project computes against a real control plane.
package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/predicates"
)

// The scheduler leaves those pods pending that package predicates rejects on
// every node, and binds the others to a node that predicates allows.
func TestPredicatesAgreeWithTheScheduler(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	s := newSide(ctx, t, fleet()...)
	t.Run("hand-made", func(t *testing.T) {
		for _, c := range handMade {
			node, allowed := s.try(ctx, t, pod(c.with...))
			if (node != "") != c.fits {
				t.Errorf("%s: bound to %q by the scheduler, want it to fit: %v", c.name, node, c.fits)
			}
			agree(t, c.name, node, allowed)
		}
	})
	t.Run("random", func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 36))
		bound, pending := 0, 0
		for i := range 150 {
			node, allowed := s.try(ctx, t, pod(draw(r)...))
			agree(t, fmt.Sprintf("pod %d", i), node, allowed)
			if node != "" {
				bound++
			} else {
				pending++
			}
		}
		t.Logf("%d pods were bound, %d left pending", bound, pending)
		if bound < 30 || pending < 30 {
			t.Errorf("%d pods were bound and %d left pending: the draw says little", bound, pending)
		}
	})
}

func agree(t *testing.T, name, node string, allowed []string) {
	t.Helper()
	if node == "" && len(allowed) > 0 || node != "" && !slices.Contains(allowed, node) {
		t.Errorf("%s: the scheduler chose node %q, predicates allow %q", name, node, allowed)
	}
}

// handMade are pods in the order in which they come; those that fit stay.
var handMade = []struct {
	name string
	with []change
	fits bool
}{
	{"small", with(requests("500m", "1Gi", "")), true},
	{"more cores than any node has", with(requests("64", "1Gi", "")), false},
	{"more memory than any node has", with(requests("1", "64Gi", "")), false},
	{"a GPU without tolerating the taint", with(requests("1", "1Gi", "1")), false},
	{"a GPU", with(requests("1", "1Gi", "1"), tolerating("gpu")), true},
	{"two GPUs where one is left", with(requests("1", "1Gi", "2"), tolerating("gpu")), false},
	{"spot nodes only", with(selecting("lifecycle", "spot")), true},
	{"spot nodes in a zone without", with(selecting("lifecycle", "spot"), selecting(v1.LabelTopologyZone, "c")), false},
	{"neither zone a nor b", with(outsideZones("a", "b")), true},
	{"outside all zones", with(outsideZones("a", "b", "c")), false},
	{"a cordoned node", with(selecting(v1.LabelHostname, "cordoned-b")), false},
	{"a cordoned node, tolerated", with(selecting(v1.LabelHostname, "cordoned-b"), tolerating(v1.TaintNodeUnschedulable)), true},
	{"a database in the first zone", with(labelled("db"), apart("db", v1.LabelTopologyZone)), true},
	{"a database in the second zone", with(labelled("db"), apart("db", v1.LabelTopologyZone)), true},
	{"a database in the third zone", with(labelled("db"), apart("db", v1.LabelTopologyZone)), true},
	{"a database without a zone left", with(labelled("db"), apart("db", v1.LabelTopologyZone)), false},
	{"kept away by the databases' own rule", with(labelled("db")), false},
	{"next to a database", with(nextTo("db", v1.LabelTopologyZone)), true},
	{"next to what does not exist", with(nextTo("cache", v1.LabelTopologyZone)), false},
	{"next to itself", with(labelled("cache"), nextTo("cache", v1.LabelHostname)), true},
	{"spread, first in zone a", with(labelled("web"), spread("web"), selecting(v1.LabelTopologyZone, "a")), true},
	{"spread, too many in zone a", with(labelled("web"), spread("web"), selecting(v1.LabelTopologyZone, "a")), false},
	{"spread, first in zone c", with(labelled("web"), spread("web"), selecting(v1.LabelTopologyZone, "c")), true},
	{"spread, anywhere", with(labelled("web"), spread("web")), true},
	{"spread, second in zone a", with(labelled("web"), spread("web"), selecting(v1.LabelTopologyZone, "a")), true},
	{"a free port", with(port(8080), selecting(v1.LabelHostname, "tiny-c")), true},
	{"a port in use", with(port(8080), selecting(v1.LabelHostname, "tiny-c")), false},
	{"the last place on a node", with(selecting(v1.LabelHostname, "big-b"), requests("5", "", "")), true},
	{"a node without cores left", with(selecting(v1.LabelHostname, "big-b"), requests("5", "", "")), false},
}

// fleet returns six nodes in three zones.
func fleet() []*v1.Node {
	return []*v1.Node{
		node("small-a", "a", "2", "4Gi", "12"),
		node("spot-a", "a", "4", "8Gi", "20", func(n *v1.Node) {
			n.Labels["lifecycle"] = "spot"
			n.Spec.Taints = []v1.Taint{{Key: "spot", Effect: v1.TaintEffectPreferNoSchedule}}
		}),
		node("big-b", "b", "8", "32Gi", "40"),
		node("cordoned-b", "b", "8", "32Gi", "40", func(n *v1.Node) { n.Spec.Unschedulable = true }),
		node("gpu-c", "c", "16", "32Gi", "40", func(n *v1.Node) {
			n.Spec.Taints = []v1.Taint{{Key: "gpu", Effect: v1.TaintEffectNoSchedule}}
			n.Status.Allocatable[gpu] = resource.MustParse("2")
		}),
		node("tiny-c", "c", "4", "8Gi", "15"),
	}
}

// A side puts pods one by one to both: the scheduler, and a cluster of package
// predicates with the pods that the scheduler has bound so far.
type side struct {
	plane   *controlplane.ControlPlane
	checker *predicates.Checker
	nodes   []predicates.Node
}

func newSide(ctx context.Context, t *testing.T, nodes ...*v1.Node) *side {
	t.Helper()
	s := &side{plane: controlplane.Start(t, controlplane.Options{})}
	if err := s.plane.AddNodes(ctx, nodes...); err != nil {
		t.Fatal(err)
	}
	namespace := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}}
	if err := s.plane.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); err != nil {
		t.Fatal(err)
	}
	checker, err := predicates.New(ctx, predicates.Options{Objects: []runtime.Object{namespace}})
	if err != nil {
		t.Fatal(err)
	}
	s.checker = checker
	for _, n := range nodes {
		s.nodes = append(s.nodes, predicates.Node{Node: n})
	}
	for _, n := range nodes {
		// A pod that fits at last shows that the scheduler has seen the node as it is now.
		p := pod(selecting(v1.LabelHostname, n.Name), tolerating(""))
		s.create(ctx, t, p)
		if err := s.plane.Until(ctx, p, func() bool { return p.Spec.NodeName != "" }); err != nil {
			t.Fatal(err)
		}
		s.add(t, p)
	}
	return s
}

// try tells to which node the scheduler binds the pod, empty if to none, and
// which nodes predicates allow. A pod that is not bound is taken away again.
func (s *side) try(ctx context.Context, t *testing.T, p *v1.Pod) (node string, allowed []string) {
	t.Helper()
	s.create(ctx, t, p)
	cluster, free := s.checker.Cluster(s.nodes), p.DeepCopy() // what a Checker is given must not change
	for i, n := range s.nodes {
		placed, err := cluster.Fork().Place(free, 1, i, i+1)
		if err != nil {
			t.Fatal(err)
		}
		if len(placed) > 0 {
			allowed = append(allowed, n.Node.Name)
		}
	}
	if err := s.plane.Until(ctx, p, func() bool { return p.Spec.NodeName != "" || unschedulable(p) }); err != nil {
		t.Fatal(err)
	}
	if p.Spec.NodeName != "" {
		s.add(t, p)
	} else if err := s.plane.Client.Delete(ctx, p, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	return p.Spec.NodeName, allowed
}

func (s *side) create(ctx context.Context, t *testing.T, p *v1.Pod) {
	t.Helper()
	if err := s.plane.Client.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
}

func (s *side) add(t *testing.T, p *v1.Pod) {
	t.Helper()
	i := slices.IndexFunc(s.nodes, func(n predicates.Node) bool { return n.Node.Name == p.Spec.NodeName })
	if i < 0 {
		t.Fatalf("%s is on unknown node %s", p.Name, p.Spec.NodeName)
	}
	s.nodes[i].Pods = append(slices.Clone(s.nodes[i].Pods), p)
}

func unschedulable(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
	})
}

// draw makes up a pod by rules of which some fit together.
func draw(r *rand.Rand) []change {
	of := func(choices ...string) string { return choices[r.IntN(len(choices))] }
	some := func(in int) bool { return r.IntN(in) == 0 }
	app := of("db", "web", "cache", "batch", "api")
	out := with(requests(of("", "50m", "100m", "500m", "3"), of("", "64Mi", "256Mi", "4Gi"), of("", "", "", "", "1")))
	if some(2) {
		out = append(out, labelled(app))
	}
	if some(3) {
		out = append(out, tolerating(of("gpu", "spot", v1.TaintNodeUnschedulable, "")))
	}
	if some(4) {
		out = append(out, selecting(v1.LabelTopologyZone, of("a", "b", "c")))
	}
	if some(8) {
		out = append(out, outsideZones(of("a", "b", "c")))
	}
	if some(8) {
		out = append(out, apart(of("db", "web", "cache", "batch"), of(v1.LabelTopologyZone, v1.LabelHostname)))
	}
	if some(8) {
		out = append(out, nextTo(of(app, "web", "cache"), of(v1.LabelTopologyZone, v1.LabelHostname)))
	}
	if some(5) {
		out = append(out, spread(app))
	}
	if some(10) {
		out = append(out, port(8080+int32(r.IntN(2))))
	}
	return out
}

const gpu v1.ResourceName = "example.com/gpu"

func node(name, zone, cpu, memory, pods string, changes ...func(*v1.Node)) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: name, Labels: map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: zone},
	}}
	n.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse(cpu), v1.ResourceMemory: resource.MustParse(memory), v1.ResourcePods: resource.MustParse(pods),
	}
	for _, change := range changes {
		change(n)
	}
	return n
}

// A change makes a pod more demanding.
type change func(*v1.Pod)

func with(changes ...change) []change { return changes }

func pod(changes ...change) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "pod-", Namespace: metav1.NamespaceDefault},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{Name: "main", Image: "none"}},
			Affinity:   &v1.Affinity{NodeAffinity: &v1.NodeAffinity{}, PodAffinity: &v1.PodAffinity{}, PodAntiAffinity: &v1.PodAntiAffinity{}},
		},
	}
	for _, change := range changes {
		change(p)
	}
	return p
}

// requests asks for amounts; the empty string is none.
func requests(cpu, memory, gpus string) change {
	return func(p *v1.Pod) {
		list := v1.ResourceList{}
		for name, amount := range map[v1.ResourceName]string{v1.ResourceCPU: cpu, v1.ResourceMemory: memory, gpu: gpus} {
			if amount != "" {
				list[name] = resource.MustParse(amount)
			}
		}
		p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: list, Limits: list}
	}
}

// tolerating tolerates a taint; the empty key tolerates all.
func tolerating(key string) change {
	return func(p *v1.Pod) {
		p.Spec.Tolerations = append(p.Spec.Tolerations, v1.Toleration{Key: key, Operator: v1.TolerationOpExists})
	}
}

func selecting(key, value string) change {
	return func(p *v1.Pod) {
		if p.Spec.NodeSelector == nil {
			p.Spec.NodeSelector = map[string]string{}
		}
		p.Spec.NodeSelector[key] = value
	}
}

func outsideZones(zones ...string) change {
	return func(p *v1.Pod) {
		p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
				{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpNotIn, Values: zones},
			}}},
		}
	}
}

func labelled(app string) change {
	return func(p *v1.Pod) { p.Labels = map[string]string{"app": app} }
}

func apart(app, topology string) change {
	return func(p *v1.Pod) {
		rules := p.Spec.Affinity.PodAntiAffinity
		rules.RequiredDuringSchedulingIgnoredDuringExecution = append(rules.RequiredDuringSchedulingIgnoredDuringExecution, term(app, topology))
	}
}

func nextTo(app, topology string) change {
	return func(p *v1.Pod) {
		rules := p.Spec.Affinity.PodAffinity
		rules.RequiredDuringSchedulingIgnoredDuringExecution = append(rules.RequiredDuringSchedulingIgnoredDuringExecution, term(app, topology))
	}
}

func term(app, topology string) v1.PodAffinityTerm {
	return v1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}, TopologyKey: topology}
}

// spread keeps the zones within one pod of each other. Zones that the pod does
// not select count as well.
func spread(app string) change {
	return func(p *v1.Pod) {
		p.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector:      &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}},
			NodeAffinityPolicy: ptr.To(v1.NodeInclusionPolicyIgnore),
		}}
	}
}

func port(number int32) change {
	return func(p *v1.Pod) {
		p.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: number, HostPort: number}}
	}
}
