package cluster

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/evenkeel/evenkeel/internal/autoscalerstatus"
	"github.com/evenkeel/evenkeel/steering"
)

// reported is what WatchStatus reports at once.
type reported struct {
	sizes steering.Sizes
	err   error
}

// watchStatus begins to watch, and returns a function that waits for the next report.
func watchStatus(t *testing.T, client *fake.Clientset) (next func() reported) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	b, err := startBeside(ctx, client, Options{ConfigMap: autoscalerstatus.ConfigMap}, false)
	if err != nil {
		t.Fatal(err)
	}
	reports := make(chan reported, 10)
	b.WatchStatus(ctx, func(sizes steering.Sizes, err error) { reports <- reported{sizes, err} })
	t.Cleanup(func() { cancel(); b.Wait() })
	return func() reported {
		t.Helper()
		select {
		case r := <-reports:
			return r
		case <-time.After(time.Minute):
			t.Fatal("nothing is reported")
		}
		return reported{}
	}
}

func statusText(target string) string {
	return `time: 2026-11-01 12:00:00.5 +0000 UTC
autoscalerStatus: Running
nodeGroups:
- name: a
  health:
    status: Healthy
    nodeCounts: {registered: {total: 3, ready: 2, unready: {total: 1}}, longUnregistered: 1}
    cloudProviderTarget: ` + target + `
    minSize: 1
    maxSize: 9
  scaleUp: {status: Backoff, backoffInfo: {errorCode: cloudProviderError, errorMessage: no machines}}
`
}

func statusMap(text string) *v1.ConfigMap {
	return &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: DefaultNamespace, Name: autoscalerstatus.ConfigMap},
		Data: map[string]string{autoscalerstatus.Key: text}}
}

// TestWatchStatus: whatever becomes of the ConfigMap is reported.
func TestWatchStatus(t *testing.T) {
	client := fake.NewClientset()
	next := watchStatus(t, client)
	maps := client.CoreV1().ConfigMaps(DefaultNamespace)
	if r := next(); r.err == nil || !strings.Contains(r.err.Error(), "does not exist") {
		t.Errorf("without the ConfigMap: %v", r.err)
	}
	update := func(m *v1.ConfigMap) reported {
		t.Helper()
		if _, err := maps.Update(t.Context(), m, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		return next()
	}
	if _, err := maps.Create(t.Context(), statusMap(statusText("4")), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	want := steering.GroupSize{Name: "a", Target: 4, MinSize: 1, MaxSize: 9, Ready: 2, Unready: 1, Lost: 1, BackedOff: "no machines",
		Refused: true}
	r := next()
	if r.err != nil || len(r.sizes.Groups) != 1 || r.sizes.Groups[0] != want ||
		!r.sizes.Began.Equal(time.Date(2026, 11, 1, 12, 0, 0, 500_000_000, time.UTC)) {
		t.Errorf("got %+v, %v, want %+v", r.sizes, r.err, want)
	}
	for text, problem := range map[string]string{
		"time: 2026-11-01 12:00:00.5 +0000 UTC\nautoscalerStatus: Initializing": "is starting",
		strings.Replace(statusText("4"), "time:", "when:", 1):                   "it has no time",
		strings.Replace(statusText("x"), "x", "[]", 1):                          "cloudProviderTarget",
	} {
		if r := update(statusMap(text)); r.err == nil || !strings.Contains(r.err.Error(), problem) {
			t.Errorf("%q: %v, want an error with %q", text, r.err, problem)
		}
	}
	empty := statusMap("")
	empty.Data = nil
	if r := update(empty); r.err == nil || !strings.Contains(r.err.Error(), `no key "status"`) {
		t.Errorf("without the key: %v", r.err)
	}
	if r := update(statusMap(statusText("5"))); r.err != nil || r.sizes.Groups[0].Target != 5 {
		t.Errorf("got %+v, %v, want 5 nodes again", r.sizes, r.err)
	}
	if err := maps.Delete(t.Context(), autoscalerstatus.ConfigMap, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if r := next(); r.err == nil || !strings.Contains(r.err.Error(), "does not exist") {
		t.Errorf("after its deletion: %v", r.err)
	}
}

// TestWatchStatusWithoutRights names the manifests that grant them.
func TestWatchStatusWithoutRights(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("list", "configmaps", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(configMaps, autoscalerstatus.ConfigMap, nil)
	})
	client.PrependWatchReactor("configmaps", clienttesting.DefaultWatchReactor(nil,
		apierrors.NewForbidden(configMaps, autoscalerstatus.ConfigMap, nil)))
	if r := watchStatus(t, client)(); r.err == nil || !strings.Contains(r.err.Error(), expanderRBAC) {
		t.Errorf("without rights: %v", r.err)
	}
}

// TestNodesThatAreCounted: without their listing nothing is counted.
func TestNodesThatAreCounted(t *testing.T) {
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"large": "text"}},
		Status:     v1.NodeStatus{Conditions: []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	b, err := startBeside(ctx, fake.NewClientset(node), Options{}, true)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { cancel(); b.Wait() }()
	for {
		nodes, err := b.Nodes()
		if err != nil {
			continue // not listed yet
		}
		if len(nodes) != 1 || nodes[0].Labels["a"] != "b" || len(nodes[0].Annotations) > 0 || len(nodes[0].Status.Conditions) != 1 {
			t.Errorf("got %+v", nodes)
		}
		return
	}
}
