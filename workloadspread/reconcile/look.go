package reconcile

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/workloadspread"
)

const (
	kindDeployment = "Deployment"
	// askAgain is how often the autoscaler is asked about pods that wait for it.
	askAgain = 5 * time.Second
	// revisionAnnotation numbers the ReplicaSets of a Deployment; the Deployment has that of the
	// newest.
	revisionAnnotation = "deployment.kubernetes.io/revision"
	// annotationBare on a WorkloadSpread with the value "true" leaves out the metadata of the patch when
	// pods that were there before are assigned.
	annotationBare = "evenkeel.dev/bare-assignments"
)

// sight is what a pass has read from the API server.
type sight struct {
	workload workloadspread.Workload
	// owners are the controllers of the pods of the workload.
	owners []types.UID
	// ahead are, by owner, the WorkloadSpreads before this one in the order of their names that pods may
	// belong to: one of a Deployment and one of its ReplicaSet have the same pods.
	ahead map[types.UID][]filter
	// autoscaler is what it does about pods.
	autoscaler map[types.UID]workloadspread.ScaleUp
	// patches say by subset why pods are refused with its patch; empty if they are not.
	patches map[string]string
	// poll is how long to wait until the workload is read again; 0 if it is watched.
	poll time.Duration
}

// filter is which pods of its workload a WorkloadSpread has.
type filter struct {
	name string
	labels.Selector
}

// look reads what a decision depends on and the cache does not have.
func (r *reconciler) look(ctx context.Context, s *v1alpha1.WorkloadSpread) (*sight, error) {
	found := &sight{}
	if err := r.readWorkload(ctx, s, found); err != nil {
		return nil, err
	}
	if err := r.findOwners(ctx, s, found); err != nil {
		return nil, err
	}
	return found, r.askAutoscaler(ctx, s, found)
}

// readWorkload reads and watches the target.
func (r *reconciler) readWorkload(ctx context.Context, s *v1alpha1.WorkloadSpread, found *sight) error {
	target := &s.Spec.TargetRef
	version, err := schema.ParseGroupVersion(target.APIVersion)
	if err != nil {
		found.poll = scale.PollInterval
		return nil //nolint:nilerr // the decision refuses the spec
	}
	kind := schema.GroupKind{Group: version.Group, Kind: target.Kind}
	mapping, err := r.mapper.RESTMapping(kind, version.Version)
	if meta.IsNoMatchError(err) {
		mapping, err = r.mapper.RESTMapping(kind) // in another version if this one is not served any more
	}
	if meta.IsNoMatchError(err) {
		found.poll = scale.PollInterval
		return nil // there is no such workload
	}
	if err != nil {
		return fmt.Errorf("finding the resource of %s: %w", target.Kind, err)
	}
	found.poll = r.watcher.Watch(mapping.Resource, s.Namespace)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(mapping.GroupVersionKind)
	err = r.live.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: target.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case apierrors.IsForbidden(err):
		found.workload.Problem, found.poll = err.Error(), passes.LastRetry
		return nil
	case err != nil:
		return fmt.Errorf("reading %s %s: %w", target.Kind, target.Name, err)
	}
	found.workload, err = workloadspread.Observe(&s.Spec, object.Object)
	if err != nil {
		found.workload.Problem = err.Error()
		return nil //nolint:nilerr // it is said in the status
	}
	r.tryPatches(ctx, s, object, found)
	found.workload.Revision, err = r.revision(ctx, object)
	return err
}

// revision is the revision that new pods of a workload have; empty if it is not known.
func (r *reconciler) revision(ctx context.Context, object *unstructured.Unstructured) (string, error) {
	if kind := object.GroupVersionKind().GroupKind(); kind != (schema.GroupKind{Group: "apps", Kind: kindDeployment}) {
		revision, _, _ := unstructured.NestedString(object.Object, "status", "updateRevision") // of a StatefulSet
		return revision, nil
	}
	var deployment appsv1.Deployment
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment); err != nil {
		return "", fmt.Errorf("reading Deployment %s: %w", object.GetName(), err)
	}
	matching, err := metav1.LabelSelectorAsSelector(deployment.Spec.Selector)
	if err != nil {
		return "", fmt.Errorf("reading the selector of Deployment %s: %w", object.GetName(), err)
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "ReplicaSetList"})
	if err := r.live.List(ctx, list, client.InNamespace(object.GetNamespace()), client.MatchingLabelsSelector{Selector: matching}); err != nil {
		return "", fmt.Errorf("listing the ReplicaSets of Deployment %s: %w", object.GetName(), err)
	}
	newest, hash := int64(-1), ""
	for i := range list.Items {
		set := &list.Items[i]
		n, err := strconv.ParseInt(set.Annotations[revisionAnnotation], 10, 64)
		if err == nil && n > newest && ownerUID(set) == object.GetUID() {
			newest, hash = n, set.Labels["pod-template-hash"]
		}
	}
	return hash, nil
}

