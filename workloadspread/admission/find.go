package admission

import (
	"context"
	"fmt"
	"net/http"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/store"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

// find returns the WorkloadSpread of a new pod, or nil.
func (s *Server) find(ctx context.Context, pod *v1.Pod) (*v1alpha1.WorkloadSpread, error) {
	controller := metav1.GetControllerOf(pod)
	if controller == nil {
		return nil, nil
	}
	all, err := s.reader.SpreadsIn(ctx, pod.Namespace)
	if err != nil || len(all) == 0 {
		return nil, err
	}
	above, err := s.reader.Owners.Of(ctx, pod.Namespace, controller)
	if apierrors.IsNotFound(err) {
		s.o.Metrics.refusals.WithLabelValues(reasonOwner).Inc()
		return nil, refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			"metadata.ownerReferences: %s %s with UID %s or a controller above it does not exist", controller.Kind, controller.Name, controller.UID)
	}
	if err != nil {
		return nil, err
	}
	return workloads.First(workloads.Claimants(all, above), pod), nil
}

// facts are what the decisions of a round rest on besides the WorkloadSpread.
type facts struct {
	workloadspread.Workload
	of        string       // which WorkloadSpread, and generation of it, they were read for
	err       error        // why the workload cannot be read
	recounted *store.Round // the one in which the status has been recounted
	absent    int32        // how many of the pods that it counts were not there then
}

// facts reads the workload, once for a round and its repetitions: pods that come at the same time share the read.
func (s *Server) facts(round *store.Round, o *v1alpha1.WorkloadSpread) (*facts, error) {
	of := fmt.Sprint(o.UID, " ", o.Generation)
	if known, ok := round.Facts.(*facts); ok && known.of == of {
		return known, known.err
	}
	known := &facts{of: of}
	round.Facts = known
	object, _, err := workloads.Get(round.Context, s.live, s.live.RESTMapper(), o)
	if err == nil && object != nil {
		if known.Workload, err = workloadspread.Observe(&o.Spec, object.Object); err != nil {
			err = fmt.Errorf("reading the replicas of %s %s: %w", o.Spec.TargetRef.Kind, o.Spec.TargetRef.Name, err)
		}
	}
	known.err = err
	return known, err
}
