package reconcile

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
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

// do writes what was decided, once the status is stored. A pod that is gone needs no write. It reports whether a pod
// has changed meanwhile.
func (r *reconciler) do(ctx context.Context, s *v1alpha1.WorkloadSpread, d *workloadspread.Decision) (overtaken bool, err error) {
	pods, marks := marksOf(d)
	results := make([]error, len(pods), len(pods)+len(d.Delete))
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), writesAtATime, len(pods), func(i int) {
		patch, err := json.Marshal(map[string]*mark{"metadata": marks[pods[i].UID]})
		if err == nil {
			err = r.client.Patch(ctx, named(pods[i]), client.RawPatch(types.MergePatchType, patch))
		}
		r.metrics.wrote(opMark, err)
		results[i] = err
	})
	for _, gone := range d.Delete { // if it has not changed since it was seen
		err := r.client.Delete(ctx, named(gone.Pod), client.Preconditions{UID: &gone.Pod.UID, ResourceVersion: &gone.Pod.ResourceVersion})
		r.metrics.wrote(opDelete, err)
		if err == nil {
			logr.FromContextOrDiscard(ctx).Info("Deleted a pod", "pod", gone.Pod.Name, "why", "it "+gone.Why)
			r.event(s, podhealth.Event{
				Type: v1.EventTypeNormal, Reason: workloadspread.ReasonRescheduled, About: gone.Pod.Name,
				Message: fmt.Sprintf("pod %s %s and is deleted, so that another one goes to a later subset", gone.Pod.Name, gone.Why),
			})
		}
		pods, results = append(pods, gone.Pod), append(results, err)
	}
	for i, problem := range results {
		overtaken = overtaken || apierrors.IsConflict(problem)
		if client.IgnoreNotFound(problem) != nil && !apierrors.IsConflict(problem) {
			err = errors.Join(err, fmt.Errorf("writing pod %s/%s: %w", pods[i].Namespace, pods[i].Name, problem))
		}
	}
	return overtaken, err
}

// marksOf are assignments and deletion costs, one mark for each pod.
func marksOf(d *workloadspread.Decision) ([]*v1.Pod, map[types.UID]*mark) {
	marks, pods := map[types.UID]*mark{}, []*v1.Pod{}
	of := func(pod *v1.Pod) *mark {
		if marks[pod.UID] == nil {
			marks[pod.UID] = &mark{UID: pod.UID, Annotations: map[string]string{}}
			pods = append(pods, pod)
		}
		return marks[pod.UID]
	}
	for _, a := range d.Assign {
		m := of(a.Pod)
		m.Labels = a.Labels
		maps.Copy(m.Annotations, a.Annotations)
	}
	for _, c := range d.Costs {
		if slices.ContainsFunc(d.Delete, func(gone workloadspread.Deletion) bool { return gone.Pod.UID == c.Pod.UID }) {
			continue // a pod that changes is not deleted
		}
		of(c.Pod).Annotations[workloadspread.AnnotationCost] = strconv.Itoa(int(c.Cost))
	}
	return pods, marks
}

// named is an object of the name of a pod.
func named(pod *v1.Pod) *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}
}
