package reconcile

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
)

// asked are the names of the Balancers of which something asks for a pass.
func asked(t *testing.T, b []client.Object, something func(*triggers, passes.Queue)) string {
	t.Helper()
	var names []string
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(b...).WithIndex(&v1alpha1.Balancer{}, byTargetName, targetNames).Build()
		q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		on := &triggers{balancers: &balancers{cache: c}}
		something(on, q)
		<-time.After(2 * passes.ChangeDelay)
		for q.Len() > 0 {
			r, _ := q.Get()
			names = append(names, r.Name)
			q.Done(r)
		}
		q.ShutDown()
	})
	slices.Sort(names)
	return strings.Join(names, " ")
}

func TestTriggers(t *testing.T) {
	elsewhere := balancerOf("elsewhere", 1, "a")
	elsewhere.Namespace = "other"
	deals := balancerOf("deals", 1, "a", "d")
	deals.Spec.Selector = v1alpha1.LabelSelector{
		MatchLabels:      map[string]v1alpha1.LabelValue{"app": "deals"},
		MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "canary", Operator: metav1.LabelSelectorOpDoesNotExist}},
	}
	all := []client.Object{balancerOf("web", 1, "a", "b"), balancerOf("shop", 1, "c"), deals, elsewhere, over("region", 1, "zone"),
		over("world", 1, "region")}
	ctx := t.Context()
	labelled := func(labels map[string]string) *v1.Pod { return running("p", labels) }
	for name, c := range map[string]struct {
		something func(*triggers, passes.Queue)
		want      string
	}{
		"a target": {func(on *triggers, q passes.Queue) {
			if err := on.Attach(ctx, q); err != nil {
				t.Error(err)
			}
			on.target(scale.Target{Namespace: "shop", Name: "a"})
		}, "deals web"},
		"a target, before the start": {func(on *triggers, _ passes.Queue) {
			on.target(scale.Target{Namespace: "shop", Name: "a"})
		}, ""},
		"what is no target": {func(on *triggers, q passes.Queue) {
			if err := on.Attach(ctx, q); err != nil {
				t.Error(err)
			}
			on.target(scale.Target{Namespace: "shop", Name: "z"})
		}, ""},
		"a pod of two": {func(on *triggers, q passes.Queue) {
			on.pods().Create(ctx, event.CreateEvent{Object: labelled(map[string]string{"app": "web"})}, q)
		}, "region shop web world"},
		"a pod that expressions select": {func(on *triggers, q passes.Queue) {
			on.pods().Delete(ctx, event.DeleteEvent{Object: labelled(map[string]string{"app": "deals"})}, q)
		}, "deals"},
		"a pod that expressions do not select": {func(on *triggers, q passes.Queue) {
			on.pods().Delete(ctx, event.DeleteEvent{Object: labelled(map[string]string{"app": "deals", "canary": ""})}, q)
		}, ""},
		"a pod that goes over": {func(on *triggers, q passes.Queue) {
			on.pods().Update(ctx, event.UpdateEvent{
				ObjectOld: labelled(map[string]string{"app": "web"}), ObjectNew: labelled(map[string]string{"app": "deals"}),
			}, q)
		}, "deals region shop web world"},
		"a rival": {func(on *triggers, q passes.Queue) {
			on.rivals().Delete(ctx, event.DeleteEvent{Object: balancerOf("gone", 1, "d", "c")}, q)
		}, "deals shop"},
		"what is below others": {func(on *triggers, q passes.Queue) {
			on.rivals().Create(ctx, event.CreateEvent{Object: balancerOf("zone", 1, "x")}, q)
		}, "region world"},
		"itself": {func(on *triggers, q passes.Queue) {
			on.rivals().Create(ctx, event.CreateEvent{Object: balancerOf("shop", 1, "c")}, q)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := asked(t, all, c.something); got != c.want {
				t.Errorf("passes over %q, want %q", got, c.want)
			}
		})
	}
}

func TestOnlyWhatCountsInAPodMatters(t *testing.T) {
	before := running("p", map[string]string{"app": "web"})
	for name, c := range map[string]struct {
		change func(*v1.Pod)
		want   bool
	}{
		"nothing":       {func(*v1.Pod) {}, false},
		"an annotation": {func(p *v1.Pod) { p.Annotations = map[string]string{"a": "b"} }, false},
		"its address":   {func(p *v1.Pod) { p.Status.PodIP = "10.0.0.1" }, false},
		"a label":       {func(p *v1.Pod) { p.Labels = map[string]string{"app": "db"} }, true},
		"its phase":     {func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, true},
		"its end":       {func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }, true},
	} {
		after := before.DeepCopy()
		c.change(after)
		if got := matters(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

func TestGroupsOfReferences(t *testing.T) {
	for version, group := range map[string]string{"": "apps", "apps/v1": "apps", "v1": "", "example.com/v2": "example.com"} {
		got := v1alpha1.ScaleTargetReference{APIVersion: version, Kind: "K", Name: "n"}
		if got.GroupKind() != (schema.GroupKind{Group: group, Kind: "K"}) ||
			!got.Same(v1alpha1.ScaleTargetReference{APIVersion: group + "/v9", Kind: "K", Name: "n"}) {
			t.Errorf("%q is of %+v, want group %q", version, got.GroupKind(), group)
		}
	}
}

func TestControllerIsSetUp(t *testing.T) {
	s := newServer()
	t.Cleanup(s.Close)
	_, err := controller.New(s.config(), []controller.Controller{New(Options{})},
		controller.Options{NoLeaderElection: true, Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
}

// Who does not know of pods yet is not ready, from the first moment on.
func TestItIsNotReadyBeforeItKnowsOfPods(t *testing.T) {
	s := newServer()
	t.Cleanup(s.Close)
	pods, open := make(chan struct{}, 100), make(chan struct{})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch query := r.URL.Query(); {
		case r.URL.Path == "/api/v1/pods" && !closed(open):
			fail(w, http.StatusForbidden, metav1.StatusReasonForbidden)
			pods <- struct{}{}
		case r.URL.Path != "/apis/evenkeel.dev/v1alpha1/balancers" && r.URL.Path != "/api/v1/pods":
			s.ServeHTTP(w, r)
		case query.Has("sendInitialEvents"):
			fail(w, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		case query.Has("watch"):
			<-r.Context().Done()
		case r.URL.Path == "/api/v1/pods":
			reply(w, v1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
		default:
			reply(w, v1alpha1.BalancerList{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "BalancerList"},
				ListMeta: metav1.ListMeta{ResourceVersion: "1"}})
		}
	}))
	t.Cleanup(func() { front.CloseClientConnections(); front.Close() })
	m, err := controller.New(&rest.Config{Host: front.URL}, []controller.Controller{New(Options{})},
		controller.Options{NoLeaderElection: true, Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	for range 4 { // several times, as a list falls back from a watch
		for waits := true; waits; {
			select {
			case <-pods:
				waits = false
			default:
			}
			if m.Ready() == nil {
				t.Fatal("it is ready")
			}
		}
	}
	if err := m.Ready(); err == nil || !strings.Contains(err.Error(), "the watch of *v1.Pod has failed") {
		t.Errorf("it does not say what is missing: %v", err)
	}
	close(open)
	for m.Ready() != nil { // it waits for a while itself
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// closed reports whether a channel is closed on which nothing is sent.
func closed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
