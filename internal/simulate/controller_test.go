package simulate

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

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
)

// TestReplicaSetsDeleteInTheOrderOfTheirController compares pods two by two: the
// first of each pair goes first, whatever the hashes of their names.
func TestReplicaSetsDeleteInTheOrderOfTheirController(t *testing.T) {
	nodeThat := func(ready v1.ConditionStatus) *node {
		return &node{object: &v1.Node{Status: v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: ready}}}}, upSince: epoch}
	}
	now := 10 * time.Hour
	alone, other, crowded, down := nodeThat(v1.ConditionTrue), nodeThat(v1.ConditionTrue), nodeThat(v1.ConditionTrue),
		nodeThat(v1.ConditionFalse)
	on := func(n *node, age, readyFor time.Duration, cost string) pod {
		return pod{node: n, object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1.PodDeletionCost: cost}}},
			life: &podLife{pending: now - age, report: v1alpha1.PodReport{
				Runs: []v1alpha1.PodRun{{Span: v1alpha1.Span{From: metav1.Duration{Duration: now - readyFor}}}},
			}}}
	}
	const hour = time.Hour
	for _, test := range []struct {
		name          string
		first, second pod
	}{
		{"without a node before one with", on(nil, 9*hour, 0, "9"), on(alone, hour, hour, "")},
		{"not ready before ready", on(down, 9*hour, 9*hour, "9"), on(alone, hour, hour, "")},
		{"of lower cost before doubled up", on(alone, 9*hour, 9*hour, "-1"), on(crowded, hour, hour, "")},
		{"doubled up before young", on(crowded, 9*hour, 9*hour, ""), on(alone, hour, hour, "")},
		{"ready for less time before young", on(alone, 9*hour, hour, ""), on(other, 5*hour, 5*hour, "")},
		{"young before old", on(alone, hour, hour, ""), on(other, 9*hour, hour, "")},
		{"a cost that cannot be read is none", on(alone, hour, hour, "-1"), on(other, hour, hour, "cheap")},
	} {
		for _, names := range [][2]string{{"a", "b"}, {"b", "a"}, {"web-1", "web-2"}, {"web-2", "web-1"}} {
			first, second, beside := test.first, test.second, on(crowded, 9*hour, 9*hour, "9")
			for i, p := range []*pod{&first, &second, &beside} {
				object := *p.object
				p.object = &object
				p.object.Name = append(names[:], "beside")[i]
			}
			pods := []*pod{&second, &beside, &first}
			ranked := rankAmong(pods, pods, now)
			if slices.Index(ranked, &first) > slices.Index(ranked, &second) {
				t.Errorf("%s: not so with the names %v", test.name, names)
			}
		}
	}
	// 9h and 5h lie in one power of two: chance decides, and differently for other names.
	decided := map[bool]bool{}
	for i := range 20 {
		old, young := on(alone, 9*hour, 9*hour, ""), on(other, 5*hour, 5*hour, "")
		old.object.Name, young.object.Name = fmt.Sprintf("old-%d", i), fmt.Sprintf("young-%d", i)
		pods := []*pod{&old, &young}
		decided[rankAmong(pods, pods, now)[0] == &old] = true
	}
	if len(decided) != 2 {
		t.Error("times in one power of two are told apart")
	}
}

// TestStatefulSetsDeleteTheHighestNumbers: and give them again.
func TestStatefulSetsDeleteTheHighestNumbers(t *testing.T) {
	w := v1alpha1.ScenarioWorkload{Name: "db", Kind: v1alpha1.WorkloadStatefulSet, Replicas: 4, Scale: []v1alpha1.ScaleStep{
		{At: metav1.Duration{Duration: time.Minute}, Replicas: 2}, {At: metav1.Duration{Duration: 2 * time.Minute}, Replicas: 3},
	}}
	w.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}
	setup := &Setup{Name: "s", Cloud: nightly(1, 5).Cloud, Objects: Objects{Workloads: []Workload{workload(&w)}}}
	s, err := newSimulation(context.Background(), setup)
	if err != nil {
		t.Fatal(err)
	}
	var seen [][]string
	for more := true; more; more = s.jump(s.end()) {
		if err := s.step(context.Background()); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, p := range s.cluster.pods {
			names = append(names, p.object.Name)
		}
		if len(seen) == 0 || !slices.Equal(seen[len(seen)-1], names) {
			seen = append(seen, names)
		}
	}
	want := [][]string{{"db-0", "db-1", "db-2", "db-3"}, {"db-0", "db-1"}, {"db-0", "db-1", "db-2"}}
	if !slices.EqualFunc(seen, want, slices.Equal) {
		t.Errorf("pods %v, want %v", seen, want)
	}
}

