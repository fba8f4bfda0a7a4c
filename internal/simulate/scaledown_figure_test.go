package simulate

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/autoscaler/removal"
	"github.com/evenkeel/evenkeel/steering"
)

// fallen is a fleet of 10/10/10 nodes that were full of pods of three sizes, each
// of which had the chance of one in three to be still there.
func fallen(seed uint64, balancing bool) *Setup {
	r := rand.New(rand.NewPCG(seed, 1))
	s := &Setup{
		Name: "fallen", Duration: 6 * time.Hour,
		Autoscaler: Autoscaler{
			ScanInterval: DefaultTerminationTime, // half as many rounds
			Options:      Options{Options: steering.Options{NotBalanced: !balancing}},
			ScaleDown:    &removal.Options{Seed: seed},
		},
	}
	most := int32(20)
	machine := &v1alpha1.ScenarioMachine{Name: "m", Resources: v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("8"), v1.ResourceMemory: resource.MustParse("32Gi"),
	}}
	web := workload(&v1alpha1.ScenarioWorkload{Name: "web"})
	for _, name := range []string{"a", "b", "c"} {
		g := v1alpha1.ScenarioNodeGroup{Name: name, Zone: "zone-" + name, Machine: machine.Name, Size: 10, Max: &most}
		s.Cloud.Groups = append(s.Cloud.Groups, inlineGroup(&g, map[string]*v1alpha1.ScenarioMachine{machine.Name: machine}))
		for i := range int(g.Size) {
			for left := int64(8000); left > 0; {
				size := min(left, []int64{1000, 2000, 4000}[r.IntN(3)])
				left -= size
				if r.IntN(3) > 0 {
					continue
				}
				s.Pods = append(s.Pods, &v1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("p%d", len(s.Pods)), OwnerReferences: web.Pod.OwnerReferences},
					Spec: v1.PodSpec{NodeName: fmt.Sprintf("%s-%04d", name, i+1), Containers: []v1.Container{{Name: "main",
						Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(size,
							resource.DecimalSI)}}}}},
				})
			}
		}
	}
	return s
}

// ending is how a fleet ended.
type ending struct {
	removed, difference int
	// held: nodes had to wait for a larger group whose own nodes are all needed.
	held bool
}

// endOf reads the end of a fleet from its report. If the sizes differ by more
// than one with balancing, no node of a largest group may be one that could go.
func endOf(t *testing.T, report *v1alpha1.ScenarioReport, balancing bool) ending {
	status := &report.Status
	e := ending{removed: status.NodesScaledDown}
	if status.Pending > 0 || !status.Settled {
		t.Errorf("%d pods lost their place, settled: %t", status.Pending, status.Settled)
	}
	sizes := map[string]int{}
	for _, g := range status.Groups {
		sizes[g.Name] = g.After
	}
	most := slices.Max(slices.Collect(maps.Values(sizes)))
	e.difference = most - slices.Min(slices.Collect(maps.Values(sizes)))
	e.held = slices.ContainsFunc(status.Timeline, func(row v1alpha1.TimelineRow) bool { return row.What == v1alpha1.RowWaiting })
	if balancing && e.difference > 1 {
		for _, row := range status.WaitingNodes {
			if sizes[row.Group] == most && row.Reason != "its pods fit on no other node" {
				t.Errorf("sizes %v, but of the largest a node could go: %s", sizes, row.Reason)
			}
		}
	}
	return e
}

// endings plays the fleets of all seeds below a number.
func endings(t *testing.T, seeds int, balancing bool) []ending {
	ends := make([]ending, seeds)
	var next atomic.Int64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for seed := next.Add(1) - 1; seed < int64(seeds); seed = next.Add(1) - 1 {
				report, err := Run(context.Background(), fallen(uint64(seed), balancing), nil)
				if err != nil {
					t.Error(err)
					return
				}
				ends[seed] = endOf(t, report, balancing)
			}
		})
	}
	workers.Wait()
	return ends
}

// TestScaleDownKeepsSetsLevel plays fleets of 10/10/10 whose load falls to a third
// at random, with balancing and in Cluster Autoscaler's order. With balancing the
// sizes end at most one apart wherever the pods allow it, at the price of next to
// no node.
func TestScaleDownKeepsSetsLevel(t *testing.T) {
	t.Parallel()
	seeds := 300
	if testing.Short() {
		seeds = 25
	}
	removed, average := map[bool]int{}, map[bool]float64{}
	for _, balancing := range []bool{true, false} {
		var differences [11]int
		held, sum := 0, 0
		for _, e := range endings(t, seeds, balancing) {
			removed[balancing] += e.removed
			differences[e.difference]++
			sum += e.difference
			switch {
			case e.held:
				held++
			case balancing && e.difference > 1:
				t.Errorf("sizes differ by %d although nothing was held back", e.difference)
			}
		}
		average[balancing] = float64(sum) / float64(seeds)
		t.Logf("balancing %t: %d nodes removed; sizes differ by %.2f on average, fleets by difference %v; in %d nodes were held back for good",
			balancing, removed[balancing], average[balancing], differences, held)
	}
	if fewer := removed[false] - removed[true]; fewer*50 > removed[false] {
		t.Errorf("%d nodes removed with balancing, %d without: more than 2%% fewer", removed[true], removed[false])
	}
	if average[true] > 1 || average[false] < 2 {
		t.Errorf("sizes differ by %.2f with balancing, %.2f without", average[true], average[false])
	}
}
