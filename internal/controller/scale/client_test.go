package scale_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
)

func start(t *testing.T) (*server, *scale.Client, *clocktesting.FakePassiveClock) {
	t.Helper()
	s := newServer()
	t.Cleanup(s.Close)
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
	c, err := scale.New(s.config(), scale.Options{Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return s, c, clock
}

func TestGet(t *testing.T) {
	s, c, _ := start(t)
	s.serve("example.com/v1", "Rollout", "rollouts")
	s.serve("example.com/v1beta1", "Rollout", "rollouts")
	s.serve("example.com/v2beta1", "Future", "futures")
	s.add("apps/v1", "deployments", "web", "app=web,tier in (a,b)", 3)
	s.add("apps/v1", "deployments", "all", "", 4)
	s.add("apps/v1", "deployments", "odd", "a in", 5)
	s.add("example.com/v1", "rollouts", "api", "app=api", 2)
	denied := metav1.Status{Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: "User \"x\" cannot get"}
	s.answer(http.MethodGet, path("apps/v1", "deployments", "secret"), denied)
	s.answer(http.MethodGet, path("apps/v1", "deployments", "broken"), metav1.Status{Code: 500, Reason: metav1.StatusReasonInternalError})

	deployment := func(name string) v1alpha1.ScaleTargetReference {
		return v1alpha1.ScaleTargetReference{Kind: "Deployment", Name: name}
	}
	rollout := func(version string) v1alpha1.ScaleTargetReference {
		return v1alpha1.ScaleTargetReference{APIVersion: version, Kind: "Rollout", Name: "api"}
	}
	tests := map[string]struct {
		ref      v1alpha1.ScaleTargetReference
		reason   scale.Reason
		replicas int32
		resource string
		says     string // part of the error
	}{
		"without apiVersion": {ref: deployment("web"), replicas: 3, resource: "apps/v1, Resource=deployments"},
		"with apiVersion": {ref: v1alpha1.ScaleTargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, replicas: 3,
			resource: "apps/v1, Resource=deployments"},
		"custom resource":       {ref: rollout("example.com/v1"), replicas: 2, resource: "example.com/v1, Resource=rollouts"},
		"not preferred version": {ref: rollout("example.com/v1beta1"), replicas: 2, resource: "example.com/v1, Resource=rollouts"},
		"version not served":    {ref: rollout("example.com/v9"), reason: scale.ReasonUnknownKind, says: "does not serve this kind"},
		"unknown kind": {ref: v1alpha1.ScaleTargetReference{APIVersion: "example.com/v1", Kind: "Nothing", Name: "x"},
			reason: scale.ReasonUnknownKind, says: "install its definition"},
		"apps without the kind": {ref: v1alpha1.ScaleTargetReference{Kind: "StatefulSet", Name: "x"}, reason: scale.ReasonUnknownKind},
		"no object":             {ref: deployment("none"), reason: scale.ReasonNotFound, says: "Deployment none in namespace shop"},
		"no scale": {ref: v1alpha1.ScaleTargetReference{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "x"},
			reason: scale.ReasonNoScale, says: "daemonsets.apps has no scale"},
		"no scale in the core": {ref: v1alpha1.ScaleTargetReference{APIVersion: "v1", Kind: "ConfigMap", Name: "x"},
			reason: scale.ReasonNoScale, says: "configmaps has no scale"},
		"not in a namespace": {ref: v1alpha1.ScaleTargetReference{APIVersion: "v1", Kind: "Node", Name: "x"},
			reason: scale.ReasonInvalidReference, says: "not namespaced"},
		"kind needs apiVersion": {ref: v1alpha1.ScaleTargetReference{Kind: "Rollout", Name: "x"}, reason: scale.ReasonInvalidReference,
			says: "set apiVersion"},
		"apiVersion not parsed": {ref: v1alpha1.ScaleTargetReference{APIVersion: "a/b/c", Kind: "Rollout", Name: "x"},
			reason: scale.ReasonInvalidReference, says: `"a/b/c"`},
		"no name":             {ref: deployment(""), reason: scale.ReasonInvalidReference, says: "kind and a name"},
		"no selector":         {ref: deployment("all"), reason: scale.ReasonEmptySelector, replicas: 4, says: "labelSelectorPath"},
		"selector not parsed": {ref: deployment("odd"), reason: scale.ReasonUnavailable, says: "selector"},
		"forbidden": {ref: deployment("secret"), reason: scale.ReasonForbidden,
			says: `"get" on resource "deployments/scale" of API group "apps"`},
		"server at fault": {ref: deployment("broken"), reason: scale.ReasonUnavailable},
		"first version is other": {ref: v1alpha1.ScaleTargetReference{APIVersion: "example.com/v2beta1", Kind: "Future", Name: "x"},
			reason: scale.ReasonNotFound},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := c.Get(t.Context(), "shop", test.ref)
			if reason := scale.ReasonOf(err); reason != test.reason || (err != nil) != (reason != "") {
				t.Fatalf("reason %q, want %q: %v", reason, test.reason, err)
			}
			if err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("error %q says nothing of %q", err, test.says)
			}
			if got.Replicas != test.replicas || got.StatusReplicas != test.replicas {
				t.Errorf("got %+v, want %d replicas", got, test.replicas)
			}
			if err != nil {
				if got.Selector != nil && got.Selector.Matches(labels.Set{"app": "web"}) {
					t.Errorf("selector %q beside an error selects pods", got.Selector)
				}
				return
			}
			if got.Resource.String() != test.resource || got.UID != "uid-1" || got.ResourceVersion != "1" {
				t.Errorf("got %+v, want resource %s", got, test.resource)
			}
		})
	}
	if _, err := c.Get(t.Context(), "", deployment("web")); scale.ReasonOf(err) != scale.ReasonInvalidReference {
		t.Errorf("without namespace: %v", err)
	}
}

