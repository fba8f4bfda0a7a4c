package reconcile

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

const (
	// askAgain is how often the autoscaler is asked about pods that wait for it.
	askAgain = 5 * time.Second
	// revisionAnnotation numbers the ReplicaSets of a Deployment; the Deployment has that of the
	// newest.
	revisionAnnotation = "deployment.kubernetes.io/revision"
)

// observation is what a pass has read from the API server.
type observation struct {
	// at is when it was read. A decision is made for this time: the autoscaler was asked about the pods whose time was
	// over then, and about no others.
	at       time.Time
	workload workloadspread.Workload
	// autoscaler is what it does about pods.
	autoscaler map[types.UID]workloadspread.ScaleUp
	// patches say by subset why pods are refused with its patch; empty if they are not.
	patches map[string]string
	// poll is how long to wait until the workload is read again; 0 if it is watched.
	poll time.Duration
}

// observe reads what a decision depends on and the cache does not have.
func (r *reconciler) observe(ctx context.Context, s *v1alpha1.WorkloadSpread) (*observation, error) {
	found := &observation{at: r.clock.Now(), poll: scale.PollInterval}
	object, resource, err := workloads.Get(ctx, r.live, r.mapper, s)
	if err == nil && !resource.Empty() { // a kind that may not be read would be asked for without end
		found.poll = r.watcher.Watch(resource, s.Namespace)
	}
	switch {
	case apierrors.IsForbidden(err):
		found.workload.Problem, found.poll = errors.Unwrap(err).Error(), passes.LastRetry
	case err != nil:
		return nil, err
	case object != nil:
		if found.workload, err = workloadspread.Observe(&s.Spec, object.Object); err != nil {
			found.workload.Problem = err.Error()
			break
		}
		r.tryPatches(ctx, s, object, found)
		if found.workload.Revision, err = r.revision(ctx, object, found.workload.Selector); err != nil {
			return nil, err
		}
	}
	return found, r.askAutoscaler(ctx, s, found)
}

// revision is the revision that new pods of a workload have; empty if it is not known.
func (r *reconciler) revision(ctx context.Context, object *unstructured.Unstructured, selector labels.Selector) (string, error) {
	if object.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "apps", Kind: "Deployment"}) || selector == nil {
		revision, _, _ := unstructured.NestedString(object.Object, "status", "updateRevision") // of a StatefulSet
		return revision, nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSetList"})
	if err := r.live.List(ctx, list, client.InNamespace(object.GetNamespace()),
		client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return "", fmt.Errorf("listing the ReplicaSets of Deployment %s: %w", object.GetName(), err)
	}
	newest, hash := int64(-1), ""
	for i := range list.Items {
		set := &list.Items[i]
		n, err := strconv.ParseInt(set.Annotations[revisionAnnotation], 10, 64)
		if err == nil && n > newest && metav1.IsControlledBy(set, object) {
			newest, hash = n, set.Labels["pod-template-hash"]
		}
	}
	return hash, nil
}

// askAutoscaler asks what it does about the pods that would move on now.
func (r *reconciler) askAutoscaler(ctx context.Context, s *v1alpha1.WorkloadSpread, found *observation) error {
	strategy := s.Spec.ScheduleStrategy
	if r.autoscaler == nil || strategy.Type != v1alpha1.ScheduleAdaptive || strategy.Adaptive == nil ||
		ptr.Deref(strategy.Adaptive.RescheduleCriticalSeconds, 0) == 0 {
		return nil
	}
	pods, _, err := r.reader.PodsOf(ctx, s, found.workload.Selector)
	if err != nil {
		return err
	}
	patience := time.Duration(*strategy.Adaptive.RescheduleCriticalSeconds) * time.Second
	pods = slices.DeleteFunc(pods, func(pod *v1.Pod) bool {
		since, waits := workloadspread.UnschedulableSince(pod)
		return !waits || !workloadspread.Active(pod) || found.at.Before(since.Add(patience))
	})
	if len(pods) == 0 {
		return nil
	}
	if found.autoscaler, err = r.autoscaler.ScaleUps(ctx, pods); err != nil {
		logr.FromContextOrDiscard(ctx).Info("Not all is known of what the autoscaler does", "problem", err.Error())
	}
	if found.poll == 0 || found.poll > askAgain {
		found.poll = askAgain // it does not announce what it does
	}
	return nil
}

// input is what a decision is made from: what was read, and what the cache has now.
func (r *reconciler) input(ctx context.Context, s *v1alpha1.WorkloadSpread, found *observation) (workloadspread.Input, error) {
	in := workloadspread.Input{
		Name: s.Name, Generation: s.Generation,
		State:      workloadspread.State{Spec: &s.Spec, Status: &s.Status, Workload: found.workload, Now: found.at},
		Nodes:      map[string]*v1.Node{},
		Patches:    found.patches,
		Autoscaler: found.autoscaler,
	}
	all, err := r.reader.SpreadsIn(ctx, s.Namespace)
	if err != nil {
		return in, err
	}
	if in.Refused = workloadspread.Refused(s, all); in.Refused != "" {
		return in, nil
	}
	if in.Pods, in.Ahead, err = r.reader.PodsOf(ctx, s, found.workload.Selector); err != nil {
		return in, err
	}
	for _, pod := range in.Pods {
		if in.Nodes[pod.Spec.NodeName] != nil || pod.Spec.NodeName == "" {
			continue
		}
		node := &v1.Node{}
		switch err := r.client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node, client.UnsafeDisableDeepCopy); {
		case err == nil:
			in.Nodes[pod.Spec.NodeName] = node
		case !apierrors.IsNotFound(err):
			return in, fmt.Errorf("reading node %s: %w", pod.Spec.NodeName, err)
		}
	}
	return in, nil
}
