package reconcile

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
)

// The status is stored before anything is written. Objects are created by apply and rescaled by
// patch, each once.
func TestStatusIsStoredBeforeWrites(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a", "b")
	var early atomic.Int32
	for name, m := range f.members {
		m.answer(func(r *http.Request) (int, metav1.Status) {
			if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/apps/") {
				set := f.get()
				for _, c := range set.Status.Clusters {
					if c.Name == name && c.Written == *set.Spec.Replicas/2 {
						return 0, metav1.Status{}
					}
				}
				early.Add(1)
			}
			return 0, metav1.Status{}
		})
	}
	f.start()
	f.ask(10)
	f.settled("5 5")
	f.scale(14)
	f.settled("7 7")
	for name, m := range f.members {
		if got := m.written(); got != "POST replicasets/web 5, PATCH replicasets/web 7" {
			t.Errorf("%s: %s", name, got)
		}
	}
	if n := early.Load(); n != 0 {
		t.Errorf("%d writes before their status", n)
	}
}

// However a write fails, the cluster is named with its answer, and others get theirs. It is tried again
// later each time, and at once if the object changes.
func TestRefusedAndFailedWrites(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		code    int
		status  metav1.Status
		refusal string
	}{
		"forbidden": {http.StatusForbidden, metav1.Status{Reason: metav1.StatusReasonForbidden, Message: "exceeded quota: q"},
			"exceeded quota: q"},
		"invalid": {http.StatusUnprocessableEntity, metav1.Status{Reason: metav1.StatusReasonInvalid, Message: "spec.template: no"},
			"spec.template: no"},
		"no namespace": {http.StatusNotFound, metav1.Status{Reason: metav1.StatusReasonNotFound, Message: "namespaces shop not found",
			Details: &metav1.StatusDetails{Kind: "namespaces", Name: "shop"}}, "it has no namespace shop: create it there"},
		"no reason": {http.StatusBadRequest, metav1.Status{}, "the API server answered 400 Bad Request"},
		"conflict":  {http.StatusConflict, metav1.Status{Reason: metav1.StatusReasonConflict}, "the API server answered 409 Conflict"},
		"dead webhook": {http.StatusInternalServerError, metav1.Status{Reason: metav1.StatusReasonInternalError,
			Message: `failed calling webhook "quota.example.com"`}, `failed calling webhook "quota.example.com"`},
		"busy": {http.StatusTooManyRequests, metav1.Status{Reason: metav1.StatusReasonTooManyRequests, Message: "too many requests"},
			"too many requests"},
		"timeout": {http.StatusRequestTimeout, metav1.Status{Reason: metav1.StatusReasonTimeout}, "the API server answered 408 Timeout"},
		"credentials": {http.StatusUnauthorized, metav1.Status{Reason: metav1.StatusReasonUnauthorized},
			"the API server answered 401 Unauthorized"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, "a", "b")
			f.members["b"].answer(func(r *http.Request) (int, metav1.Status) {
				if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/apps/") {
					return c.code, c.status
				}
				return 0, metav1.Status{}
			})
			f.start()
			f.ask(10)
			f.until("refused", func() bool {
				_, reason, message := f.condition(v1alpha1.ConditionSettled)
				return reason == federation.ReasonRefused && strings.HasPrefix(message, "b did not take 5 replicas, 2 times") &&
					strings.HasSuffix(message, ": "+c.refusal) && f.sizes() == "5 -"
			})
			if r := f.get().Status.Clusters[1].Refused; !r.FirstTime.Before(&r.LastTime) {
				t.Errorf("%+v", r)
			}
			f.members["b"].answer(nil)
			f.scale(12) // a changed object is tried at once
			f.settled("6 6")
		})
	}
}