func TestUpdate(t *testing.T) {
	s, c, _ := start(t)
	s.add("apps/v1", "deployments", "web", "app=web", 3)
	ref := v1alpha1.ScaleTargetReference{Kind: "Deployment", Name: "web"}
	was, err := c.Get(t.Context(), "shop", ref)
	if err != nil {
		t.Fatal(err)
	}
	now, err := c.Update(t.Context(), was, 5)
	if err != nil || now.Replicas != 5 || now.ResourceVersion != "2" || now.Selector.String() != "app=web" {
		t.Fatalf("got %+v, %v", now, err)
	}
	if _, err := c.Update(t.Context(), was, 1); scale.ReasonOf(err) != scale.ReasonConflict || !apierrors.IsConflict(errors.Unwrap(err)) {
		t.Errorf("written over a change: %v", err)
	}
	if now, err := c.Get(t.Context(), "shop", ref); err != nil || now.Replicas != 5 {
		t.Errorf("after a conflict: %+v, %v", now, err)
	}
	was.ResourceVersion = ""
	if _, err := c.Update(t.Context(), was, 1); scale.ReasonOf(err) != scale.ReasonConflict {
		t.Errorf("written without being read: %v", err)
	}
	for code, want := range map[int32]scale.Reason{
		http.StatusUnprocessableEntity: scale.ReasonRefused, http.StatusForbidden: scale.ReasonForbidden,
		http.StatusNotFound: scale.ReasonNotFound,
	} {
		reasons := map[int32]metav1.StatusReason{
			http.StatusUnprocessableEntity: metav1.StatusReasonInvalid, http.StatusForbidden: metav1.StatusReasonForbidden,
			http.StatusNotFound: metav1.StatusReasonNotFound,
		}
		s.answer(http.MethodPut, path("apps/v1", "deployments", "web"), metav1.Status{Code: code, Reason: reasons[code]})
		if _, err := c.Update(t.Context(), now, 1); scale.ReasonOf(err) != want {
			t.Errorf("answer %d: %v, want %s", code, err, want)
		}
	}
}

// TestAKindThatComesAndGoes: discovery is refreshed when it must be, and not each time a
// reference is wrong.
func TestAKindThatComesAndGoes(t *testing.T) {
	s, c, clock := start(t)
	ref := v1alpha1.ScaleTargetReference{APIVersion: "example.com/v1", Kind: "Rollout", Name: "api"}
	expect := func(reason scale.Reason, discoveries int) {
		t.Helper()
		if _, err := c.Get(t.Context(), "shop", ref); scale.ReasonOf(err) != reason {
			t.Fatalf("%v, want reason %q", err, reason)
		}
		if got := s.discoveries(); got > discoveries {
			t.Fatalf("the server was asked %d times for its kinds, want at most %d", got, discoveries)
		}
	}
	const fresh = 2 // times the list is read to know everything
	expect(scale.ReasonUnknownKind, 2*fresh)
	known := s.discoveries()
	for range 100 {
		expect(scale.ReasonUnknownKind, known)
	}
	s.serve("example.com/v1", "Rollout", "rollouts")
	s.add("example.com/v1", "rollouts", "api", "app=api", 2)
	expect(scale.ReasonUnknownKind, known)
	clock.SetTime(clock.Now().Add(scale.DefaultRefreshInterval))
	expect("", known+fresh)
	if resource, err := c.Resolve(ref); err != nil || resource.Resource != "rollouts" {
		t.Errorf("resolved to %v, %v", resource, err)
	}
	known = s.discoveries()
	s.withdraw("example.com/v1")
	clock.SetTime(clock.Now().Add(scale.DefaultRefreshInterval))
	expect(scale.ReasonUnknownKind, known+fresh)
}

// TestAGroupThatCanNotBeAsked: the server behind an aggregated API may be down while its kinds
// exist.
func TestAGroupThatCanNotBeAsked(t *testing.T) {
	s, c, clock := start(t)
	s.serve("example.com/v1", "Rollout", "rollouts")
	s.add("example.com/v1", "rollouts", "api", "app=api", 2)
	s.add("apps/v1", "deployments", "web", "app=web", 3)
	s.answer(http.MethodGet, "/apis/example.com/v1",
		metav1.Status{Code: http.StatusServiceUnavailable, Reason: metav1.StatusReasonServiceUnavailable})
	ref := v1alpha1.ScaleTargetReference{APIVersion: "example.com/v1", Kind: "Rollout", Name: "api"}
	if _, err := c.Get(t.Context(), "shop", ref); scale.ReasonOf(err) != scale.ReasonUnavailable {
		t.Errorf("its group does not answer: %v", err)
	}
	if _, err := c.Get(t.Context(), "shop", v1alpha1.ScaleTargetReference{Kind: "Deployment", Name: "web"}); err != nil {
		t.Errorf("another group: %v", err)
	}
	s.mu.Lock()
	clear(s.answers)
	s.mu.Unlock()
	clock.SetTime(clock.Now().Add(scale.DefaultRefreshInterval))
	if _, err := c.Get(t.Context(), "shop", ref); err != nil {
		t.Errorf("its group answers again: %v", err)
	}
}

// TestAServerThatIsAway distinguishes an unavailable server from a kind that is not served.
func TestAServerThatIsAway(t *testing.T) {
	s, c, _ := start(t)
	s.Close()
	if _, err := c.Get(t.Context(), "shop", v1alpha1.ScaleTargetReference{Kind: "Deployment",
		Name: "web"}); scale.ReasonOf(err) != scale.ReasonUnavailable {
		t.Error(err)
	}
}
