package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedv1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/internal/provisioning/conditions"
	"github.com/evenkeel/evenkeel/internal/provisioning/live"
	"github.com/evenkeel/evenkeel/sidecar/cluster"
	"github.com/evenkeel/evenkeel/steering"
)

// withoutNode makes a pod of which the scheduler has said so.
func withoutNode(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, name string) *v1.Pod {
	t.Helper()
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}}
	if err := plane.Client.Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable,
		LastTransitionTime: metav1.Now()}}
	if err := plane.Client.Status().Update(ctx, pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// The sidecar's rights do not let it write conditions of pods before they are added. Then a pod says
// what is done about it, and keeps what the scheduler has said.
func conditionsOfPods(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	a, bound, gone := withoutNode(ctx, t, plane, "a"), withoutNode(ctx, t, plane, "bound"), withoutNode(ctx, t, plane, "gone")
	before := gone.UID
	if err := plane.Client.Delete(ctx, gone, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	gone = withoutNode(ctx, t, plane, "gone")
	if err := plane.Client.SubResource("binding").Create(ctx, bound,
		&v1.Binding{Target: v1.ObjectReference{Kind: "Node", Name: "n"}}); err != nil {
		t.Fatal(err)
	}
	says := func(pod *v1.Pod) string {
		var now v1.Pod
		if err := plane.Client.Get(ctx, client.ObjectKeyFromObject(pod), &now); err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, c := range now.Status.Conditions {
			text += fmt.Sprintf("%s=%s %s; ", c.Type, c.Status, c.Reason)
		}
		return text
	}
	c := join(ctx, t, serviceAccount(plane), cluster.Options{PodConditions: conditions.NewMetrics(nil, "")})
	notice := func(pod *v1.Pod, uid types.UID, acting, failed bool) {
		c.Notices.Set([]steering.Notice{{Namespace: pod.Namespace, Name: pod.Name, UID: uid, Acting: acting, Failed: failed,
			Message: "node group spot grows"}})
	}
	const unsaid = "PodScheduled=False Unschedulable; "
	notice(a, a.UID, true, false)
	apply(ctx, t, plane, "pod-conditions")
	for _, step := range []struct {
		acting, failed bool
		want           string
	}{
		{true, false, "NodeProvisioningInProgress=True ; "},
		{true, true, "NodeProvisioningInProgress=True ProvisioningAttemptFailed; "},
		{false, false, "NodeProvisioningInProgress=False NoOptionsAvailable; "},
		{true, false, "NodeProvisioningInProgress=True ; "},
	} {
		until(ctx, t, "the pod says "+step.want, func() bool {
			notice(a, a.UID, step.acting, step.failed) // the rights take a moment to be known
			return says(a) == unsaid+step.want || says(a) == step.want+unsaid
		})
	}
	notice(gone, before, true, false)
	notice(bound, bound.UID, false, false)
	last := withoutNode(ctx, t, plane, "last")
	notice(last, last.UID, true, false)
	until(ctx, t, "the last pod says something", func() bool { return says(last) != unsaid })
	if got := says(gone); got != unsaid {
		t.Errorf("a pod has the condition of the one of its name before it: %s", got)
	}
	if got := says(bound); got != "PodScheduled=True ; " && got != unsaid {
		t.Errorf("a pod with a node says %s", got)
	}

	// What was written is what is read, without a question to the API server.
	pod := &v1.Pod{}
	if err := plane.Client.Get(ctx, client.ObjectKeyFromObject(a), pod); err != nil {
		t.Fatal(err)
	}
	scaleUps, err := live.New(nil, clock.RealClock{}).ScaleUps(ctx, []*v1.Pod{pod})
	if err != nil || !scaleUps[pod.UID].Acting {
		t.Errorf("the pod is read as %+v, %v", scaleUps, err)
	}
}

// What Cluster Autoscaler says about pods is read as it is written: by its own kind of recorder, and found
// by the API server's own selectors.
func saidByTheAutoscaler(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	triggered, refused, unheard := withoutNode(ctx, t, plane, "triggered"), withoutNode(ctx, t, plane, "refused"),
		withoutNode(ctx, t, plane, "unheard")
	clientset, err := kubernetes.NewForConfig(plane.Config)
	if err != nil {
		t.Fatal(err)
	}
	broadcaster := record.NewBroadcaster()
	defer broadcaster.Shutdown()
	broadcaster.StartRecordingToSink(&typedv1.EventSinkImpl{Interface: clientset.CoreV1().Events("")})
	recorder := broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "cluster-autoscaler"})
	recorder.Event(triggered, v1.EventTypeNormal, "TriggeredScaleUp", "pod triggered scale-up: [{spot 3->4 (max: 10)}]")
	recorder.Event(refused, v1.EventTypeNormal, "NotTriggerScaleUp", "pod didn't trigger scale-up: 2 max node group size reached")
	broadcaster.NewRecorder(scheme.Scheme, v1.EventSource{Component: "default-scheduler"}).Event(unheard, v1.EventTypeWarning,
		"FailedScheduling", "0/3 nodes are available")

	pods := []*v1.Pod{triggered, refused, unheard}
	reader := live.New(plane.Client, clock.RealClock{})
	until(ctx, t, "events are read", func() bool {
		got, err := reader.ScaleUps(ctx, pods)
		if err != nil {
			t.Fatal(err)
		}
		return len(got) == 2 && got[triggered.UID].Acting && !got[refused.UID].Since.IsZero() && !got[refused.UID].Acting
	})

	status := fmt.Sprintf("time: %s\nnodeGroups: [{name: spot, scaleUp: {status: Backoff, lastTransitionTime: %q}}]",
		time.Now().Add(time.Minute).UTC().Format("2006-01-02 15:04:05.999999999 -0700 MST"), time.Now().UTC().Format(time.RFC3339))
	object := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: provisioning.StatusConfigMap},
		Data: map[string]string{provisioning.StatusKey: status}}
	if err := plane.Client.Create(ctx, object); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the status is read", func() bool {
		got, err := reader.ScaleUps(ctx, pods)
		if err != nil {
			t.Fatal(err)
		}
		return !got[triggered.UID].Acting && got[triggered.UID].Since.After(time.Now())
	})
}
