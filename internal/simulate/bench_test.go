package simulate

import (
	"context"
	"fmt"
	"runtime/metrics"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/steering"
)

// fleet is an empty fleet: groups of 25 machine types, some of them tainted or
// labelled, in three zones each and then in further copies that a label tells
// apart; and pods of so many kinds, some of which select, tolerate or spread.
func fleet(groups, pods, kinds int) *Setup {
	chain, err := expander.New(nil, expander.Config{})
	if err != nil {
		panic(err)
	}
	s := &Setup{Name: "fleet", Autoscaler: Autoscaler{Options: Options{Options: steering.Options{Chain: chain}}}}
	for i := range groups {
		s.Cloud.Groups = append(s.Cloud.Groups, fleetGroup(i))
	}
	for k := range kinds {
		replicas := (pods + kinds - 1 - k) / kinds
		w := v1alpha1.ScenarioWorkload{Name: fmt.Sprintf("w%03d", k), Replicas: int32(replicas), PodShape: fleetPod(k)}
		s.Workloads = append(s.Workloads, workload(&w))
	}
	return s
}

const machineTypes = 25

func fleetGroup(i int) fake.Group {
	machine, zone, pool := i%machineTypes, (i/machineTypes)%3, i/(machineTypes*3)
	cores := 4 << (machine % 5)
	m := v1alpha1.ScenarioMachine{
		Name: fmt.Sprintf("m%02d", machine),
		Resources: v1.ResourceList{
			v1.ResourceCPU:    *resource.NewQuantity(int64(cores), resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(int64(cores*(2+machine/5))<<30, resource.BinarySI),
		},
		Labels: map[string]string{"family": fmt.Sprintf("f%d", machine%4)},
	}
	if machine%8 == 7 {
		m.Taints = []v1.Taint{{Key: "dedicated", Value: "batch", Effect: v1.TaintEffectNoSchedule}}
	}
	most := int32(1000)
	g := v1alpha1.ScenarioNodeGroup{
		Name: fmt.Sprintf("%s-p%02d-%c", m.Name, pool, 'a'+zone), Zone: fmt.Sprintf("zone-%c", 'a'+zone), Max: &most, Machine: m.Name,
		Labels: map[string]string{"pool": fmt.Sprintf("p%02d", pool)},
	}
	return inlineGroup(&g, map[string]*v1alpha1.ScenarioMachine{m.Name: &m})
}

func fleetPod(k int) v1alpha1.PodShape {
	p := v1alpha1.PodShape{Requests: v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(int64(100+50*(k%40)), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(int64(128+64*(k%23))<<20, resource.BinarySI),
	}}
	switch {
	case k%10 == 3:
		p.NodeSelector = map[string]string{"family": fmt.Sprintf("f%d", k%4)}
	case k%10 == 7:
		p.Tolerations = []v1.Toleration{{Key: "dedicated", Operator: v1.TolerationOpExists}}
	case k%50 == 9:
		p.Spread = []v1alpha1.SpreadConstraint{{}} // over zones, maxSkew 1
	}
	return p
}

// BenchmarkRound50000 and BenchmarkRound5000 measure the first round: so many
// pending pods of 200 kinds, 1,000 empty groups.
func BenchmarkRound50000(b *testing.B) { benchmarkRound(b, 1000, 50_000, 200) }
func BenchmarkRound5000(b *testing.B)  { benchmarkRound(b, 1000, 5_000, 200) }

func benchmarkRound(b *testing.B, groups, pods, kinds int) {
	benchmarkFirstRound(b, func() *Setup { return fleet(groups, pods, kinds) })
}

// firstOrder plays until nodes are ordered: in the first loop the pods are too new.
func firstOrder(b *testing.B, s *simulation) {
	b.Helper()
	for range 3 {
		if err := s.step(context.Background()); err != nil {
			b.Fatal(err)
		}
		if s.last.scaleUp != nil && s.last.scaleUp.Grew() > 0 {
			return
		}
		s.jump(s.end())
	}
	b.Fatalf("nothing is ordered: %v", s.timeline.rows)
}

func benchmarkFirstRound(b *testing.B, setup func() *Setup) {
	b.ReportAllocs()
	var peak uint64
	for b.Loop() {
		stop := watchHeap(&peak)
		s, err := newSimulation(context.Background(), setup())
		if err != nil {
			b.Fatal(err)
		}
		firstOrder(b, s)
		stop()
	}
	b.ReportMetric(float64(b.Elapsed().Seconds())/float64(b.N), "s/round")
	b.ReportMetric(float64(peak)/(1<<20), "MiB-peak")
}

// spreadFleet is a fleet in use: eight machine types in three zones each, again
// and again in pools that a label tells apart, every fifth group with two nodes
// and a pod of each of ten workloads on them; and pending pods of 100 kinds. If
// spread, a fifth of the kinds spread over zones and a tenth over hostnames.
func spreadFleet(groups, pods int, spread bool) *Setup {
	const kinds, types = 100, 8
	chain, err := expander.New([]string{"least-waste"}, expander.Config{})
	if err != nil {
		panic(err)
	}
	s := &Setup{Name: "spread", Autoscaler: Autoscaler{Options: Options{Options: steering.Options{Chain: chain}}}}
	for k := range kinds {
		shape := v1alpha1.PodShape{Requests: v1.ResourceList{
			v1.ResourceCPU:    *resource.NewMilliQuantity(int64(100+150*(k%13)), resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(int64(256+384*(k%11))<<20, resource.BinarySI),
		}}
		switch {
		case spread && k%5 == 2:
			shape.Spread = []v1alpha1.SpreadConstraint{{MaxSkew: new(int32(1 + k%3))}}
		case spread && k%10 == 4:
			shape.Spread = []v1alpha1.SpreadConstraint{{
				MaxSkew: new(int32(1 + k/10%4)), TopologySpreadConstraint: v1.TopologySpreadConstraint{TopologyKey: v1.LabelHostname},
			}}
		case k%10 == 8: // so that no two groups are of one shape
			shape.NodeSelector = map[string]string{"pool": fmt.Sprintf("p%02d", k/10)}
		}
		replicas := (pods + kinds - 1 - k) / kinds
		w := v1alpha1.ScenarioWorkload{Name: fmt.Sprintf("w%02d", k), Replicas: int32(replicas), PodShape: shape}
		s.Workloads = append(s.Workloads, workload(&w))
	}
	for i := range groups {
		machine, zone, pool := i%types, i/types%3, i/types/3
		cores := 4 << (machine % 4)
		m := v1alpha1.ScenarioMachine{Name: fmt.Sprintf("m%d", machine), Resources: v1.ResourceList{
			v1.ResourceCPU:    *resource.NewQuantity(int64(cores), resource.DecimalSI),
			v1.ResourceMemory: *resource.NewQuantity(int64(cores*(4+machine/4*4))<<30, resource.BinarySI),
		}}
		most := int32(200)
		g := inlineGroup(&v1alpha1.ScenarioNodeGroup{
			Name: fmt.Sprintf("m%d-p%02d-%c", machine, pool, 'a'+zone), Zone: fmt.Sprintf("zone-%c", 'a'+zone), Max: &most, Machine: m.Name,
			Labels: map[string]string{"pool": fmt.Sprintf("p%02d", pool)},
		}, map[string]*v1alpha1.ScenarioMachine{m.Name: &m})
		for n := range 2 {
			if i%5 != 0 {
				break
			}
			node := g.Template.Node.DeepCopy()
			node.Name = fmt.Sprintf("%s-%d", g.ID, n)
			node.Labels[v1.LabelHostname] = node.Name
			node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
			g.Nodes = append(g.Nodes, node)
			for p := range 5 {
				pod := s.Workloads[(i+n*5+p)%kinds].Pod.DeepCopy()
				pod.Name, pod.Spec.NodeName = fmt.Sprintf("on-%s-%d", node.Name, p), node.Name
				s.Pods = append(s.Pods, pod)
			}
		}
		s.Cloud.Groups = append(s.Cloud.Groups, g)
	}
	return s
}

// BenchmarkSpreadRound measures the first round of a fleet in use, from pods
// that arrive to orders: with and without constraints on how pods spread.
func BenchmarkSpreadRound(b *testing.B) {
	for _, mode := range Modes() {
		for _, spread := range []bool{false, true} {
			for _, size := range []struct{ pods, groups int }{{5_000, 100}, {10_000, 200}, {25_000, 500}, {50_000, 1_000}} {
				b.Run(fmt.Sprintf("%s/spread=%t/pods=%d/groups=%d", mode, spread, size.pods, size.groups), func(b *testing.B) {
					benchmarkFirstRound(b, func() *Setup {
						s := spreadFleet(size.groups, size.pods, spread)
						s.Mode = mode
						return s
					})
				})
			}
		}
	}
}

// BenchmarkLaterRounds measures the rounds after the first of the same fleet, while
// the nodes that the earlier ones ordered are on their way.
func BenchmarkLaterRounds(b *testing.B) {
	const rounds = 5
	for _, size := range []struct{ pods, groups int }{{5_000, 100}, {10_000, 200}, {50_000, 1_000}} {
		b.Run(fmt.Sprintf("pods=%d/groups=%d", size.pods, size.groups), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				s, err := newSimulation(context.Background(), spreadFleet(size.groups, size.pods, true))
				if err != nil {
					b.Fatal(err)
				}
				firstOrder(b, s)
				b.StartTimer()
				for range rounds {
					s.jump(s.end())
					if err := s.step(context.Background()); err != nil {
						b.Fatal(err)
					}
				}
				if s.last.scaleUp.Grew() == 0 {
					b.Fatal("the last round ordered nothing")
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N*rounds), "s/round")
		})
	}
}

