package template_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
	"github.com/evenkeel/evenkeel/predicates"
)

// TestDaemonPodsAreThoseTheSchedulerTakes holds the daemon set pods of random templates against the
// real scheduler's filters.
func TestDaemonPodsAreThoseTheSchedulerTakes(t *testing.T) {
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		t.Fatal(err)
	}
	taken, refused := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		given := randomTemplate(t)
		var sets []*appsv1.DaemonSet
		for i := range 6 {
			set := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("set-", i), Namespace: "kube-system"}}
			set.Spec.Template.Spec = randomSpec(t)
			sets = append(sets, set)
		}
		got := given
		template.AddDaemonPods(&got, sets)
		var names, want []string
		for _, pod := range got.Pods[len(given.Pods):] {
			names = append(names, pod.Name)
		}
		var pods []*v1.Pod
		for _, set := range sets {
			pods = append(pods, template.DaemonPod(set))
		}
		fit, err := checker.Fits(nil, []predicates.Node{{Node: given.Node, Pods: given.Pods}}, pods)
		if err != nil {
			t.Fatal(err)
		}
		for i, pod := range pods {
			if fit.Passes(0, fit.KindOf(i)) {
				want = append(want, pod.Name)
			}
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Fatalf("daemon sets on the node, scheduler against template: %s", diff)
		}
		taken, refused = taken+len(want), refused+len(sets)-len(want)
	})
	if taken == 0 || refused == 0 {
		t.Errorf("%d pods taken and %d refused: the test shows nothing", taken, refused)
	}
}

func randomTemplate(t *rapid.T) cloudprovider.Template {
	resources := v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(rapid.Int64Range(0, 6000).Draw(t, "cpu"), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(rapid.Int64Range(0, 6).Draw(t, "memory")<<30, resource.BinarySI),
		v1.ResourcePods:   *resource.NewQuantity(rapid.Int64Range(0, 4).Draw(t, "pods"), resource.DecimalSI),
	}
	if rapid.Bool().Draw(t, "has devices") {
		resources["example.com/gpu"] = *resource.NewQuantity(rapid.Int64Range(0, 2).Draw(t, "devices"), resource.DecimalSI)
	}
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{v1.LabelHostname: "n"}},
		Status:     v1.NodeStatus{Capacity: resources, Allocatable: resources},
	}
	for _, key := range []string{"disk", "zone"} {
		if value := rapid.SampledFrom([]string{"", "a", "b", "3"}).Draw(t, key); value != "" {
			node.Labels[key] = value
		}
	}
	node.Spec.Unschedulable = rapid.Bool().Draw(t, "unschedulable")
	for range rapid.IntRange(0, 2).Draw(t, "taints") {
		taint := v1.Taint{
			Key:   rapid.SampledFrom([]string{"team", "gpu", v1.TaintNodeDiskPressure, v1.TaintNodeNotReady}).Draw(t, "key"),
			Value: rapid.SampledFrom([]string{"", "a"}).Draw(t, "value"),
			Effect: rapid.SampledFrom([]v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectNoExecute, v1.TaintEffectPreferNoSchedule}).Draw(t,
				"effect"),
		}
		node.Spec.Taints = append(node.Spec.Taints, taint)
	}
	out := cloudprovider.Template{Node: node}
	for i := range rapid.IntRange(0, 2).Draw(t, "static pods") {
		pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("static-", i), Namespace: "kube-system"}, Spec: randomSpec(t)}
		pod.Spec.NodeName = "n"
		out.Pods = append(out.Pods, pod)
	}
	return out
}

func randomSpec(t *rapid.T) v1.PodSpec {
	container := v1.Container{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
		v1.ResourceCPU:    *resource.NewMilliQuantity(rapid.Int64Range(0, 3000).Draw(t, "requested cpu"), resource.DecimalSI),
		v1.ResourceMemory: *resource.NewQuantity(rapid.Int64Range(0, 3).Draw(t, "requested memory")<<30, resource.BinarySI),
	}}}
	if rapid.Bool().Draw(t, "uses device") {
		container.Resources.Requests["example.com/gpu"] = *resource.NewQuantity(rapid.Int64Range(0, 2).Draw(t, "requested devices"),
			resource.DecimalSI)
	}
	for range rapid.IntRange(0, 2).Draw(t, "ports") {
		container.Ports = append(container.Ports, v1.ContainerPort{
			HostPort:      rapid.SampledFrom([]int32{0, 80, 81}).Draw(t, "port"),
			ContainerPort: 80,
			HostIP:        rapid.SampledFrom([]string{"", "10.0.0.1", "10.0.0.2", "0.0.0.0"}).Draw(t, "ip"),
			Protocol:      rapid.SampledFrom([]v1.Protocol{"", v1.ProtocolTCP, v1.ProtocolUDP}).Draw(t, "protocol"),
		})
	}
	spec := v1.PodSpec{Containers: []v1.Container{container}}
	if rapid.Bool().Draw(t, "has a sidecar") {
		always := v1.ContainerRestartPolicyAlways
		spec.InitContainers = []v1.Container{{Name: "i", Ports: container.Ports, Resources: container.Resources}}
		spec.Containers[0].Ports = nil
		if rapid.Bool().Draw(t, "restarts") {
			spec.InitContainers[0].RestartPolicy = &always
		}
	}
	switch rapid.IntRange(0, 5).Draw(t, "selects") {
	case 0:
		spec.NodeSelector = map[string]string{"disk": rapid.SampledFrom([]string{"a", "b"}).Draw(t, "disk")}
	case 1:
		spec.NodeName = rapid.SampledFrom([]string{"n", "m"}).Draw(t, "node")
	case 2:
		values := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "2"}), 1, 1).Draw(t, "values")
		operators := []v1.NodeSelectorOperator{v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn, v1.NodeSelectorOpGt, v1.NodeSelectorOpExists}
		requirement := v1.NodeSelectorRequirement{Key: "disk", Operator: rapid.SampledFrom(operators).Draw(t, "operator"), Values: values}
		if slices.Contains(operators[3:], requirement.Operator) {
			requirement.Values = nil
		}
		if requirement.Operator == v1.NodeSelectorOpGt {
			requirement.Values = []string{"2"}
		}
		spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{requirement}}},
		}}}
	case 3:
		named := v1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: v1.NodeSelectorOpIn, Values: []string{"m"}}
		spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchFields: []v1.NodeSelectorRequirement{named}}},
		}}}
	}
	for range rapid.IntRange(0, 2).Draw(t, "tolerations") {
		spec.Tolerations = append(spec.Tolerations, v1.Toleration{
			Key:      rapid.SampledFrom([]string{"team", "gpu"}).Draw(t, "tolerated"),
			Operator: rapid.SampledFrom([]v1.TolerationOperator{"", v1.TolerationOpEqual, v1.TolerationOpExists}).Draw(t, "toleration"),
			Effect:   rapid.SampledFrom([]v1.TaintEffect{"", v1.TaintEffectNoSchedule}).Draw(t, "tolerated effect"),
		})
	}
	return spec
}
