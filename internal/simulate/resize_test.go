package simulate

import (
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	resourceapi "k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/resource"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/podfit"
)

// TestResizedPodsHoldWhatTheSchedulerSays: whatever a status says of a resize in place, pods of dumps and of
// scenarios hold the same as before what a simulation does not use was dropped.
func TestResizedPodsHoldWhatTheSchedulerSays(t *testing.T) {
	options := resource.PodResourcesOptions{UseStatusResources: true, InPlacePodLevelResourcesVerticalScalingEnabled: true}
	rapid.Check(t, func(t *rapid.T) {
		p := drawResized(t)
		want := resource.PodRequests(p, options)
		for from, got := range map[string]*v1.Pod{"scenario": ownPart(p, false, document.NewInterner()), "dump": plainPod(p)} {
			if held := resource.PodRequests(got, options); !equality.Semantic.DeepEqual(held, want) {
				t.Fatalf("%s: holds %v, want %v", from, held, want)
			}
		}
		if p.Spec.Resources == nil {
			held := want[v1.ResourceCPU]
			if got := podfit.HeldBy(p)[v1.ResourceCPU]; got != held.MilliValue() {
				t.Fatalf("scale-down counts %dm, want %s", got, &held)
			}
		}
		freed := ownPart(p, true, document.NewInterner())
		if held := resource.PodRequests(freed, options); !equality.Semantic.DeepEqual(held,
			resource.PodRequests(p, resource.PodResourcesOptions{})) {
			t.Fatalf("unbound, it holds %v", held)
		}
	})
}

func drawResized(t *rapid.T) *v1.Pod {
	cpu := func(name string) v1.ResourceList {
		if rapid.IntRange(0, 3).Draw(t, name+" missing") == 0 {
			return nil
		}
		return v1.ResourceList{v1.ResourceCPU: *resourceapi.NewMilliQuantity(rapid.Int64Range(1, 4).Draw(t, name)*500, resourceapi.DecimalSI)}
	}
	p := &v1.Pod{Spec: v1.PodSpec{NodeName: "n"}}
	p.Namespace, p.Name = "default", "p"
	always := v1.ContainerRestartPolicyAlways
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		c := v1.Container{Name: fmt.Sprint("c", i), Resources: v1.ResourceRequirements{Requests: cpu("requests")}}
		s := v1.ContainerStatus{Name: c.Name, AllocatedResources: cpu("allocated"), Image: "x", Ready: true}
		if rapid.IntRange(0, 3).Draw(t, "no resources") > 0 {
			s.Resources = &v1.ResourceRequirements{Requests: cpu("actual")}
		}
		if i == 2 {
			c.RestartPolicy = &always
			p.Spec.InitContainers, p.Status.InitContainerStatuses = []v1.Container{c}, []v1.ContainerStatus{s}
			continue
		}
		p.Spec.Containers, p.Status.ContainerStatuses = append(p.Spec.Containers, c), append(p.Status.ContainerStatuses, s)
	}
	if rapid.IntRange(0, 3).Draw(t, "pod level") == 0 {
		p.Spec.Resources = &v1.ResourceRequirements{Requests: cpu("pod requests")}
		p.Status.Resources, p.Status.AllocatedResources = &v1.ResourceRequirements{Requests: cpu("pod actual")}, cpu("pod allocated")
	}
	if reason := rapid.SampledFrom([]string{"", v1.PodReasonInfeasible, v1.PodReasonDeferred}).Draw(t, "pending"); reason != "" {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue},
			{Type: v1.PodResizePending, Status: v1.ConditionTrue, Reason: reason, Message: "x"}}
	}
	return p
}

// TestResizes: a node of 2 cores has a pod that requests one and is being resized, and a pod comes that
// wants one.
func TestResizes(t *testing.T) {
	status := func(actual, allocated, reason string) string {
		return fmt.Sprintf(`, status: {containerStatuses: [{name: c, allocatedResources: {cpu: %s}, resources: {requests: {cpu: %s}}}], conditions: [{type: PodResizePending, status: "True", reason: %q}]}`, allocated, actual, reason)
	}
	for name, c := range map[string]struct {
		requests, status string
		ordered          int
	}{
		"no resize":                  {requests: "1"},
		"a smaller size in progress": {requests: "1", status: status("1500m", "1", ""), ordered: 1},
		"a smaller size to come":     {requests: "1", status: status("1500m", "1500m", ""), ordered: 1},
		"a larger size is deferred":  {requests: "1500m", status: status("1", "1", v1.PodReasonDeferred), ordered: 1},
		"a larger one is infeasible": {requests: "1500m", status: status("1", "1", v1.PodReasonInfeasible)},
		"as large as it wants to be": {requests: "1", status: status("1", "1", "")},
	} {
		text := fmt.Sprintf(`apiVersion: evenkeel.dev/v1alpha1
kind: Scenario
metadata: {name: x}
spec:
  groupLabel: group
  machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}]
  nodeGroups: [{name: a, zone: z, machine: m, max: 9}]
  workloads: [{name: web, replicas: 1, requests: {cpu: 1}}]
  objects:
  - {apiVersion: v1, kind: Node, metadata: {name: n, labels: {group: a}}, status: {capacity: {cpu: 2, memory: 8Gi, pods: 110}}}
  - {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {nodeName: n, containers: [{name: c, resources: {requests: {cpu: %s}}}]}%s}
`, c.requests, c.status)
		docs, err := document.Read("x.yaml", strings.NewReader(text), document.Options{Kinds: Kinds()})
		if err != nil {
			t.Fatal(err)
		}
		setup, err := Load(&docs[0], Files{})
		if err != nil {
			t.Fatal(err)
		}
		report, err := Run(t.Context(), setup, nil)
		if err != nil {
			t.Fatal(err)
		}
		if report.Status.NodesOrdered != c.ordered {
			t.Errorf("%s: %d nodes ordered, want %d", name, report.Status.NodesOrdered, c.ordered)
		}
	}
}