// watchHeap notes the largest amount of memory that objects on the heap, garbage
// included, take until the function it returns is called.
func watchHeap(peak *uint64) (stop func()) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	done, ended := make(chan struct{}), make(chan struct{})
	ticker := clock.RealClock{}.NewTicker(5 * time.Millisecond)
	go func() {
		defer close(ended)
		for {
			metrics.Read(sample)
			*peak = max(*peak, sample[0].Value.Uint64())
			select {
			case <-ticker.C():
			case <-done:
				return
			}
		}
	}()
	return func() {
		ticker.Stop()
		close(done)
		<-ended
	}
}

// BenchmarkRun plays a whole scenario: all rounds until every pod runs.
func BenchmarkRun(b *testing.B) {
	for _, pods := range []int{500} {
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				report, err := Run(context.Background(), fleet(pods/50, pods, 200), nil)
				if err != nil {
					b.Fatal(err)
				}
				if report.Status.Pending > 0 {
					b.Fatalf("%d pods are pending: %v", report.Status.Pending, report.Status.PendingPods)
				}
				b.ReportMetric(float64(report.Status.Rounds), "rounds")
				b.ReportMetric(float64(report.Status.NodesOrdered), "nodes")
			}
		})
	}
}

// BenchmarkWholeRun plays a fleet in use until every pod that can runs.
func BenchmarkWholeRun(b *testing.B) {
	for _, mode := range Modes() {
		for _, size := range []struct{ pods, groups int }{{5_000, 100}, {50_000, 1_000}} {
			b.Run(fmt.Sprintf("%s/pods=%d/groups=%d", mode, size.pods, size.groups), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s := spreadFleet(size.groups, size.pods, true)
					s.Mode = mode
					report, err := Run(context.Background(), s, nil)
					if err != nil {
						b.Fatal(err)
					}
					if report.Status.Running == 0 {
						b.Fatal("no pod runs")
					}
					b.ReportMetric(float64(report.Status.ScaleUps), "scaleups")
					b.ReportMetric(float64(report.Status.Pending), "pending")
					b.ReportMetric(float64(report.Status.Rounds), "rounds")
				}
			})
		}
	}
}
