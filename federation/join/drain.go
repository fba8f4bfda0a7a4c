package join

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

const (
	// DefaultDrainTimeout is how long draining a member may take.
	DefaultDrainTimeout = 15 * time.Minute
	// readEvery is how often it is found out what still runs in a member that is drained, and readWithin how long that
	// may take.
	readEvery, readWithin = time.Second, 30 * time.Second
)

// Remaining is what still runs in a member of one FederatedReplicaSet.
type Remaining struct {
	// Object is the namespace/name of the FederatedReplicaSet.
	Object string
	// Pods is how many there are, those that are about to end included, and Replicas how many the
	// member should have.
	Pods, Replicas int32
	// Unplaced is how many replicas of the object no other member is able to run, or may.
	Unplaced int32
}

func (r Remaining) String() string {
	text := fmt.Sprintf("%s: %d pods", r.Object, r.Pods)
	if r.Pods == 0 {
		text = fmt.Sprintf("%s: %d replicas", r.Object, r.Replicas)
	}
	if r.Unplaced > 0 {
		text += fmt.Sprintf(" (%d have no other cluster)", r.Unplaced)
	}
	return text
}

// orphan says what stays in a member that leaves.
func (j *joiner) orphan(ctx context.Context) error {
	all, err := j.federated(ctx)
	if err != nil {
		return err
	}
	replicas, objects := int32(0), 0
	for i := range all {
		if n := written(&all[i], j.name); n > 0 {
			replicas += n
			objects++
		}
	}
	if replicas > 0 {
		j.did("member", fmt.Sprintf("%d replicas of %d FederatedReplicaSets", replicas, objects), "kept")
	}
	return nil
}

// drain marks a member as leaving, and waits until nothing of the host runs there any more.
func (j *joiner) drain(ctx context.Context, m *v1alpha1.MemberCluster, o *LeaveOptions) error {
	if j.member.Client == nil {
		return fmt.Errorf("%w: what runs in %s cannot be seen without its kubeconfig", ErrUndrainable, j.name)
	}
	c := ptr.Deref(meta.FindStatusCondition(m.Status.Conditions, v1alpha1.ConditionReachable),
		metav1.Condition{Message: "no controller has probed it"})
	if c.Status != metav1.ConditionTrue {
		return fmt.Errorf("%w: the controllers do not reach %s: %s", ErrUndrainable, j.name, c.Message)
	}
	if err := j.taint(ctx, m, v1alpha1.ClusterTaint{Key: v1alpha1.TaintLeaving, Effect: v1.TaintEffectNoExecute}); err != nil {
		return err
	}
	var left []Remaining
	var failure error
	shown, empty := "", 0
	moved := map[string]bool{}
	err := wait.PollUntilContextTimeout(ctx, readEvery, cmp.Or(o.Timeout, DefaultDrainTimeout), true, func(context.Context) (bool, error) {
		limited, cancel := context.WithTimeout(ctx, readWithin)
		defer cancel()
		now, err := j.remaining(limited)
		if failure = err; err != nil {
			return false, nil // one of the clusters may return
		}
		left = now
		for _, r := range left {
			moved[r.Object] = true
		}
		if text := fmt.Sprint(left); o.Progress != nil && text != shown {
			shown = text
			o.Progress(left)
		}
		if empty++; len(left) > 0 {
			empty = 0
		}
		return empty > 1, nil // what was decided before the mark was seen would show
	})
	switch {
	case err == nil:
		j.did("member", "replicas", "drained")
		return j.sayUnplaced(ctx, moved)
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded):
		return context.Cause(ctx)
	case failure != nil:
		return fmt.Errorf("%w: %w", ErrNotDrained, failure)
	case len(left) == 0:
		return fmt.Errorf("%w: nothing is left, which has to show once more", ErrNotDrained)
	}
	return fmt.Errorf("%w: left are %s", ErrNotDrained, inWords(left))
}

// sayUnplaced says which of the objects that ran in the member have fewer replicas elsewhere than they
// should have, such as because of their maximums.
func (j *joiner) sayUnplaced(ctx context.Context, moved map[string]bool) error {
	all, err := j.federated(ctx)
	for i := range all {
		f := &all[i]
		if name := f.Namespace + "/" + f.Name; moved[name] && f.Status.Unplaced > 0 {
			j.did("host", fmt.Sprintf("%d replicas of federatedreplicaset/%s, which no other cluster is able to run, or may,", f.Status.Unplaced,
				name), "not placed")
		}
	}
	return err
}

// inWords names what is left, the first ten.
func inWords(left []Remaining) string {
	const most = 10
	var words []string
	for _, r := range left[:min(len(left), most)] {
		words = append(words, r.String())
	}
	if more := len(left) - most; more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(words, ", ")
}

