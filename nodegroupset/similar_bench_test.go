package nodegroupset

import (
	"fmt"
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/evenkeel/evenkeel/cloudprovider"
)

// benchFleet is a number of groups, three to a set, with 15 labels and 6
// resources each. Sets differ in a label or, with one exact part for all, in
// allocatable amounts only, along three resources.
func benchFleet(groups int, oneExactPart bool) []cloudprovider.Template {
	out := make([]cloudprovider.Template, groups)
	for i := range out {
		set, zone := i/3, string(rune('a'+i%3))
		team := fmt.Sprintf("team-%d", set)
		var step [3]float64
		if oneExactPart {
			team = "all"
			step = [3]float64{float64(set % 10), float64(set / 10 % 10), float64(set / 100)}
		}
		node := &v1.Node{}
		node.Labels = map[string]string{
			"kubernetes.io/hostname": fmt.Sprintf("node-%d", i), "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
			"topology.kubernetes.io/zone": "eu-west-1" + zone, "topology.kubernetes.io/region": "eu-west-1",
			"failure-domain.beta.kubernetes.io/zone": "eu-west-1" + zone, "failure-domain.beta.kubernetes.io/region": "eu-west-1",
			"eks.amazonaws.com/nodegroup": fmt.Sprintf("group-%d", i), "alpha.eksctl.io/nodegroup-name": fmt.Sprintf("group-%d", i),
			"topology.k8s.aws/zone-id": "euw1-az" + zone, "topology.ebs.csi.aws.com/zone": "eu-west-1" + zone,
			"node.kubernetes.io/instance-type": "m5.large", "family": "m5", "team": team, "example.com/stage": "production",
		}
		scaled := func(base float64, step float64) resource.Quantity {
			return *resource.NewQuantity(int64(base*math.Pow(1.06, step))+int64(i%3), resource.BinarySI)
		}
		node.Status.Capacity = list("cpu", "8", "memory", "64Gi", "pods", "110", "hugepages-1Gi", "8Gi", "hugepages-2Mi", "8Gi")
		node.Status.Capacity[v1.ResourceEphemeralStorage] = resource.MustParse("400Gi")
		node.Status.Allocatable = v1.ResourceList{
			"cpu": resource.MustParse("7910m"), "pods": resource.MustParse("110"),
			"memory": scaled(34e9, step[0]), "ephemeral-storage": scaled(200e9, step[1]),
			"hugepages-1Gi": scaled(4e9, step[2]), "hugepages-2Mi": resource.MustParse("8Gi"),
		}
		out[i] = cloudprovider.Template{Node: node, Pods: []*v1.Pod{podOf(list("cpu", "150m", "memory", "100Mi"))}}
	}
	return out
}

type fleetShape struct {
	groups       int
	oneExactPart bool
}

// pairwiseTime is what the baseline takes for all groups. Every group costs it the
// same, so beyond 300 groups it is measured on 300 of them against all.
func pairwiseTime(b *testing.B, shape fleetShape) time.Duration {
	nodes := pairwiseNodes(benchFleet(shape.groups, shape.oneExactPart))
	rows := min(shape.groups, 300)
	start := time.Now()
	if pairs := pairwiseRows(nodes, rows); pairs != 2*rows {
		b.Fatalf("the baseline finds %d pairs for %d groups", pairs, rows)
	}
	return time.Since(start) * time.Duration(shape.groups/rows)
}

func allSimilarCold(b *testing.B, names []string, fleet []cloudprovider.Template) *Index {
	x, err := NewIndex(Options{})
	if err != nil {
		b.Fatal(err)
	}
	for i, t := range fleet {
		if err := x.Set(names[i], t); err != nil {
			b.Fatal(err)
		}
	}
	for _, name := range names {
		if alike, _ := x.Alike(name); len(alike) != 3 {
			b.Fatalf("%s is alike with %d groups, itself included", name, len(alike))
		}
	}
	return x
}

func benchNames(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("group-%04d", i)
	}
	return out
}

func BenchmarkPairwise(b *testing.B) {
	for _, groups := range []int{30, 300, 1000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			nodes := pairwiseNodes(benchFleet(groups, false))
			b.ReportAllocs()
			for b.Loop() {
				pairwiseRows(nodes, groups)
			}
		})
	}
}

// BenchmarkAllSimilar answers for all groups from nothing, reading the templates
// included, beside one run of the baseline at the same size.
func BenchmarkAllSimilar(b *testing.B) {
	var times [3]time.Duration
	for i, groups := range []int{30, 300, 3000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			times[i] = benchAllSimilar(b, fleetShape{groups, false})
			if i > 0 && times[i-1] > 0 {
				b.ReportMetric(float64(times[i])/float64(times[i-1]), "x-time-of-a-tenth")
			}
		})
	}
}

// BenchmarkAllSimilarOneExactPart is the worst case: all groups agree in all that
// must be equal, and no single amount reports the sets apart.
func BenchmarkAllSimilarOneExactPart(b *testing.B) {
	for _, groups := range []int{300, 3000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) { benchAllSimilar(b, fleetShape{groups, true}) })
	}
}

// benchAllSimilar returns the shortest time of one run, which other work on the
// machine disturbs least.
func benchAllSimilar(b *testing.B, shape fleetShape) time.Duration {
	fleet, names := benchFleet(shape.groups, shape.oneExactPart), benchNames(shape.groups)
	baseline := pairwiseTime(b, shape)
	shortest := time.Duration(math.MaxInt64)
	b.ReportAllocs()
	for b.Loop() {
		shortest = min(shortest, timeOf(func() { allSimilarCold(b, names, fleet) }))
	}
	b.ReportMetric(float64(baseline)*float64(b.N)/float64(b.Elapsed()), "x-faster-than-pairwise")
	return shortest
}

// BenchmarkOneTemplateChanged replaces one template of 3,000 and asks for the
// groups similar to it.
func BenchmarkOneTemplateChanged(b *testing.B) {
	for _, oneExactPart := range []bool{false, true} {
		b.Run(fmt.Sprintf("oneExactPart=%v", oneExactPart), func(b *testing.B) {
			fleet, names := benchFleet(3000, oneExactPart), benchNames(3000)
			var x *Index
			cold := timeOf(func() { x = allSimilarCold(b, names, fleet) })
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i = (i + 7) % len(fleet)
				if err := x.Set(names[i], fleet[i]); err != nil {
					b.Fatal(err)
				}
				if len(x.Similar(names[i])) != 2 {
					b.Fatal("a changed group lost its set")
				}
			}
			b.ReportMetric(100*float64(b.Elapsed())/float64(b.N)/float64(cold), "%-of-cold")
		})
	}
}

func BenchmarkSets(b *testing.B) {
	for _, oneExactPart := range []bool{false, true} {
		b.Run(fmt.Sprintf("groups=3000/oneExactPart=%v", oneExactPart), func(b *testing.B) {
			x := allSimilarCold(b, benchNames(3000), benchFleet(3000, oneExactPart))
			b.ReportAllocs()
			for b.Loop() {
				if len(x.Sets()) != 1000 {
					b.Fatal("not three to a set")
				}
			}
		})
	}
}
