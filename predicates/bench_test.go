package predicates

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// benchPods returns n pods of the given number of kinds, each with a name and a
// label of its own.
func benchPods(n, kinds int) []*v1.Pod {
	pods := make([]*v1.Pod, n)
	for i := range pods {
		pods[i] = benchPod(i%kinds, i)
	}
	return pods
}

func benchPod(kind, i int) *v1.Pod {
	name := fmt.Sprintf("app-%d-%d", kind, i)
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name), Labels: map[string]string{
			"app": fmt.Sprintf("app-%d", kind), "statefulset.kubernetes.io/pod-name": name, "pod-template-hash": "5d4f8c7b9",
		}},
		Spec: v1.PodSpec{
			Containers: []v1.Container{{
				Name: "main", Image: "registry.example.com/app:v1",
				Env: []v1.EnvVar{{Name: "POD", Value: name}},
				Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
					v1.ResourceCPU:    *resource.NewMilliQuantity(int64(100+10*(kind%40)), resource.DecimalSI),
					v1.ResourceMemory: *resource.NewQuantity(int64(128+64*(kind%7))<<20, resource.BinarySI),
				}},
			}},
			Volumes:     []v1.Volume{{Name: "tmp", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}},
			Tolerations: []v1.Toleration{{Key: "node.kubernetes.io/not-ready", Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}},
		},
	}
	if kind%5 == 1 {
		p.Spec.NodeSelector = map[string]string{"pool": fmt.Sprintf("pool-%d", kind%4)}
	}
	if kind%10 == 3 {
		p.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{
			{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}}, TopologyKey: v1.LabelHostname}}}}
	}
	return p
}

func spreadOver(p *v1.Pod, keys ...string) *v1.Pod {
	for _, key := range keys {
		p.Spec.TopologySpreadConstraints = append(p.Spec.TopologySpreadConstraints, v1.TopologySpreadConstraint{
			MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: v1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": p.Labels["app"]}},
		})
	}
	return p
}

// benchTemplates returns templates of the given number of shapes, each with
// labels of its own that no pod looks at.
func benchTemplates(n, shapes int) []Node {
	templates := make([]Node, n)
	for i := range templates {
		templates[i] = benchNode(fmt.Sprintf("group-%d", i), i%shapes)
	}
	return templates
}

func benchNode(name string, shape int) Node {
	cpu := resource.MustParse([]string{"4", "8", "16", "32", "64"}[shape%5])
	allocatable := v1.ResourceList{v1.ResourceCPU: cpu, v1.ResourceMemory: resource.MustParse("64Gi"),
		v1.ResourcePods: resource.MustParse("110")}
	return Node{Node: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			v1.LabelHostname: name, "group": name, "pool": fmt.Sprintf("pool-%d", shape/5%5),
			v1.LabelTopologyZone: fmt.Sprintf("zone-%d", shape%3), "beta.kubernetes.io/os": "linux", v1.LabelArchStable: "amd64",
		}},
		Status: v1.NodeStatus{Allocatable: allocatable, Capacity: allocatable},
	}}
}

func benchNodes(n, shapes int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = benchNode(fmt.Sprintf("node-%d", i), i%shapes)
	}
	return nodes
}

func BenchmarkKinds(b *testing.B) {
	for _, n := range []int{5_000, 50_000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			c := newChecker(b, Options{})
			pods := benchPods(n, 200)
			b.ReportAllocs()
			for b.Loop() {
				kinds, _, err := c.Cluster(nil).kinds(pods, false)
				if err != nil || len(kinds) != 200 {
					b.Fatal(len(kinds), err)
				}
			}
		})
	}
}

// BenchmarkFits reports how many fewer runs of the plugin chain there are than
// pods times groups.
func BenchmarkFits(b *testing.B) {
	for _, size := range []struct{ pods, kinds, groups, shapes, nodes int }{
		{2_000, 200, 100, 25, 0}, {20_000, 200, 1_000, 25, 0}, {20_000, 200, 1_000, 25, 1_000},
	} {
		b.Run(fmt.Sprintf("pods=%d/groups=%d/nodes=%d", size.pods, size.groups, size.nodes), func(b *testing.B) {
			c := newChecker(b, Options{})
			pods, templates := benchPods(size.pods, size.kinds), benchTemplates(size.groups, size.shapes)
			cluster := benchNodes(size.nodes, size.shapes)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.Fits(cluster, templates, pods); err != nil {
					b.Fatal(err)
				}
			}
			pre, filter := c.preFilterRuns, c.filterRuns
			b.ReportMetric(float64(filter)/float64(b.N), "runs/op")
			b.ReportMetric(float64(size.pods)*float64(size.groups)*float64(b.N)/float64(pre+filter), "pods*groups/runs")
		})
	}
}