// An object that was deleted and made anew by somebody else in between is not taken for the
// one before: its number is not patched. It is overwritten as a whole.
func TestAnObjectOfAnotherUIDIsOverwritten(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	f.start()
	f.ask(4)
	f.settled("4")
	a := f.members["a"]
	var swapped atomic.Bool
	a.answer(func(r *http.Request) (int, metav1.Status) {
		if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/apps/") && !swapped.Swap(true) {
			o := a.get(local)
			a.remove(local)
			o.SetUID("another")
			o.SetAnnotations(nil)
			o.SetGeneration(0)
			a.put(local, o.Object)
		}
		return 0, metav1.Status{}
	})
	a.written()
	f.scale(6)
	f.settled("6")
	if got := a.written(); got != "PATCH replicasets/web 6, PUT replicasets/web 6" {
		t.Error(got)
	}
	o := a.get(local)
	if o.GetUID() != "another" || o.GetAnnotations()[annotationOwner] != string(f.get().UID) ||
		a.get(local).GetAnnotations()[annotationRevision] == "" {
		t.Errorf("%+v", o.Object["metadata"])
	}
}

// A deleted local object is created again; one that has another selector is made anew.
func TestADeletedObjectIsCreatedAgain(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	f.members["a"].put(local, map[string]any{"apiVersion": "apps/v1", "kind": "ReplicaSet",
		"metadata": map[string]any{"name": "web", "namespace": "shop"}, "spec": map[string]any{
			"replicas": int64(1), "selector": map[string]any{"matchLabels": map[string]any{"app": "another"}},
			"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "another"}}},
		}})
	f.start()
	f.ask(4)
	f.settled("4")
	o := f.members["a"].get(local)
	if labels, _, _ := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels"); labels["app"] != "web" {
		t.Errorf("%+v", o.Object)
	}
	f.members["a"].remove(local)
	f.settled("4")
	f.until("made anew", func() bool {
		again := f.members["a"].get(local)
		return again != nil && again.GetUID() != o.GetUID()
	})
}

// With cascade the local objects go with the object; a cluster that refuses that is named. Without
// it they stay.
func TestCascade(t *testing.T) {
	t.Parallel()
	for _, cascade := range []v1alpha1.Cascade{v1alpha1.CascadeDelete, v1alpha1.CascadeOrphan} {
		t.Run(string(cascade), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, "a", "b")
			f.start()
			f.ask(4, func(set *v1alpha1.FederatedReplicaSet) { set.Spec.Cascade = cascade })
			f.settled("2 2")
			f.members["b"].answer(func(r *http.Request) (int, metav1.Status) {
				if r.Method == http.MethodDelete {
					return http.StatusForbidden, metav1.Status{Reason: metav1.StatusReasonForbidden, Message: "not allowed"}
				}
				return 0, metav1.Status{}
			})
			f.host.remove(frs)
			if cascade == v1alpha1.CascadeDelete {
				f.until("refused", func() bool {
					_, reason, message := f.condition(v1alpha1.ConditionSettled)
					return reason == federation.ReasonDeleting && strings.HasSuffix(message, "in b (it refuses that: not allowed)")
				})
				f.members["b"].answer(nil)
			}
			f.until("gone", func() bool { return f.host.get(frs) == nil })
			if want := map[v1alpha1.Cascade]string{v1alpha1.CascadeDelete: "- -", v1alpha1.CascadeOrphan: "2 2"}[cascade]; f.sizes() != want {
				t.Errorf("%s, want %s", f.sizes(), want)
			}
		})
	}
}

// Kubernetes' deletion propagation wins: with --cascade=orphan the local objects stay. Kubernetes says so with
// a finalizer that is gone a moment later.
func TestOrphanWinsOverCascade(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a", "b")
	f.start()
	f.ask(4, func(set *v1alpha1.FederatedReplicaSet) { set.Spec.Cascade = v1alpha1.CascadeDelete })
	f.settled("2 2")
	f.host.change(frs, func(o *unstructured.Unstructured) {
		o.SetDeletionTimestamp(new(metav1.Now()))
		o.SetFinalizers(append(o.GetFinalizers(), metav1.FinalizerOrphanDependents))
	})
	f.host.change(frs, func(o *unstructured.Unstructured) {
		o.SetFinalizers(slices.DeleteFunc(o.GetFinalizers(), func(f string) bool { return f == metav1.FinalizerOrphanDependents }))
	})
	f.until("gone", func() bool { return f.host.get(frs) == nil })
	if f.sizes() != "2 2" {
		t.Errorf("%s", f.sizes())
	}
}

