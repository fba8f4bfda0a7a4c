package clusterautoscaler

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// The autoscaler's whole loop on pods of which one fits on no node: the pods say what is done about them.
func TestPodsSayWhetherANodeIsOnItsWay(t *testing.T) {
	pods := append(spreadPods("web", 3, 1500), spreadPods("large", 1, 5000)...)
	client := kubefake.NewClientset()
	said := make(chan string, 100)
	client.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if a.GetSubresource() != "status" {
			t.Errorf("not the status is patched, but %q", a.GetSubresource())
		}
		said <- a.(clienttesting.PatchAction).GetName()
		return false, nil, nil
	})
	for _, pod := range pods {
		pod.UID = types.UID(pod.Name)
		must(t, client.Tracker().Add(pod.DeepCopy()))
	}
	trial{groups: zones(0, 5), pending: pods, conditions: client.CoreV1()}.play(t)
	for range pods {
		select {
		case <-said:
		case <-time.After(time.Minute):
			t.Fatal("some pods say nothing")
		}
	}
	for _, pod := range pods {
		got, err := client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, metav1.GetOptions{})
		must(t, err)
		condition := v1.PodCondition{}
		for _, c := range got.Status.Conditions {
			if c.Type == "NodeProvisioningInProgress" {
				condition = c
			}
		}
		status, reason := v1.ConditionTrue, ""
		if pod.Name == "large-0" {
			status, reason = v1.ConditionFalse, "NoOptionsAvailable"
		}
		if condition.Status != status || condition.Reason != reason || condition.Message == "" || condition.LastTransitionTime.IsZero() {
			t.Errorf("%s: %+v, want %s %s", pod.Name, condition, status, reason)
		}
	}
}
