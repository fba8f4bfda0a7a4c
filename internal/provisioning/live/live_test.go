package live_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/internal/provisioning/live"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// An apiServer serves events and the status of Cluster Autoscaler, one event a page.
type apiServer struct {
	mu     sync.Mutex
	events []v1.Event
	status string
	denies string   // part of the path that is forbidden
	asked  []string // paths and selectors
}

func (s *apiServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	query := r.URL.Query()
	s.asked = append(s.asked, strings.TrimSuffix(r.URL.Path+"?"+query.Get("fieldSelector"), "?"))
	w.Header().Set("Content-Type", "application/json")
	encode := func(object any) { _ = json.NewEncoder(w).Encode(object) }
	fail := func(code int, reason metav1.StatusReason) {
		w.WriteHeader(code)
		encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: int32(code),
			Reason: reason})
	}
	switch {
	case s.denies != "" && strings.Contains(r.URL.Path, s.denies):
		fail(http.StatusForbidden, metav1.StatusReasonForbidden)
	case strings.HasSuffix(r.URL.Path, "/events"):
		list := v1.EventList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "EventList"}}
		for _, e := range s.events {
			if strings.HasSuffix(query.Get("fieldSelector"), "source="+e.Source.Component) && strings.Contains(r.URL.Path, "/"+e.Namespace+"/") {
				list.Items = append(list.Items, e)
			}
		}
		from := 0
		_, _ = fmt.Sscan(query.Get("continue"), &from)
		if from < len(list.Items)-1 {
			list.Continue = fmt.Sprint(from + 1)
		}
		list.Items = list.Items[from:min(from+1, len(list.Items))]
		encode(list)
	case s.status == "":
		fail(http.StatusNotFound, metav1.StatusReasonNotFound)
	default:
		encode(v1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, Data: map[string]string{"status": s.status}})
	}
}

func (s *apiServer) questions() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.asked
	s.asked = nil
	return out
}

func start(t *testing.T, s *apiServer) (*live.Reader, *clocktesting.FakePassiveClock) {
	t.Helper()
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(v1.SchemeGroupVersion.WithKind("Event"), meta.RESTScopeNamespace)
	mapper.Add(v1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	c, err := client.New(&rest.Config{Host: server.URL, QPS: -1}, client.Options{Scheme: scheme.Scheme, Mapper: mapper})
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktesting.NewFakePassiveClock(noon.Add(time.Minute))
	return live.New(c, clock), clock
}

// pod is one that cannot be scheduled since noon.
func pod(namespace, name string, conditions ...v1.PodCondition) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID("uid of " + name)},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: append(conditions, v1.PodCondition{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(noon),
		})},
	}
}

func event(of *v1.Pod, component, reason string, seconds int) v1.Event {
	at := metav1.NewTime(noon.Add(time.Duration(seconds) * time.Second))
	return v1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: of.Namespace, Name: fmt.Sprint(of.Name, reason)},
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: of.Namespace, Name: of.Name, UID: of.UID},
		Reason:         reason, Message: map[string]string{"TriggeredScaleUp": "pod triggered scale-up: [{spot 3->4 (max: 10)}]"}[reason],
		Source:         v1.EventSource{Component: component},
		FirstTimestamp: at, LastTimestamp: at,
	}
}