// nightly is a fleet of three zones that sleeps: so many pods by day, two to a
// node, of which a few stay at night.
func nightly(seed uint64, nodes int) *Setup {
	r := rand.New(rand.NewPCG(seed, 9))
	s := &Setup{
		Name: "nightly", Duration: 24 * time.Hour,
		Autoscaler: Autoscaler{ScanInterval: DefaultTerminationTime, ScaleDown: &removal.Options{Seed: seed, MaxDrainParallelism: 5}},
	}
	most := int32(40)
	machine := &v1alpha1.ScenarioMachine{Name: "m", Resources: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("2"), v1.ResourceMemory: resource.MustParse("8Gi"),
	}}
	for _, name := range []string{"a", "b", "c"} {
		g := v1alpha1.ScenarioNodeGroup{Name: name, Zone: "zone-" + name, Machine: machine.Name, Size: int32(nodes), Max: &most}
		s.Cloud.Groups = append(s.Cloud.Groups, inlineGroup(&g, map[string]*v1alpha1.ScenarioMachine{machine.Name: machine}))
	}
	day := 6 * nodes
	w := v1alpha1.ScenarioWorkload{Name: "web", Replicas: int32(day)}
	w.Requests = v1.ResourceList{v1.ResourceCPU: resource.MustParse("900m")}
	for hour := 2; hour < 22; hour += 5 {
		night := int32(1 + r.IntN(day*2/3))
		w.Scale = append(w.Scale,
			v1alpha1.ScaleStep{At: metav1.Duration{Duration: time.Duration(hour) * time.Hour}, Replicas: night},
			v1alpha1.ScaleStep{At: metav1.Duration{Duration: time.Duration(hour+3) * time.Hour}, Replicas: int32(day)})
	}
	w.Scale = append(w.Scale, v1alpha1.ScaleStep{At: metav1.Duration{Duration: 22 * time.Hour}, Replicas: int32(1 + r.IntN(day*2/3))})
	s.Workloads = []Workload{workload(&w)}
	return s
}

// TestDayAndNightEndLevel: fleets that shrink and grow several times end with
// sizes at most one apart, or all nodes are full, or the report says what holds
// those of the larger groups.
func TestDayAndNightEndLevel(t *testing.T) {
	seeds := 60
	if testing.Short() {
		seeds = 10
	}
	level := 0
	for seed := range uint64(seeds) {
		nodes := 2 + int(seed%6)
		report, err := Run(context.Background(), nightly(seed, nodes), nil)
		if err != nil {
			t.Fatal(err)
		}
		sizes := map[string]int{}
		most, least, total := 0, 1<<30, 0
		for _, g := range report.Status.Groups {
			sizes[g.Name] = g.After
			most, least, total = max(most, g.After), min(least, g.After), total+g.After
		}
		if report.Status.Pending > 0 {
			t.Errorf("seed %d: %d pods are pending", seed, report.Status.Pending)
		}
		if most-least <= 1 {
			level++
			continue
		}
		said := slices.ContainsFunc(report.Status.WaitingNodes, func(row v1alpha1.WaitingReport) bool { return row.Reason != "" })
		full := (report.Status.Running+1)/2 == total // two pods to a node: none can go
		if !said && !full {
			t.Errorf("seed %d: sizes %v, and nothing says why", seed, sizes)
		}
	}
	t.Logf("%d of %d fleets end level", level, seeds)
	if level*10 < seeds*9 {
		t.Errorf("%d of %d fleets end level", level, seeds)
	}
}