// The controller stops after the status is stored and before, or while, the clusters are written, and
// starts again: everything is written, and nothing that was written is written again.
func TestRestartBetweenStatusAndWrite(t *testing.T) {
	t.Parallel()
	for _, made := range []bool{true, false} {
		t.Run(fmt.Sprint("made ", made), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t, "a", "b")
			f.start()
			f.ask(10)
			f.settled("5 5")
			for _, m := range f.members {
				m.written()
			}
			b := f.members["b"]
			reached, stopped := make(chan struct{}), make(chan struct{})
			var once atomic.Bool
			b.answer(func(r *http.Request) (int, metav1.Status) {
				if r.Method != http.MethodGet && strings.Contains(r.URL.Path, "/apps/") && !once.Swap(true) {
					close(reached)
					if made {
						return 0, metav1.Status{}
					}
					<-stopped
					return http.StatusServiceUnavailable, metav1.Status{Reason: metav1.StatusReasonServiceUnavailable}
				}
				return 0, metav1.Status{}
			})
			f.scale(20)
			<-reached
			f.stop()
			close(stopped)
			f.start()
			f.settled("10 10")
			if got := f.members["a"].written(); got != "PATCH replicasets/web 10" {
				t.Errorf("a: %s", got)
			}
			if got := b.written(); got != "PATCH replicasets/web 10" {
				t.Errorf("b: %s", got)
			}
		})
	}
}

// The answer to a write may be under way for longer than the change takes to show. When it arrives, what
// shows counts, and not only after the patience with a write.
func TestAnswerThatComesAfterTheChange(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	written := make(chan time.Time, 1)
	var once atomic.Bool
	f.members["a"].wrote = func(r *http.Request) {
		if once.Swap(true) {
			return
		}
		written <- time.Now()
		_ = wait.PollUntilContextTimeout(r.Context(), time.Millisecond, within, true, func(context.Context) (bool, error) {
			return f.get().Status.ReadyReplicas == 4, nil
		})
	}
	f.start()
	f.ask(4)
	f.settled("4")
	if took := time.Since(<-written); took >= patience {
		t.Errorf("settled after %s", took)
	}
}

// An API server may drop fields that it does not know: what it made of the template is not a change
// by somebody else.
func TestMemberThatDropsFields(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	a := f.members["a"]
	a.stored = func(s *server, path string, o *unstructured.Unstructured) {
		if path == local {
			unstructured.RemoveNestedField(o.Object, "spec", "template", "spec", "priorityClassName")
		}
		runPods(s, path, o)
	}
	f.start()
	f.ask(4, func(set *v1alpha1.FederatedReplicaSet) {
		set.Spec.Template.Spec.Raw = []byte(`{"containers":[{"name":"web","image":"web:1"}],"priorityClassName":"high","ofTheFuture":1}`)
	})
	f.settled("4")
	f.scale(5)
	f.settled("5")
	if got := a.written(); got != "POST replicasets/web 4, PATCH replicasets/web 5" {
		t.Error(got)
	}
}

// Pods that a ReplicaSet adopted and that lack the label are known from its status: those that
// are ready run, and the others are starting.
func TestAdoptedPodsAreKnownFromTheStatus(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a")
	f.members["a"].able = 2
	f.start()
	f.ask(5)
	f.until("created", func() bool { return f.sizes() == "5" })
	adopt := func(replicas, ready int64) {
		f.members["a"].change(local, func(o *unstructured.Unstructured) {
			o.Object["status"] = map[string]any{"replicas": replicas, "fullyLabeledReplicas": int64(5), "readyReplicas": ready}
		})
	}
	is := func(pods, running int32) func() bool {
		return func() bool {
			s := f.get().Status.Clusters[0]
			return s.Pods == pods && s.Running == running && s.Ready == running
		}
	}
	adopt(8, 2)
	f.until("adopted, starting", is(8, 2))
	adopt(8, 5)
	f.until("adopted, running", is(8, 5))
}

