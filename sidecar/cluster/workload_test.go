package cluster

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/evenkeel/evenkeel/expander"
)

func podOn(name, node string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": "web"}, ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}},
		Spec: v1.PodSpec{
			NodeName: node, NodeSelector: map[string]string{"disk": "ssd"},
			TopologySpreadConstraints: []v1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule}},
			InitContainers:            []v1.Container{{Image: "i", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("2")}}}},
			Containers:                []v1.Container{{Image: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceMemory: resource.MustParse("1Gi")}}}},
			Volumes:                   []v1.Volume{{Name: "config", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{}}}, {Name: "data", VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{}}}},
		},
	}
}

// The watches follow pods and nodes, and keep of them what decides where pods go.
func TestWorkloadFollowsPodsAndNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewClientset(named("n"), podOn("waits", ""), podOn("runs", "n"))
		c, err := start(ctx, client, Options{Workload: true})
		if err != nil {
			t.Fatal(err)
		}
		wanted := func(want string) {
			t.Helper()
			synctest.Wait()
			workload, ok := c.Workload.List()
			var got []string
			for _, p := range workload.Pods {
				got = append(got, p.Name+"/"+p.Spec.NodeName)
			}
			if !ok || fmt.Sprint(got, len(workload.Nodes)) != want {
				t.Errorf("known: %t %v %d nodes, want %s", ok, got, len(workload.Nodes), want)
			}
		}
		wanted("[runs/n waits/] 1")
		pods := client.CoreV1().Pods("default")
		if _, err := pods.Update(ctx, podOn("waits", "n"), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := pods.Delete(ctx, "runs", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().Nodes().Create(ctx, named("m"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		wanted("[waits/n] 2")
		cancel()
		c.Wait()
	})
}

// Where pods may not be read they are not known, and the sidecar works without them.
func TestWorkloadThatMayNotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		client := fake.NewClientset(named("n"))
		client.PrependReactor("*", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", nil)
		})
		c, err := start(ctx, client, Options{Workload: true})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if _, ok := c.Workload.List(); ok || c.Nodes.Problem() != nil {
			t.Errorf("pods known: %t, nodes: %v", ok, c.Nodes.Problem())
		}
		cancel()
		c.Wait()
	})
}

// What a pod takes of a node is that of the whole pod, and of a pending one all is kept that decides
// where it may go.
func TestStrippedPods(t *testing.T) {
	waits, runs := podOn("p", ""), podOn("p", "n")
	for _, pod := range []*v1.Pod{waits, runs} {
		if got, want := expander.RequestsOf(strippedPod(pod)), expander.RequestsOf(pod); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("requests %+v, want %+v", got, want)
		}
	}
	pending := strippedPod(waits).Spec
	if len(pending.TopologySpreadConstraints) != 1 || len(pending.NodeSelector) != 1 || len(pending.Volumes) != 1 || pending.Volumes[0].PersistentVolumeClaim == nil {
		t.Errorf("a pending pod keeps %+v", pending)
	}
	if kept := strippedPod(runs); len(kept.Spec.Volumes) > 0 || kept.ManagedFields != nil || kept.Labels["app"] != "web" {
		t.Errorf("a pod on a node keeps %+v", kept)
	}
}
