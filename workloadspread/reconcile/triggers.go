package reconcile

import (
	"context"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/owners"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/podcache"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// settle is the delay of a pass after a change of a pod: pods seldom change alone, and new ones neither
// wait for their seat nor for their cost.
const settle = 2 * time.Second

// triggers requests passes over the WorkloadSpreads that a change may matter to. No workload is watched
// before the first pass.
type triggers struct {
	passes.Triggers
	cached client.Reader
	owners *owners.Owners
	pods   *seen
	clock  clock.PassiveClock
}

// workload requests a pass over the WorkloadSpreads of an object that changed. An object of another
// kind with the same name costs an unnecessary pass.
func (t *triggers) workload(o scale.Target) {
	for _, s := range t.list(context.Background(), o.Namespace) {
		if s.Spec.TargetRef.Name == o.Name {
			t.Pass(client.ObjectKeyFromObject(&s), 0)
		}
	}
}

// list returns the WorkloadSpreads of a namespace. They are shared and must not be changed.
func (t *triggers) list(ctx context.Context, namespace string) []v1alpha1.WorkloadSpread {
	var list v1alpha1.WorkloadSpreadList
	if err := t.cached.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // the cache has not started or has stopped: there are no passes then
	}
	return list.Items
}

// spreads requests a pass over a WorkloadSpread whose spec changed and over those that may have the same
// pods: those of a workload of the same name, and of another kind, which may be above or below its own. It
// also requests one for the time when what admission has noted in a status expires.
func (t *triggers) spreads() handler.EventHandler {
	enqueue := func(ctx context.Context, s *v1alpha1.WorkloadSpread, q passes.Queue) {
		q.Add(passes.Request(s))
		for _, other := range t.list(ctx, s.Namespace) {
			if other.Name != s.Name && (other.Spec.TargetRef.Name == s.Spec.TargetRef.Name || other.Spec.TargetRef.Kind != s.Spec.TargetRef.Kind) {
				q.Add(passes.Request(&other))
			}
		}
	}
	return passes.Handler(enqueue, func(ctx context.Context, before, s *v1alpha1.WorkloadSpread, q passes.Queue) {
		if before.Generation != s.Generation {
			enqueue(ctx, s, q)
		} else if expiry := workloadspread.Expiry(&s.Spec, &s.Status); !expiry.IsZero() {
			q.AddAfter(passes.Request(s), max(expiry.Sub(t.clock.Now()), settle))
		}
	})
}

// changes requests passes over the WorkloadSpreads that a pod belongs to, and notes who owns it.
func (t *triggers) changes() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(ctx context.Context, e event.CreateEvent, q passes.Queue) {
			t.pods.add(e.Object)
			t.enqueue(ctx, e.Object, q)
		},
		DeleteFunc: func(ctx context.Context, e event.DeleteEvent, q passes.Queue) {
			t.pods.drop(e.Object)
			t.enqueue(ctx, e.Object, q)
		},
		UpdateFunc: func(ctx context.Context, e event.UpdateEvent, q passes.Queue) {
			before, ok := e.ObjectOld.(*v1.Pod)
			after, okay := e.ObjectNew.(*v1.Pod)
			if !ok || !okay || !podcache.Differ(before, after) {
				return
			}
			t.pods.add(e.ObjectNew)
			t.pods.drop(e.ObjectOld)
			t.enqueue(ctx, e.ObjectNew, q)
		},
	}
}

// enqueue requests passes over the WorkloadSpreads of a pod; over all of the namespace if the owners
// of the pod are not known yet.
func (t *triggers) enqueue(ctx context.Context, pod client.Object, q passes.Queue) {
	list := t.list(ctx, pod.GetNamespace())
	if len(list) == 0 {
		return
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return
	}
	above, known := t.owners.Known(pod.GetNamespace(), ref)
	for i := range list {
		if s := &list[i]; !known || isAmong(above, &s.Spec.TargetRef) {
			q.AddAfter(passes.Request(s), settle)
		}
	}
}

// isAmong reports whether a workload is among the controllers of a pod.
func isAmong(above []owners.Owner, target *v1alpha1.WorkloadReference) bool {
	version, err := schema.ParseGroupVersion(target.APIVersion)
	if err != nil {
		return false
	}
	for _, o := range above {
		if o.Name == target.Name && o.Kind == target.Kind && o.Group == version.Group {
			return true
		}
	}
	return false
}

// seen holds the controllers of the pods in the cache, by namespace, and how many pods have each. A
// reference is as its pod has it: another pod may have the same UID and another name in its own. The
// zero value holds none.
type seen struct {
	mu sync.Mutex
	of map[string]map[owner]int
}

// owner is a reference to a controller.
type owner struct {
	apiVersion, kind, name string
	uid                    types.UID
}

func ownerUID(o client.Object) types.UID {
	if ref := metav1.GetControllerOfNoCopy(o); ref != nil {
		return ref.UID
	}
	return ""
}

func (s *seen) add(pod client.Object)  { s.count(pod, 1) }
func (s *seen) drop(pod client.Object) { s.count(pod, -1) }

func (s *seen) count(pod client.Object, n int) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of == nil {
		s.of = map[string]map[owner]int{}
	}
	in, o := s.of[pod.GetNamespace()], owner{ref.APIVersion, ref.Kind, ref.Name, ref.UID}
	if in == nil {
		in = map[owner]int{}
		s.of[pod.GetNamespace()] = in
	}
	if in[o] += n; in[o] <= 0 {
		delete(in, o)
	}
	if len(in) == 0 {
		delete(s.of, pod.GetNamespace())
	}
}

// in are the controllers of the pods of a namespace.
func (s *seen) in(namespace string) []metav1.OwnerReference {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]metav1.OwnerReference, 0, len(s.of[namespace]))
	for o := range s.of[namespace] {
		out = append(out, metav1.OwnerReference{APIVersion: o.apiVersion, Kind: o.kind, Name: o.name, UID: o.uid})
	}
	return out
}
