package podcache_test

import (
	"maps"
	"reflect"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/internal/controller/podcache"
	"github.com/evenkeel/evenkeel/podhealth"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// anyPod draws a pod in any state, with much that does not count.
func anyPod(t *rapid.T) *v1.Pod {
	when := func(name string) metav1.Time {
		return metav1.NewTime(noon.Add(-time.Duration(rapid.IntRange(0, 7200).Draw(t, name)) * time.Second))
	}
	text := rapid.SampledFrom([]string{"", "a", "b", "CrashLoopBackOff", "ContainerCreating"})
	state := func(name string) (s v1.ContainerState) {
		switch rapid.IntRange(0, 3).Draw(t, name) {
		case 0:
			s.Waiting = &v1.ContainerStateWaiting{Reason: text.Draw(t, "reason"), Message: "back-off 5m0s"}
		case 1:
			s.Running = &v1.ContainerStateRunning{StartedAt: when("running since")}
		case 2:
			s.Terminated = &v1.ContainerStateTerminated{
				ExitCode: rapid.Int32Range(0, 2).Draw(t, "exit code"), StartedAt: when("started"), FinishedAt: when("finished"),
				Reason: "Error", Message: "panic", ContainerID: "containerd://1",
			}
		}
		return s
	}
	containers := func(name string) (all []v1.ContainerStatus) {
		for range rapid.IntRange(0, 3).Draw(t, name) {
			all = append(all, v1.ContainerStatus{
				Name: "main", Image: "registry/image:1", ImageID: "sha256:1", ContainerID: "containerd://2", Ready: true, Started: new(true),
				RestartCount: rapid.Int32Range(0, 6).Draw(t, "restarts"), State: state("state"), LastTerminationState: state("last state"),
			})
		}
		return all
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: text.Draw(t, "name"), UID: types.UID(text.Draw(t, "uid")), ResourceVersion: text.Draw(t, "version"),
			Labels: rapid.MapOf(text, text).Draw(t, "labels"), Annotations: map[string]string{"note": "long"},
			CreationTimestamp: when("created"), ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
			OwnerReferences: []metav1.OwnerReference{{Name: "web"}}, Finalizers: []string{"example.com/f"},
		},
		Spec: v1.PodSpec{NodeName: "node", Containers: []v1.Container{{Name: "main", Image: "registry/image:1",
			Env: []v1.EnvVar{{Name: "A", Value: "b"}}}}},
		Status: v1.PodStatus{
			Phase: rapid.SampledFrom([]v1.PodPhase{"", v1.PodPending, v1.PodRunning, v1.PodSucceeded, v1.PodFailed, v1.PodUnknown}).Draw(t, "phase"),
			PodIP: "10.0.0.1", HostIP: "10.0.0.2", Message: "m", Reason: "r", StartTime: &metav1.Time{Time: noon},
			InitContainerStatuses: containers("init containers"), ContainerStatuses: containers("containers"),
			AllocatedResources: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")},
		},
	}
	if rapid.Bool().Draw(t, "terminating") {
		pod.DeletionTimestamp = new(when("deleted"))
	}
	for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodReady, v1.ContainersReady} {
		if rapid.Bool().Draw(t, string(kind)) {
			pod.Status.Conditions = append(pod.Status.Conditions, v1.PodCondition{
				Type: kind, Status: rapid.SampledFrom([]v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse, v1.ConditionUnknown}).Draw(t, "status"),
				LastTransitionTime: when("transition"), LastProbeTime: when("probe"), Reason: "R", Message: "m",
			})
		}
	}
	return pod
}

// A pod says as much trimmed as whole.
func TestTrimmedPodSaysAsMuch(t *testing.T) {
	trim := podcache.Trim(nil)
	rapid.Check(t, func(t *rapid.T) {
		whole := anyPod(t)
		before := whole.DeepCopy()
		out, err := trim(whole)
		trimmed, ok := out.(*v1.Pod)
		if err != nil || !ok {
			t.Fatalf("%T, %v", out, err)
		}
		if got, want := podhealth.Assess(trimmed), podhealth.Assess(whole); got != want {
			t.Fatalf("trimmed it says %+v, whole %+v", got, want)
		}
		if trimmed.Namespace != whole.Namespace || trimmed.Name != whole.Name || trimmed.UID != whole.UID ||
			trimmed.ResourceVersion != whole.ResourceVersion || !maps.Equal(trimmed.Labels, whole.Labels) {
			t.Fatalf("trimmed it is %+v, whole %+v", trimmed.ObjectMeta, whole.ObjectMeta)
		}
		if !reflect.DeepEqual(whole, before) {
			t.Fatal("the pod itself was changed")
		}
		if again, err := trim(trimmed); err != nil || !reflect.DeepEqual(again, out) {
			t.Fatalf("trimmed again it is %+v, %v", again, err)
		}
		if trimmed.Annotations != nil || trimmed.ManagedFields != nil || trimmed.Finalizers != nil || trimmed.Spec.Containers[0].Image != "" ||
			trimmed.Spec.Containers[0].Env != nil || trimmed.Status.PodIP != "" {
			t.Fatalf("something is kept that does not count: %+v", trimmed)
		}
	})
}
