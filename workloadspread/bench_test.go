package workloadspread

import (
	"fmt"
	"strconv"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// settled is a Deployment with so many pods, all in their subsets and with their costs.
func settled(b *testing.B, spec *v1alpha1.WorkloadSpreadSpec, pods int) Input {
	b.Helper()
	w := newFakeCluster(b, spec, int32(pods))
	in := Input{Name: "spread", State: w.state()}
	for i, n := range layout(spec, int32(pods), nil) {
		for k := range n {
			pod := &v1.Pod{}
			pod.Name, pod.UID = fmt.Sprintf("web-%d-%05d", i, k), "u"
			pod.Labels = map[string]string{"pod-template-hash": w.hash(0)}
			pod.Annotations = map[string]string{AnnotationSpread: Assignment{Name: "spread", Subset: spec.Subsets[i].Name,
				ID: fmt.Sprint(i, k)}.String()}
			pod.Spec.NodeName, pod.Status.Phase = "n", v1.PodRunning
			in.Pods = append(in.Pods, pod)
		}
	}
	d := Decide(in)
	for _, c := range d.Costs {
		c.Pod.Annotations[AnnotationCost] = number(c.Cost)
	}
	in.Status = d.Status
	return in
}

// distributions are those that are measured.
func distributions() map[string]*v1alpha1.WorkloadSpreadSpec {
	even, statefulSet := deployment("", "", ""), deployment("100", "200", "")
	even.Distribution = v1alpha1.DistributeEven
	statefulSet.TargetRef.Kind = "StatefulSet"
	return map[string]*v1alpha1.WorkloadSpreadSpec{"ordered": deployment("20%", "20%", "60%"), "even": even, "statefulset": statefulSet}
}

// An idle decision about a workload of a size.
func BenchmarkDecide(b *testing.B) {
	for name, spec := range distributions() {
		for _, pods := range []int{10, 100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", name, pods), func(b *testing.B) {
				in := settled(b, spec, pods)
				b.ReportAllocs()
				for b.Loop() {
					if d := Decide(in); d.Changed || len(d.Costs) > 0 {
						b.Fatal("not idle")
					}
				}
			})
		}
	}
}

// The admission of so many pods of which the controller sees none yet, each with what the last one left.
func BenchmarkAdmitBurst(b *testing.B) {
	for _, pods := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(pods), func(b *testing.B) {
			w := newFakeCluster(b, deployment("20%", "20%", "60%"), int32(pods))
			revision := w.hash(0)
			b.ReportAllocs()
			for b.Loop() {
				s := w.state()
				for i := range pods {
					a := Admit(s, NewPod{ID: strconv.Itoa(i), Revision: revision})
					if a.Subset < 0 {
						b.Fatal(a.Message)
					}
					s.Status = a.Status
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*pods), "ns/pod")
		})
	}
}

// The admission of the pod that is missing.
func BenchmarkAdmit(b *testing.B) {
	for name, spec := range distributions() {
		for _, pods := range []int{10, 100, 1000, 10000} {
			b.Run(fmt.Sprintf("%s/%d", name, pods), func(b *testing.B) {
				in := settled(b, spec, pods)
				in.Workload.Replicas++
				b.ReportAllocs()
				for b.Loop() {
					if a := Admit(in.State, NewPod{ID: "new", Revision: "r0", Ordinal: int32(pods)}); a.Subset < 0 {
						b.Fatal(a.Message)
					}
				}
			})
		}
	}
}
