package reconcile

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/go-logr/logr"
	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// writesAtATime is how many pods of a WorkloadSpread are written at the same time.
const writesAtATime = 8

// mark is the metadata to write to a pod.
type mark struct {
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// UID makes the API server refuse the patch for another pod of the same name.
	UID types.UID `json:"uid"`
}

// do writes what was decided, once the status is stored.
func (r *reconciler) do(ctx context.Context, s *v1alpha1.WorkloadSpread, d *workloadspread.Decision) outcome {
	w := &writes{reconciler: r, spread: s, decision: d}
	w.mark(ctx)
	for _, gone := range d.Delete {
		w.remove(ctx, gone)
	}
	return w.outcome
}

// writes are the writes of a pass.
type writes struct {
	*reconciler
	spread   *v1alpha1.WorkloadSpread
	decision *workloadspread.Decision

	mu sync.Mutex
	outcome
}

// mark writes assignments and deletion costs, one patch for each pod.
func (w *writes) mark(ctx context.Context) {
	marks, pods := map[types.UID]*mark{}, []*v1.Pod{}
	of := func(pod *v1.Pod) *mark {
		if marks[pod.UID] == nil {
			marks[pod.UID] = &mark{UID: pod.UID, Annotations: map[string]string{}}
			pods = append(pods, pod)
		}
		return marks[pod.UID]
	}
	for _, a := range w.decision.Assign {
		m := of(a.Pod)
		m.Labels = a.Labels
		maps.Copy(m.Annotations, a.Annotations)
	}
	for _, c := range w.decision.Costs {
		if slices.ContainsFunc(w.decision.Delete, func(gone workloadspread.Deletion) bool { return gone.Pod.UID == c.Pod.UID }) {
			continue // a pod that changes is not deleted
		}
		of(c.Pod).Annotations[workloadspread.AnnotationCost] = strconv.Itoa(int(c.Cost))
	}
	var group errgroup.Group
	group.SetLimit(writesAtATime)
	for _, pod := range pods {
		group.Go(func() error {
			err := w.patch(ctx, pod, marks[pod.UID])
			w.mu.Lock()
			defer w.mu.Unlock()
			w.metrics.wrote(opMark, err)
			w.note(err, "marking", key(pod))
			return nil // an error belongs to its pod and stops no other
		})
	}
	_ = group.Wait()
}

func (w *writes) patch(ctx context.Context, pod *v1.Pod, m *mark) error {
	patch, err := json.Marshal(map[string]*mark{"metadata": m})
	if err != nil {
		return err
	}
	return w.client.Patch(ctx, named(pod), client.RawPatch(types.MergePatchType, patch))
}

// named is an object of the name of a pod.
func named(pod *v1.Pod) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
}

// remove deletes a pod if it has not changed since it was seen.
func (w *writes) remove(ctx context.Context, gone workloadspread.Deletion) {
	err := w.client.Delete(ctx, named(gone.Pod), client.Preconditions{UID: &gone.Pod.UID, ResourceVersion: &gone.Pod.ResourceVersion})
	w.metrics.wrote(opDelete, err)
	if w.note(err, "deleting", key(gone.Pod)) {
		logr.FromContextOrDiscard(ctx).Info("Deleted a pod", "pod", gone.Pod.Name, "reason", gone.Reason, "message", gone.Message)
		w.announceOf(w.spread, w.decision, gone.Reason, gone.Pod.Name)
	}
}
