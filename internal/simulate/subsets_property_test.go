package simulate

import (
	"encoding/json"
	"fmt"
	"maps"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// randomSpread draws a small scenario whose workloads have WorkloadSpreads over its zones, and rollouts.
func randomSpread(t *rapid.T) *Setup {
	s := randomSetup(t)
	for i := range s.Workloads {
		w := &s.Workloads[i]
		for range rapid.IntRange(0, 2).Draw(t, "rollouts") {
			at := time.Duration(rapid.IntRange(1, 20).Draw(t, "rollout")) * time.Minute
			if n := len(w.Rollouts); n > 0 {
				at = max(at, w.Rollouts[n-1])
			}
			w.Rollouts = append(w.Rollouts, max(at, w.Steps[0].At))
		}
		if rapid.IntRange(0, 3).Draw(t, "no spread") == 0 {
			continue
		}
		object := &v1alpha1.WorkloadSpread{Spec: drawSpread(t)}
		object.Name, object.Namespace = w.Name, w.Namespace
		object.Spec.TargetRef = v1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: w.Kind, Name: w.Name}
		s.Spreads = append(s.Spreads, Spread{Object: object, Workload: i})
	}
	return s
}

// drawSpread draws a valid spec over zones x, y and z.
func drawSpread(t *rapid.T) v1alpha1.WorkloadSpreadSpec {
	var spec v1alpha1.WorkloadSpreadSpec
	for i := range rapid.IntRange(1, 3).Draw(t, "subsets") {
		name := string(rune('x' + i))
		spec.Subsets = append(spec.Subsets, v1alpha1.WorkloadSubset{Name: name, RequiredNodeSelector: &v1.NodeSelectorTerm{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{name}}},
		}})
	}
	n := len(spec.Subsets)
	switch rapid.IntRange(0, 2).Draw(t, "distribution") {
	case 0:
		spec.Distribution = v1alpha1.DistributeEven
	default:
		for i := range n - 1 {
			if rapid.Bool().Draw(t, "limited") {
				most := intstr.FromInt32(rapid.Int32Range(0, 12).Draw(t, "max"))
				spec.Subsets[i].MaxReplicas = &most
			}
		}
	}
	if rapid.Bool().Draw(t, "refuse") {
		spec.WhenFull = v1alpha1.WhenFullRefuse
	}
	if rapid.Bool().Draw(t, "adaptive") {
		critical, window := rapid.Int32Range(0, 60).Draw(t, "critical"), int32(300)
		spec.ScheduleStrategy = v1alpha1.WorkloadScheduleStrategy{Type: v1alpha1.ScheduleAdaptive, Adaptive: &v1alpha1.AdaptiveSchedule{
			RescheduleCriticalSeconds: &critical, UnschedulableSeconds: &window, DisableSimulationSchedule: rapid.Bool().Draw(t, "blind"),
		}}
	}
	return spec
}

// TestCountsOfSpreadsEqualThePods: at every instant the counts are those of the pods, a pod that runs
// does so in the zone of its subset, and there are no more pods than the replicas and the surge.
func TestCountsOfSpreadsEqualThePods(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSpread(t)
		play(t, setup, func(s *simulation) {
			for _, m := range s.controllers.managed {
				checkManaged(t, s, m)
			}
		})
	})
}

func checkManaged(t *rapid.T, s *simulation, m *managed) {
	have, total := map[string]int32{}, 0
	for _, p := range s.cluster.pods {
		if p.owner != m {
			continue
		}
		if p.set != nil {
			have[p.subset()]++
			total++
		}
		if subset := p.subset(); subset != "" && p.node != nil && p.node.object.Labels[v1.LabelTopologyZone] != subset {
			t.Fatalf("+%s: %s of subset %s runs on %s", s.elapsed(), p.object.Name, subset, p.node.object.Name)
		}
	}
	if total > m.replicas+m.surge() || total+m.refused < m.replicas-m.unavailable() {
		t.Fatalf("+%s: %s has %d pods for %d replicas, %d refused", s.elapsed(), m.Name, total, m.replicas, m.refused)
	}
	if m.spread == nil {
		return
	}
	limits := workloadspread.Limits(&m.spread.object.Spec, int32(m.replicas), nil)
	unmarked := len(marks(m.spread.status)) == 0
	for i, subset := range m.spread.status.SubsetStatuses {
		if subset.Replicas != have[subset.Name] {
			t.Fatalf("+%s: subset %s of %s has %d pods, the status says %d", s.elapsed(), subset.Name, m.Name, have[subset.Name], subset.Replicas)
		}
		if unmarked && limits[i] != workloadspread.Unlimited && subset.MissingReplicas != max(0, limits[i]-have[subset.Name]) {
			t.Fatalf("+%s: subset %s of %s is missing %d with %d of %d", s.elapsed(), subset.Name, m.Name, subset.MissingReplicas, have[subset.Name],
				limits[i])
		}
	}
}

// TestSpreadsArePlayedTheSame: the same scenario gives the same bytes.
func TestSpreadsArePlayedTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSpread(t)
		first, err := json.Marshal(play(t, setup, nil))
		if err != nil {
			t.Fatal(err)
		}
		second, err := json.Marshal(play(t, setup, nil))
		if err != nil || string(first) != string(second) {
			t.Fatalf("%v\n%s\n%s", err, first, second)
		}
	})
}

// TestPodsLeaveInTheirOrder: what is deleted in a scale-down is the beginning of the order that was
// reported before.
func TestPodsLeaveInTheirOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSpread(t)
		setup.Cloud.Outages, setup.Cloud.StockOuts, setup.Cloud.Calls, setup.ScaleDown = nil, nil, nil, nil
		for i := range setup.Workloads {
			w := &setup.Workloads[i]
			w.Rollouts = nil
			w.Steps = []Step{{Replicas: 12}}
		}
		setup.withoutPriorities() // others would be preempted for those that stay
		before := play(t, setup, nil)
		for i := range setup.Workloads {
			w := &setup.Workloads[i]
			w.Steps = append(w.Steps, Step{At: 39 * time.Minute, Replicas: rapid.IntRange(0, 12).Draw(t, "left")})
		}
		if before.Status.End.Duration > 39*time.Minute {
			return // it was not at rest when the replicas changed
		}
		after := play(t, setup, nil)
		left := map[string]bool{}
		for _, p := range after.Status.Pods {
			left[p.Name] = p.Left != nil
		}
		for i, s := range before.Status.WorkloadSpreads {
			gone := len(s.DeletionOrder) - len(after.Status.WorkloadSpreads[i].DeletionOrder)
			want, got := map[string]int{}, map[string]int{} // among equal ones ages decide, which change with time
			for k, c := range s.DeletionOrder {
				rank := fmt.Sprintf("%s, pending %t", c.Subset, c.Node == "")
				if c.Cost != nil {
					rank += fmt.Sprintf(", cost %d", *c.Cost)
				}
				if k < gone {
					want[rank]++
				}
				if left[setup.Spreads[i].Object.Namespace+"/"+c.Pod] {
					got[rank]++
				}
			}
			if !maps.Equal(want, got) {
				t.Fatalf("%s: of the first %d to go there were %v, and %v went", s.Name, gone, want, got)
			}
		}
	})
}
