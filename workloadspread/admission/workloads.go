package admission

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

const (
	// readTimeout bounds a read of a workload.
	readTimeout = 3 * time.Second
	// recently is how old the observation of a workload may be that no limit depends on.
	recently = 2 * time.Second
)

// workloads reads the targets of WorkloadSpreads from the API server. Pods that come at the same time
// share a read.
type workloads struct {
	live  client.Client
	clock clock.PassiveClock
	mu    sync.Mutex
	known map[types.NamespacedName]*workload // by WorkloadSpread
}

// workload is what is read of a target.
type workload struct {
	last    *reading // has ended; nil if there was none
	current *reading // goes on; nil if none does
	next    *reading // begins after the current one; nil if nobody waits for it
}

// reading is a read and its result, which is valid when done is closed.
type reading struct {
	of    *v1alpha1.WorkloadSpread
	done  chan struct{}
	begun time.Time
	value workloadspread.Workload
	err   error
}

// of returns the target of a WorkloadSpread as it was at most some time ago; 0 means that the read must
// begin now.
func (w *workloads) of(ctx context.Context, o *v1alpha1.WorkloadSpread, age time.Duration) (workloadspread.Workload, error) {
	r := w.join(o, age)
	select {
	case <-r.done:
		return r.value, r.err
	case <-ctx.Done():
		return workloadspread.Workload{}, fmt.Errorf("reading %s %s: %w", o.Spec.TargetRef.Kind, o.Spec.TargetRef.Name, ctx.Err())
	}
}

func (w *workloads) join(o *v1alpha1.WorkloadSpread, age time.Duration) *reading {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := client.ObjectKeyFromObject(o)
	k := w.known[key]
	if k == nil {
		k = &workload{}
		w.known[key] = k
	}
	if r := k.last; r != nil && r.err == nil && r.of.Generation == o.Generation && w.clock.Since(r.begun) < age {
		return r
	}
	r := &reading{of: o, done: make(chan struct{})}
	switch {
	case k.current == nil:
		k.current = r
		go w.run(k, r) // in the background: a caller that leaves must not fail the others
	case k.next == nil:
		k.next = r
	default:
		r = k.next
	}
	return r
}

// run reads until nobody waits any more.
func (w *workloads) run(k *workload, r *reading) {
	for r != nil {
		r.begun = w.clock.Now()
		r.value, r.err = w.read(r.of)
		close(r.done)
		w.mu.Lock()
		k.last, k.current, k.next = r, k.next, nil
		r = k.current
		w.mu.Unlock()
	}
}

func (w *workloads) read(o *v1alpha1.WorkloadSpread) (workloadspread.Workload, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	object, err := targetObject(ctx, w.live, o)
	if err != nil || object == nil {
		return workloadspread.Workload{}, err
	}
	read, err := workloadspread.Observe(&o.Spec, object.Object)
	if err != nil {
		return workloadspread.Workload{}, fmt.Errorf("reading the replicas of %s %s: %w", o.Spec.TargetRef.Kind, o.Spec.TargetRef.Name, err)
	}
	return read, nil
}

// targetObject is the target of a WorkloadSpread, in another version if its own is not served any more;
// nil if it does not exist.
func targetObject(ctx context.Context, live client.Client, o *v1alpha1.WorkloadSpread) (*unstructured.Unstructured, error) {
	ref, object := o.Spec.TargetRef, &unstructured.Unstructured{}
	kind := schema.FromAPIVersionAndKind(ref.APIVersion, ref.Kind)
	mapping, err := live.RESTMapper().RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = live.RESTMapper().RESTMapping(kind.GroupKind())
	}
	if err == nil {
		object.SetGroupVersionKind(mapping.GroupVersionKind)
		err = live.Get(ctx, types.NamespacedName{Namespace: o.Namespace, Name: ref.Name}, object)
	}
	switch {
	case apierrors.IsNotFound(err) || meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading %s %s: %w", ref.Kind, ref.Name, err)
	}
	return object, nil
}

func (w *workloads) forget(key types.NamespacedName) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.known, key)
}

// sensitive reports whether limits depend on the replicas of the workload.
func sensitive(spec *v1alpha1.WorkloadSpreadSpec) bool {
	if spec.Distribution != "" && spec.Distribution != v1alpha1.DistributeOrdered {
		return true
	}
	for i := range spec.Subsets {
		s := &spec.Subsets[i]
		if s.MinReplicas != nil || s.MaxReplicas != nil && s.MaxReplicas.StrVal != "" {
			return true
		}
	}
	return false
}