// findOwners finds the controllers of the workload's pods, and which other WorkloadSpreads have some of
// these.
func (r *reconciler) findOwners(ctx context.Context, s *v1alpha1.WorkloadSpread, found *sight) error {
	all, err := r.spreads(ctx, s.Namespace)
	if err != nil {
		return err
	}
	found.ahead = map[types.UID][]filter{}
	for _, ref := range r.seen.in(s.Namespace) {
		above, err := r.owners.Of(ctx, s.Namespace, &ref)
		switch {
		case isAmong(above, &s.Spec.TargetRef):
			found.owners = append(found.owners, ref.UID)
			for i := range all {
				if o := &all[i]; o.Name < s.Name && isAmong(above, &o.Spec.TargetRef) && hasPods(o, all) {
					if f, err := workloadspread.FilterOf(&o.Spec); err == nil {
						found.ahead[ref.UID] = append(found.ahead[ref.UID], filter{o.Name, f})
					}
				}
			}
		case client.IgnoreNotFound(err) != nil:
			return err
		}
	}
	slices.Sort(found.owners)
	found.owners = slices.Compact(found.owners) // of two versions
	return nil
}

// askAutoscaler asks what it does about the pods that would move on now.
func (r *reconciler) askAutoscaler(ctx context.Context, s *v1alpha1.WorkloadSpread, found *sight) error {
	strategy := s.Spec.ScheduleStrategy
	if r.autoscaler == nil || strategy.Type != v1alpha1.ScheduleAdaptive || strategy.Adaptive == nil || ptr.Deref(strategy.Adaptive.RescheduleCriticalSeconds, 0) == 0 {
		return nil
	}
	pods, err := r.pods(ctx, s, found)
	if err != nil {
		return err
	}
	patience := time.Duration(*strategy.Adaptive.RescheduleCriticalSeconds) * time.Second
	pods = slices.DeleteFunc(pods, func(pod *v1.Pod) bool {
		since, waits := workloadspread.UnschedulableSince(pod)
		return !waits || !workloadspread.Active(pod) || r.clock.Now().Before(since.Add(patience))
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

// pods are those of the workload that the filter selects, in the order of their names. They are shared
// with the cache and must not be changed.
func (r *reconciler) pods(ctx context.Context, s *v1alpha1.WorkloadSpread, found *sight) ([]*v1.Pod, error) {
	own, err := workloadspread.FilterOf(&s.Spec)
	if err != nil {
		return nil, nil //nolint:nilerr // the decision refuses the spec
	}
	var pods []*v1.Pod
	for _, owner := range found.owners {
		var list v1.PodList
		if err := r.client.List(ctx, &list, client.InNamespace(s.Namespace), client.MatchingFields{byOwner: string(owner)}, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing the pods of an owner: %w", err)
		}
		for i := range list.Items {
			pod, set := &list.Items[i], labels.Set(list.Items[i].Labels)
			if own.Matches(set) && !slices.ContainsFunc(found.ahead[owner], func(f filter) bool { return f.Matches(set) }) {
				pods = append(pods, pod)
			}
		}
	}
	slices.SortFunc(pods, func(a, b *v1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	return pods, nil
}

// input is what a decision is made from: what was read, and what the cache has now.
func (r *reconciler) input(ctx context.Context, s *v1alpha1.WorkloadSpread, found *sight) (workloadspread.Input, error) {
	in := workloadspread.Input{
		Name: s.Name, Generation: s.Generation,
		State:      workloadspread.State{Spec: &s.Spec, Status: &s.Status, Workload: found.workload, Now: r.clock.Now()},
		Nodes:      map[string]*v1.Node{},
		Patches:    found.patches,
		Autoscaler: found.autoscaler, BareAssignments: s.Annotations[annotationBare] == "true",
	}
	all, err := r.spreads(ctx, s.Namespace)
	if err != nil {
		return in, err
	}
	if in.Refused = workloadspread.Refused(s, all); in.Refused != "" {
		return in, nil
	}
	for _, owner := range found.owners {
		for _, f := range found.ahead[owner] {
			in.Ahead = append(in.Ahead, f.name)
		}
	}
	if in.Pods, err = r.pods(ctx, s, found); err != nil {
		return in, err
	}
	for _, pod := range in.Pods {
		if a, ok := workloadspread.AssignmentOf(pod); ok && a.Name == s.Name || pod.Spec.NodeName == "" || in.Nodes[pod.Spec.NodeName] != nil {
			continue
		}
		node := &v1.Node{}
		switch err := r.client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, node); {
		case err == nil:
			in.Nodes[pod.Spec.NodeName] = node
		case !apierrors.IsNotFound(err):
			return in, fmt.Errorf("reading node %s: %w", pod.Spec.NodeName, err)
		}
	}
	return in, nil
}

// spreads are the WorkloadSpreads of a namespace. They are shared with the cache and must not be changed.
func (r *reconciler) spreads(ctx context.Context, namespace string) ([]v1alpha1.WorkloadSpread, error) {
	var list v1alpha1.WorkloadSpreadList
	if err := r.client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing the WorkloadSpreads of namespace %s: %w", namespace, err)
	}
	return list.Items, nil
}

// hasPods reports whether new pods may belong to a WorkloadSpread, as at admission.
func hasPods(s *v1alpha1.WorkloadSpread, all []v1alpha1.WorkloadSpread) bool {
	return s.DeletionTimestamp == nil && workloadspread.Refused(s, all) == "" && len(workloadspread.Validate(&s.Spec, nil)) == 0
}