func TestEventsAndStatusAreRead(t *testing.T) {
	a, b, c := pod("shop", "a"), pod("shop", "b"), pod("shop", "c")
	decided := pod("shop", "decided", v1.PodCondition{Type: provisioning.ConditionType, Status: v1.ConditionFalse,
		LastTransitionTime: metav1.NewTime(noon)})
	s := &apiServer{events: []v1.Event{
		event(a, "cluster-autoscaler", "TriggeredScaleUp", 5),
		event(b, "cluster-autoscaler", "TriggeredScaleUp", 5),
		event(b, "cluster-autoscaler", "NotTriggerScaleUp", 40),
		event(c, "karpenter", "Nominated", 8),
	}}
	r, clock := start(t, s)
	ask := func() string {
		t.Helper()
		got, err := r.ScaleUps(t.Context(), []*v1.Pod{a, b, c, decided, {ObjectMeta: metav1.ObjectMeta{UID: "runs"}}})
		if err != nil {
			t.Error(err)
		}
		text := ""
		for _, p := range []*v1.Pod{a, b, c, decided} {
			text += fmt.Sprintf("%s %t %v; ", p.Name, got[p.UID].Acting, got[p.UID].Since.Sub(noon))
		}
		return text
	}
	const before = "a true 5s; b false 40s; c true 8s; decided false 0s; "
	if got := ask(); got != before {
		t.Errorf("got %s, want %s", got, before)
	}
	const events = "/api/v1/namespaces/shop/events?involvedObject.kind=Pod,source="
	want := []string{events + "cluster-autoscaler", events + "cluster-autoscaler", events + "cluster-autoscaler", events + "karpenter",
		"/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status"}
	if got := s.questions(); !slices.Equal(got, want) {
		t.Errorf("asked %q, want %q", got, want)
	}

	s.mu.Lock()
	s.status = "time: 2026-06-01 12:00:58 +0000 UTC\nnodeGroups: [{name: spot, scaleUp: {status: Backoff, " +
		"lastTransitionTime: \"2026-06-01T12:00:50Z\"}}]"
	s.mu.Unlock()
	clock.SetTime(clock.Now().Add(live.MaxAge - time.Second))
	if got := ask(); got != before || len(s.questions()) > 0 {
		t.Errorf("an answer of %v ago is not used: %s", live.MaxAge-time.Second, got)
	}
	clock.SetTime(clock.Now().Add(time.Second))
	const after = "a false 1m20s; b false 1m20s; c true 8s; decided false 0s; "
	if got := ask(); got != after {
		t.Errorf("got %s, want %s", got, after)
	}
}

func TestNothingIsReadWhileNoPodWaits(t *testing.T) {
	s := &apiServer{}
	r, _ := start(t, s)
	decided := pod("shop", "a", v1.PodCondition{Type: provisioning.ConditionType, Status: v1.ConditionTrue,
		LastTransitionTime: metav1.NewTime(noon)})
	bound := pod("shop", "b")
	bound.Spec.NodeName = "n"
	got, err := r.ScaleUps(t.Context(), []*v1.Pod{decided, bound})
	if err != nil || len(got) != 1 || !got[decided.UID].Acting {
		t.Errorf("%+v, %v", got, err)
	}
	if asked := s.questions(); len(asked) > 0 {
		t.Errorf("asked %q", asked)
	}
	decided.Status.Conditions[0].Status = v1.ConditionFalse
	if got, err := r.ScaleUps(t.Context(), []*v1.Pod{decided}); err != nil || len(got) != 1 || got[decided.UID].Acting {
		t.Errorf("%+v, %v", got, err)
	}
	if asked := s.questions(); len(asked) != 1 || !strings.Contains(asked[0], "/configmaps/") {
		t.Errorf("asked %q, although the events do not matter", asked)
	}
}

func TestPodsAreKeptWhileNothingCanBeRead(t *testing.T) {
	a := pod("shop", "a")
	for _, denied := range []string{"/events", "/configmaps"} {
		s := &apiServer{denies: denied, events: []v1.Event{event(a, "cluster-autoscaler", "NotTriggerScaleUp", 5)}}
		r, _ := start(t, s)
		got, err := r.ScaleUps(t.Context(), []*v1.Pod{a})
		if err == nil || !got[a.UID].Acting || !got[a.UID].Since.Equal(noon) {
			t.Errorf("%s: %+v, %v", denied, got, err)
		}
		s.mu.Lock()
		s.denies = ""
		s.mu.Unlock()
		if got, err := r.ScaleUps(t.Context(), []*v1.Pod{a}); err != nil || got[a.UID].Acting {
			t.Errorf("%s: a failure is kept: %+v, %v", denied, got, err)
		}
	}
}

func TestAStatusThatIsNotUnderstoodLeavesTheEvents(t *testing.T) {
	a, b := pod("shop", "a"), pod("shop", "b")
	s := &apiServer{status: "Cluster-autoscaler status at 2018-07-25",
		events: []v1.Event{event(a, "cluster-autoscaler", "NotTriggerScaleUp", 5)}}
	r, _ := start(t, s)
	for range 2 {
		got, err := r.ScaleUps(t.Context(), []*v1.Pod{a, b})
		if err == nil || !strings.Contains(err.Error(), "status of Cluster Autoscaler: time") || len(got) != 1 || got[a.UID].Acting {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if asked := s.questions(); len(asked) != 3 || asked[2] != "/api/v1/namespaces/kube-system/configmaps/cluster-autoscaler-status" {
		t.Errorf("asked %q", asked)
	}
}