// remaining is what still runs in the member, by object.
func (j *joiner) remaining(ctx context.Context) ([]Remaining, error) {
	all, err := j.federated(ctx)
	if err != nil {
		return nil, err
	}
	locals, err := locals(ctx, j.member.Client)
	if err != nil {
		return nil, err
	}
	var pods v1.PodList
	if err := j.member.Client.List(ctx, &pods, client.HasLabels{v1alpha1.LabelFederated}); err != nil {
		return nil, fmt.Errorf("in the member: listing pods: %w", err)
	}
	var out []Remaining
	for i := range all {
		f := &all[i]
		r := Remaining{Object: f.Namespace + "/" + f.Name, Replicas: written(f, j.name)}
		for _, l := range locals {
			if l.owner != f.UID || l.object.GetNamespace() != f.Namespace || l.object.GetName() != f.Name {
				continue // anybody in the member can write the UID on another object
			}
			r.Replicas = max(r.Replicas, l.replicas)
			for k := range pods.Items {
				if p := &pods.Items[k]; p.Namespace == l.object.GetNamespace() && l.selector.Matches(labels.Set(p.Labels)) &&
					p.Status.Phase != v1.PodSucceeded && p.Status.Phase != v1.PodFailed {
					r.Pods++
				}
			}
		}
		if r.Unplaced = min(f.Status.Unplaced, max(r.Pods, r.Replicas)); r.Pods > 0 || r.Replicas > 0 {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b Remaining) int { return cmp.Compare(a.Object, b.Object) })
	return out, nil
}

// federated are the FederatedReplicaSets of the host.
func (j *joiner) federated(ctx context.Context) ([]v1alpha1.FederatedReplicaSet, error) {
	var all v1alpha1.FederatedReplicaSetList
	if err := j.host.Client.List(ctx, &all); err != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("in the host: listing FederatedReplicaSets: %w", err)
	}
	return all.Items, nil
}

// written is how many replicas of an object a member should have.
func written(f *v1alpha1.FederatedReplicaSet, cluster string) int32 {
	if s := f.Status.Cluster(cluster); s != nil {
		return s.Written
	}
	return 0
}

// exists reports whether there is a FederatedReplicaSet of the UID.
func exists(all []v1alpha1.FederatedReplicaSet, uid types.UID) bool {
	return slices.ContainsFunc(all, func(f v1alpha1.FederatedReplicaSet) bool { return f.UID == uid })
}

// local is a local object in the member.
type local struct {
	object   client.Object
	owner    types.UID // of the FederatedReplicaSet that it was written for
	replicas int32
	selector labels.Selector
}

// locals are the local objects in a member.
func locals(ctx context.Context, member client.Client) ([]local, error) {
	var out []local
	add := func(o client.Object, replicas *int32, selector *metav1.LabelSelector) {
		owner := types.UID(o.GetAnnotations()[v1alpha1.AnnotationFederatedUID])
		s, err := metav1.LabelSelectorAsSelector(selector)
		if err == nil && owner != "" && metav1.GetControllerOf(o) == nil { // an API server accepts no other selector
			out = append(out, local{o, owner, ptr.Deref(replicas, 1), s})
		}
	}
	var deployments appsv1.DeploymentList
	var sets appsv1.ReplicaSetList
	for _, list := range []client.ObjectList{&deployments, &sets} {
		if err := member.List(ctx, list, client.HasLabels{v1alpha1.LabelFederated}); err != nil {
			return nil, fmt.Errorf("in the member: listing local objects: %w", err)
		}
	}
	for i := range deployments.Items {
		add(&deployments.Items[i], deployments.Items[i].Spec.Replicas, deployments.Items[i].Spec.Selector)
	}
	for i := range sets.Items {
		add(&sets.Items[i], sets.Items[i].Spec.Replicas, sets.Items[i].Spec.Selector)
	}
	return out, nil
}

// deleteLocals deletes the local objects without replicas.
func (j *joiner) deleteLocals(ctx context.Context) error {
	all, err := j.federated(ctx)
	if err != nil {
		return err
	}
	locals, err := locals(ctx, j.member.Client)
	if err != nil {
		return err
	}
	for _, l := range locals {
		if !exists(all, l.owner) || l.replicas > 0 { // somebody has scaled it a moment ago
			continue
		}
		name := strings.Replace(nameOf(l.object), "/", "/"+l.object.GetNamespace()+"/", 1)
		if l.object.GetAnnotations()[v1alpha1.AnnotationFederatedAdopted] != "" {
			j.did("member", name+", which was somebody else's before,", "kept")
			continue
		}
		err := j.member.Client.Delete(ctx, l.object, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: ptr.To(l.object.GetUID())})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("in the member: %s: %w", name, err)
		}
		j.did("member", name, "deleted")
	}
	return nil
}
