package admission

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// The causes of releases.
const causeDeletion, causeEviction = "deletion", "eviction"

// removePod counts a pod whose deletion or eviction is asked for. It refuses none.
func (s *Server) removePod(ctx context.Context, r *admissionv1.AdmissionRequest) ([]byte, error) {
	if dryRun(r) || r.Namespace == s.o.Namespace {
		return nil, nil
	}
	pod, options, cause := &v1.Pod{}, &metav1.DeleteOptions{}, causeDeletion
	switch {
	case r.Operation == admissionv1.Delete && r.SubResource == "":
		if err := json.Unmarshal(r.OldObject.Raw, pod); err != nil {
			return nil, fmt.Errorf("reading the pod: %w", err)
		}
		if len(r.Options.Raw) > 0 {
			if err := json.Unmarshal(r.Options.Raw, options); err != nil {
				return nil, fmt.Errorf("reading the options of the deletion: %w", err)
			}
		}
	case r.Operation == admissionv1.Create && r.SubResource == "eviction":
		cause = causeEviction
		eviction := &policyv1.Eviction{}
		if err := json.Unmarshal(r.Object.Raw, eviction); err != nil {
			return nil, fmt.Errorf("reading the eviction: %w", err)
		}
		if eviction.DeleteOptions != nil {
			options = eviction.DeleteOptions
		}
		err := s.live.Get(ctx, types.NamespacedName{Namespace: r.Namespace, Name: r.Name}, pod)
		if apierrors.IsNotFound(err) {
			return nil, nil // the API server says so
		}
		if err != nil {
			return nil, s.uncounted(r.Name, "", err)
		}
	default:
		return nil, nil
	}
	if p := options.Preconditions; slices.Contains(options.DryRun, metav1.DryRunAll) || p != nil && p.UID != nil && *p.UID != pod.UID {
		return nil, nil // it stays
	}
	return nil, s.release(ctx, r.Namespace, pod, cause)
}

func (s *Server) release(ctx context.Context, namespace string, pod *v1.Pod, cause string) error {
	a, ok := workloadspread.AssignmentOf(pod)
	if !ok || a.Name == "" || a.Subset == "" || exempt(pod) {
		return nil
	}
	old := workloadspread.OldPod{Name: pod.Name, ID: cmp.Or(a.ID, pod.Name), Revision: workloadspread.RevisionOf(pod), Subset: a.Subset, Active: true}
	counted := false
	_, err := s.store.Update(ctx, types.NamespacedName{Namespace: namespace, Name: a.Name}, func(o *v1alpha1.WorkloadSpread) (status *v1alpha1.WorkloadSpreadStatus, _ bool, _ error) {
		// A deletion does not depend on the workload as it is now.
		w := workloadspread.Workload{Found: true, Replicas: o.Status.Replicas, Surge: o.Status.Surge}
		status, counted = workloadspread.Release(workloadspread.State{Spec: &o.Spec, Status: &o.Status, Workload: w, Now: s.clock.Now()}, old)
		return status, counted, nil
	})
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return s.uncounted(pod.Name, a.Name, err)
	case counted:
		s.o.Metrics.released(cause)
	}
	return nil
}

// uncounted says what to do about a deletion that cannot be counted.
func (s *Server) uncounted(pod, spread string, err error) error {
	of := "its WorkloadSpread"
	if spread != "" {
		of = "WorkloadSpread " + spread
	}
	return fmt.Errorf("the removal of pod %s cannot be counted in %s: %w: try again; if that does not help, delete the WorkloadSpread, or set failurePolicy: Ignore for this webhook", pod, of, err)
}