// BenchmarkFitsSpread is Fits where every kind has a zone spread constraint.
func BenchmarkFitsSpread(b *testing.B) {
	c := newChecker(b, Options{})
	pods, templates, cluster := benchPods(2_000, 200), benchTemplates(1_000, 25), benchNodes(5_000, 25)
	for i := range pods {
		spreadOver(pods[i], v1.LabelTopologyZone)
		cluster[i].Pods = append(cluster[i].Pods, pods[i])
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Fits(cluster, templates, pods); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkPlace puts pods of 200 kinds on a fleet of 5,000 nodes, in bulk.
func BenchmarkPlace(b *testing.B) {
	for _, n := range []int{5_000, 50_000} {
		for _, shapes := range []int{25, 5_000} {
			b.Run(fmt.Sprintf("pods=%d/nodes=5000/classes=%d", n, shapes), func(b *testing.B) {
				c := newChecker(b, Options{})
				nodes := benchNodes(5_000, 25)
				if shapes > 25 {
					for i := range nodes { // no two nodes alike
						nodes[i].Node.Status.Allocatable[v1.ResourceMemory] = *resource.NewQuantity(int64(60<<30+i), resource.BinarySI)
					}
				}
				base := c.Cluster(nodes)
				b.ReportAllocs()
				for b.Loop() {
					s := base.Fork()
					placed := 0
					for k := range 200 {
						placed += placeAll(b, s, benchPod(k, 0), n/200)
					}
					b.ReportMetric(float64(placed), "placed")
				}
			})
		}
	}
}

func placeAll(b *testing.B, s *Cluster, p *v1.Pod, n int) int {
	runs, err := s.Place(p, n, 0, s.Len())
	if err != nil {
		b.Fatal(err)
	}
	placed := 0
	for _, r := range runs {
		placed += r.Nodes * r.PerNode
	}
	return placed
}

// BenchmarkPlaceOneByOne asks for every pod of its own what BenchmarkPlace asks
// for a kind, through the plain oracle: the baseline.
func BenchmarkPlaceOneByOne(b *testing.B) {
	for _, n := range []int{50, 200} {
		b.Run(fmt.Sprintf("oracle/pods=%d/nodes=100", n), func(b *testing.B) {
			o := newNaive(b)
			nodes := benchNodes(100, 25)
			for b.Loop() {
				w := naiveCluster(nodes).copy()
				for k := range 10 {
					w, _ = o.place(w, benchPod(k, 0), n/10, 0, len(w))
				}
			}
		})
		b.Run(fmt.Sprintf("bulk/pods=%d/nodes=100", n), func(b *testing.B) {
			base := newChecker(b, Options{}).Cluster(benchNodes(100, 25))
			for b.Loop() {
				s := base.Fork()
				for k := range 10 {
					placeAll(b, s, benchPod(k, 0), n/10)
				}
			}
		})
	}
}

// BenchmarkPlaceSpread places spread pods, which go one by one.
func BenchmarkPlaceSpread(b *testing.B) {
	for _, keys := range [][]string{{v1.LabelTopologyZone}, {v1.LabelHostname}, {v1.LabelTopologyZone, v1.LabelHostname}} {
		for _, nodes := range []int{100, 5_000} {
			b.Run(fmt.Sprintf("keys=%d/%s/nodes=%d", len(keys), keys[0], nodes), func(b *testing.B) {
				base := newChecker(b, Options{}).Cluster(benchNodes(nodes, 25))
				p := spreadOver(benchPod(0, 0), keys...)
				b.ReportAllocs()
				for b.Loop() {
					b.ReportMetric(float64(placeAll(b, base.Fork(), p, 1_000)), "placed")
				}
			})
		}
	}
}

func BenchmarkPlaceOnNew(b *testing.B) {
	for _, n := range []int{200, 20_000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			base := newChecker(b, Options{}).Cluster(nil)
			template, p := benchNode("t", 0), benchPod(3, 0)
			b.ReportAllocs()
			for b.Loop() {
				runs, err := base.Fork().PlaceOnNew(template, p, n, n/2)
				if err != nil || len(runs) != 1 || runs[0].Nodes != n/2 {
					b.Fatal(runs, err)
				}
			}
		})
	}
}

// BenchmarkPlaceOnNewSpread opens nodes for spread pods next to a full cluster.
func BenchmarkPlaceOnNewSpread(b *testing.B) {
	base := newChecker(b, Options{}).Cluster(benchNodes(1_000, 25))
	template, p := benchNode("t", 0), spreadOver(benchPod(0, 0), v1.LabelHostname)
	b.ReportAllocs()
	for b.Loop() {
		runs, err := base.Fork().PlaceOnNew(template, p, 300, 1_000)
		if err != nil || len(runs) == 0 {
			b.Fatal(runs, err)
		}
	}
}

func BenchmarkCluster(b *testing.B) {
	c := newChecker(b, Options{})
	nodes, pods := benchNodes(5_000, 25), benchPods(50_000, 200)
	for i, p := range pods {
		nodes[i%len(nodes)].Pods = append(nodes[i%len(nodes)].Pods, p)
	}
	b.ReportAllocs()
	for b.Loop() {
		if s := c.Cluster(nodes); s.Len() != len(nodes) {
			b.Fatal(s.Len())
		}
	}
}