// After two changes by somebody else are put right at once, the third is later, and the other cluster keeps its share.
func TestSecondWriterInAMember(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a", "b")
	f.start()
	f.ask(10)
	f.settled("5 5")
	b := f.members["b"]
	b.written()
	for range 3 {
		f.until("put right", func() bool {
			ok, _, _ := f.condition(v1alpha1.ConditionSettled)
			return ok && f.sizes() == "5 5"
		})
		b.change(local, func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, int64(8), "spec", "replicas")
		})
		f.until("seen", func() bool {
			_, reason, _ := f.condition(v1alpha1.ConditionSettled)
			return f.sizes() == "5 5" || reason == federation.ReasonSecondWriter
		})
	}
	f.until("not put right at once", func() bool {
		_, reason, _ := f.condition(v1alpha1.ConditionSettled)
		return reason == federation.ReasonSecondWriter
	})
	if sizes := f.sizes(); sizes != "5 8" {
		t.Errorf("sizes %s, want 5 8", sizes)
	}
	if n := strings.Count(b.written(), "PATCH"); n > 6 {
		t.Errorf("%d writes", n)
	}
	set := f.get()
	if c := meta.FindStatusCondition(set.Status.Conditions, v1alpha1.ConditionSettled); c.Reason != federation.ReasonSecondWriter {
		t.Errorf("%+v", c)
	}
}

// Passes over several objects are made at the same time. When all are settled none is made any
// more, and nothing is written to the host or to a member.
func TestSeveralObjectsAtATime(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a", "b")
	var passes, storing, most atomic.Int32
	f.host.answer(func(r *http.Request) (int, metav1.Status) {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/federatedreplicasets/") {
			passes.Add(1)
			if n := storing.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer storing.Add(-1)
			if passes.Load() == 1 { // it waits for another one
				_ = wait.PollUntilContextTimeout(r.Context(), time.Millisecond, within, true,
					func(context.Context) (bool, error) { return passes.Load() > 1, nil })
			}
		}
		return 0, metav1.Status{}
	})
	f.start()
	f.ask(10)
	other := f.host.get(frs)
	other.SetName("other")
	other.SetUID("other")
	f.host.put(strings.TrimSuffix(frs, "web")+"other", other.Object)
	f.settled("5 5")
	f.until("both settled", func() bool {
		o := f.host.get(strings.TrimSuffix(frs, "web") + "other")
		_, found, _ := unstructured.NestedSlice(o.Object, "status", "clusters")
		return found
	})
	if most.Load() < 2 {
		t.Errorf("at most %d passes at a time", most.Load())
	}
}

// A new object is created in all clusters by one pass, and a cluster that joins gets its own.
func TestANewObjectIsCreatedInAllClusters(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a", "b")
	f.start()
	f.ask(9)
	f.settled("4 5")
	f.add("c")
	f.settled("3 3 3")
}

// The status of a local object matters when it says that pods cannot be created.
func TestTheStatusOfLocalObjectsMatters(t *testing.T) {
	t.Parallel()
	f := newFleet(t, "a", "b")
	f.members["b"].quota = 2
	f.start()
	f.ask(10, func(set *v1alpha1.FederatedReplicaSet) {
		second := metav1.Duration{Duration: time.Second} // on a busy machine a may seem to start too late, and has to recover from that
		set.Spec.Fallback = v1alpha1.FederatedFallback{NormalTime: second, StartupTimeout: second, StabilizationTime: second}
	})
	f.until("moved", func() bool {
		all := f.get().Status.Clusters
		if len(all) < 2 || f.sizes() != "8 4" {
			return false
		}
		b := all[1]
		return b.Uncreated > 0 && b.Unschedulable == 0 && b.Capacity != nil && *b.Capacity == 2
	})
}
