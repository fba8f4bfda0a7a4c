package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// writesAtATime is how many pods of a WorkloadSpread are written at the same time.
const writesAtATime = 8

// mark is the metadata to write to a pod.
type mark struct {
	labels      map[string]string
	annotations map[string]*string
}

// do writes what was decided, once the status is stored. A pod that is gone needs no write. It reports whether a pod
// has changed meanwhile.
func (r *reconciler) do(ctx context.Context, s *v1alpha1.WorkloadSpread, d *workloadspread.Decision) (overtaken bool, err error) {
	pods, marks := marksOf(d)
	results := make([]error, len(pods), len(pods)+len(d.Delete))
	workqueue.ParallelizeUntil(context.WithoutCancel(ctx), writesAtATime, len(pods), func(i int) {
		m := marks[pods[i].UID]
		results[i] = passes.PatchMetadata(ctx, r.client, pods[i], m.labels, m.annotations)
		r.metrics.wrote(opMark, results[i])
	})
	for _, gone := range d.Delete { // if it has not changed since it was seen
		err := r.client.Delete(ctx, gone.Pod, client.Preconditions{UID: &gone.Pod.UID, ResourceVersion: &gone.Pod.ResourceVersion})
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
	markOf := func(pod *v1.Pod) *mark {
		if marks[pod.UID] == nil {
			marks[pod.UID] = &mark{annotations: map[string]*string{}}
			pods = append(pods, pod)
		}
		return marks[pod.UID]
	}
	for _, a := range d.Assign {
		m := markOf(a.Pod)
		m.labels = a.Labels
		for key, value := range a.Annotations {
			m.annotations[key] = &value
		}
	}
	for _, c := range d.Costs {
		if slices.ContainsFunc(d.Delete, func(gone workloadspread.Deletion) bool { return gone.Pod.UID == c.Pod.UID }) {
			continue // a pod that changes is not deleted
		}
		markOf(c.Pod).annotations[workloadspread.AnnotationCost] = new(strconv.Itoa(int(c.Cost)))
	}
	return pods, marks
}
