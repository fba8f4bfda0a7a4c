package removal

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/predicates"
)

var start = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)

func newChecker(t testing.TB) *predicates.Checker {
	checker, err := predicates.New(context.Background(), predicates.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return checker
}

// machine is a ready node of 4 cores and 16 GiB in the zone of its group.
func machine(name, group string) *v1.Node {
	capacity := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse("10"),
	}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, v1.LabelTopologyZone: "zone-" + group}},
		Spec:       v1.NodeSpec{ProviderID: "test://" + name},
		Status: v1.NodeStatus{
			Capacity: capacity, Allocatable: capacity,
			Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}},
		},
	}
}

// replica is a pod of a ReplicaSet.
func replica(name string, milliCPU int64) *v1.Pod {
	isController := true
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name, Labels: map[string]string{"app": "web"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: &isController}},
		},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "main", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: *resource.NewMilliQuantity(milliCPU, resource.DecimalSI)},
		}}}},
	}
}

// bound puts pods on a node.
func bound(n *v1.Node, pods ...*v1.Pod) predicates.Node {
	for _, pod := range pods {
		pod.Spec.NodeName = n.Name
	}
	return predicates.Node{Node: n, Pods: pods}
}

func group(id string, size, least int) Group {
	return Group{
		ID: id, Min: least, Target: size,
		Settings: cloudprovider.GroupOptions{
			ScaleDownUtilizationThreshold: 0.5, ScaleDownGPUUtilizationThreshold: 0.5, ScaleDownUnneededTime: DefaultUnneededTime,
			ScaleDownUnreadyTime: DefaultUnreadyTime,
		},
	}
}

// drawWorld draws groups of up to four nodes each with pods of several kinds,
// some of which must not move, and nodes in all states.
func drawWorld(t *rapid.T) *World {
	w := &World{Now: start}
	for i := range rapid.IntRange(1, 3).Draw(t, "groups") {
		id := string(rune('a' + i))
		size := rapid.IntRange(0, 4).Draw(t, "size")
		g := group(id, size, rapid.IntRange(0, 2).Draw(t, "min"))
		g.AllOrNothing = rapid.IntRange(0, 9).Draw(t, "all or nothing") == 0
		w.Groups = append(w.Groups, g)
		for k := range size {
			w.Nodes = append(w.Nodes, drawNode(t, id, fmt.Sprintf("%s-%d", id, k)))
		}
	}
	for range rapid.IntRange(0, 2).Draw(t, "pending") {
		w.Pending = append(w.Pending, drawPod(t, fmt.Sprintf("pending-%d", len(w.Pending))))
	}
	for range rapid.IntRange(0, 1).Draw(t, "floors") {
		f := Floor{Name: "cores-total", Left: rapid.Int64Range(0, 12).Draw(t, "may go")}
		for range w.Nodes {
			f.Takes = append(f.Takes, rapid.Int64Range(0, 4).Draw(t, "takes"))
		}
		w.Floors = append(w.Floors, f)
	}
	for range rapid.IntRange(0, 2).Draw(t, "budgets") {
		selector := labels.SelectorFromSet(rapid.SampledFrom([]labels.Set{nil, {"app": "web"}, {"app": "apart"}}).Draw(t, "selector"))
		namespace := rapid.SampledFrom([]string{"default", "default", metav1.NamespaceSystem}).Draw(t, "namespace")
		w.Budgets = append(w.Budgets, Budget{Namespace: namespace, Name: "some", Selector: selector,
			Allowed: rapid.IntRange(0, 4).Draw(t, "allowed")})
	}
	if rapid.IntRange(0, 9).Draw(t, "cooling") == 0 {
		w.CoolingUntil = start.Add(time.Minute)
	}
	return w
}

func drawNode(t *rapid.T, group, name string) Node {
	n := Node{Group: group}
	object := machine(name, group)
	var pods []*v1.Pod
	for left := int64(4000); rapid.IntRange(0, 2).Draw(t, "another pod") > 0 && left > 0; {
		pod := drawPod(t, fmt.Sprintf("%s-%d", name, len(pods)))
		if left -= pod.Spec.Containers[0].Resources.Requests.Cpu().MilliValue(); left >= 0 {
			pods = append(pods, pod)
		}
	}
	n.Node = bound(object, pods...)
	switch rapid.IntRange(0, 9).Draw(t, "state") {
	case 0:
		n.Leaving, n.Draining = true, rapid.Bool().Draw(t, "draining")
	case 1:
		object.Status.Conditions[0].Status = v1.ConditionFalse
	case 2:
		object.Annotations = map[string]string{scaleDownDisabled: "true"}
	case 3:
		object.Spec.Unschedulable = true
	}
	if rapid.IntRange(0, 3).Draw(t, "seen before") > 0 {
		n.UnneededSince = start.Add(-time.Duration(rapid.IntRange(5, 25).Draw(t, "minutes")) * time.Minute)
	}
	return n
}

func drawPod(t *rapid.T, name string) *v1.Pod {
	pod := replica(name, rapid.SampledFrom([]int64{200, 500, 900, 1500}).Draw(t, "cpu"))
	selector := &metav1.LabelSelector{MatchLabels: pod.Labels}
	apart := func(key string) *v1.Affinity {
		return &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{LabelSelector: selector, TopologyKey: key}},
		}}
	}
	switch rapid.IntRange(0, 19).Draw(t, "kind of pod") {
	case 0:
		pod.OwnerReferences = nil
	case 1:
		pod.Annotations = map[string]string{safeToEvict: "false"}
	case 2:
		pod.Namespace, pod.CreationTimestamp = metav1.NamespaceSystem,
			metav1.NewTime(start.Add(-time.Duration(rapid.IntRange(0, 59).Draw(t, "age"))*time.Minute))
	case 3:
		pod.Spec.Volumes = []v1.Volume{{Name: "scratch", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
	case 4:
		pod.OwnerReferences[0].Kind = "DaemonSet"
	case 5, 6:
		pod.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "zone-a"}
	case 7:
		pod.Labels = map[string]string{"app": "apart"}
		selector.MatchLabels = pod.Labels
		pod.Spec.Affinity = apart(v1.LabelHostname)
	case 8:
		pod.Labels = map[string]string{"app": "wide"}
		selector.MatchLabels = pod.Labels
		pod.Spec.Affinity = apart(v1.LabelTopologyZone)
	case 9:
		pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
			MaxSkew: 2, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: selector,
		}}
	}
	return pod
}

func drawOptions(t *rapid.T) Options {
	return Options{
		MaxParallelism: rapid.IntRange(0, 3).Draw(t, "parallelism"), MaxDrainParallelism: rapid.IntRange(0, 3).Draw(t, "drains"),
		Seed: rapid.Uint64Range(0, 9).Draw(t, "seed"),
	}
}
