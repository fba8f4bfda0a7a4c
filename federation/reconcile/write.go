package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/federation/members"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/podhealth"
)

// owner is the field manager of what is written.
const owner = client.FieldOwner("evenkeel-federation")

// send has a write made in the background.
func (r *reconciler) send(ctx context.Context, key types.NamespacedName, f *v1alpha1.FederatedReplicaSet, w federation.Write,
	about []podhealth.Event) {
	c := r.members.Get(w.Cluster)
	if c == nil {
		return
	}
	l, id := seen(c, f, &f.Status)
	l.Replicas, l.Written, l.Exists = w.To, ptr.To(w.To), !w.Delete
	if w.Content {
		l.Foreign, l.Revision, l.RolledOut = false, federation.Revision(&f.Spec), false
	}
	sent := r.clock.Now()
	r.known.send(key, sending{write: w, at: sent, local: l})
	log := logr.FromContextOrDiscard(ctx).WithValues("cluster", w.Cluster, "from", w.From, "to", w.To)
	c.Do(r.triggers.Context(), key.String(), func(ctx context.Context, member client.Client) {
		o, about, err := write(ctx, member, order{w, f, id.uid, c.View().Takeover, about})
		r.metrics.wrote(w, r.clock.Since(sent), err)
		if err == nil || errors.Is(err, errRecreate) {
			r.record(f, about)
		}
		answer, version := federation.Answer{Write: w}, ""
		if err == nil {
			log.Info("Written", "why", w.Why)
			if version = o.GetResourceVersion(); w.Content {
				answer.Content = contentIn(o)
			}
		} else {
			log.Info("Could not write", "problem", members.Explain(err))
			answer.Refused = refusal(f, err)
		}
		r.known.answered(key, answer, err == nil, version)
		r.triggers.Pass(key, passes.ChangeDelay) // the change may have shown, and been passed over, while the answer was under way
	})
}

// leftAlone is why something that is there is left as it is.
type leftAlone string

func (k leftAlone) Error() string { return string(k) }

// errRecreate is returned when an object was deleted so that it can be created with another
// selector: the next pass creates it.
var errRecreate = errors.New("deleted because of its selector, to be created again")

// refusal is why a write was not made: the answer of the cluster, or what became known without one.
func refusal(f *v1alpha1.FederatedReplicaSet, err error) string {
	var answer apierrors.APIStatus
	var ours leftAlone
	switch {
	case errors.Is(err, errRecreate):
		return ""
	case errors.As(err, &ours):
		return string(ours)
	case !errors.As(err, &answer), apierrors.IsUnexpectedServerError(err): // that one is not from an API server
		return members.Explain(err)
	}
	status := answer.Status()
	if apierrors.IsNotFound(err) && status.Details != nil && status.Details.Kind == "namespaces" {
		return fmt.Sprintf("it has no namespace %s: create it there", f.Namespace)
	}
	text := cmp.Or(status.Message, members.Explain(err))
	return strings.ToValidUTF8(text[:min(len(text), 512)], "") // so much is stored
}

// untouchable says why an object of the name of a local one is left as it is; nil if it may be written.
func untouchable(o metav1.Object, f *v1alpha1.FederatedReplicaSet, takeover v1alpha1.Takeover) error {
	switch owner := metav1.GetControllerOfNoCopy(o); {
	case o.GetDeletionTimestamp() != nil:
		return leftAlone(fmt.Sprintf("the %s of that name there is being deleted", kindOf(f)))
	case owner != nil:
		return leftAlone(fmt.Sprintf("the %s of that name there belongs to %s %s and is left as it is: choose another name", kindOf(f),
			owner.Kind, owner.Name))
	case takeover == v1alpha1.TakeoverNever && o.GetAnnotations()[annotationOwner] != string(f.UID):
		return leftAlone(fmt.Sprintf("a %s of that name is there, which was not written for this object, and the "+
			"MemberCluster has takeover: Never", kindOf(f)))
	}
	return nil
}

// order is a write for an object, with the events about it. Only the local object of the UID is deleted, or gets
// another number of replicas; an empty one is any.
type order struct {
	federation.Write
	object   *v1alpha1.FederatedReplicaSet
	uid      types.UID
	takeover v1alpha1.Takeover
	about    []podhealth.Event
}

// write makes a write, and returns the object as the cluster has it now, and the events about what was
// done.
func write(ctx context.Context, c client.Client, w order) (*unstructured.Unstructured, []podhealth.Event, error) {
	o, err := localOf(w.object, w.To)
	if err != nil {
		return nil, nil, err
	}
	switch {
	case w.Delete:
		left, err := remove(ctx, c, w, o)
		if left {
			w.about = []podhealth.Event{federation.LeftBehind(w.Cluster)}
		}
		return o, w.about, err
	case w.Content:
		var there *unstructured.Unstructured
		err := retry.RetryOnConflict(retry.DefaultRetry, func() (err error) { // its controller writes its status
			there, err = put(ctx, c, w, o)
			return err
		})
		return o, w.happened(there, o), err
	}
	metadata := map[string]any{"annotations": map[string]string{annotationReplicas: strconv.Itoa(int(w.To))}}
	if w.uid != "" {
		metadata["uid"] = w.uid
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "spec": map[string]any{"replicas": w.To}})
	if err != nil {
		return nil, nil, err
	}
	return o, w.about, c.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), owner)
}

// put creates an object, or makes one that is there the same: its labels, annotations, number and pod template,
// in which nothing of others is left. It returns what was there; nil if nothing was. The selector
// cannot be changed: an object that has another one is deleted, without its pods, and created again.
func put(ctx context.Context, c client.Client, w order, o *unstructured.Unstructured) (there *unstructured.Unstructured, err error) {
	const strict = client.FieldValidation(metav1.FieldValidationStrict)
	there = &unstructured.Unstructured{}
	there.SetGroupVersionKind(o.GroupVersionKind())
	err = c.Get(ctx, client.ObjectKeyFromObject(o), there)
	if apierrors.IsNotFound(err) {
		return nil, c.Create(ctx, o, owner, strict)
	}
	if err == nil {
		err = untouchable(there, w.object, w.takeover)
	}
	if err != nil {
		return nil, err
	}
	if !apiequality.Semantic.DeepEqual(field(there, "selector"), field(o, "selector")) {
		err := c.Delete(ctx, there, client.PropagationPolicy(metav1.DeletePropagationOrphan), client.Preconditions{UID: ptr.To(there.GetUID())})
		return there, cmp.Or(err, errRecreate)
	}
	next := there.DeepCopy()
	next.SetLabels(labels.Merge(there.GetLabels(), o.GetLabels()))
	next.SetAnnotations(labels.Merge(there.GetAnnotations(), o.GetAnnotations()))
	if there.GetAnnotations()[annotationOwner] == "" {
		next.SetAnnotations(labels.Merge(next.GetAnnotations(), labels.Set{annotationAdopted: federated}))
	}
	for _, name := range []string{"replicas", "template"} {
		if err := unstructured.SetNestedField(next.Object, field(o, name), "spec", name); err != nil {
			return nil, err
		}
	}
	if err := c.Update(ctx, next, owner, strict); err != nil {
		return nil, err
	}
	o.Object = next.Object
	return there, nil
}

// field is a field of a spec.
func field(o *unstructured.Unstructured, name string) any {
	value, _, _ := unstructured.NestedFieldCopy(o.Object, "spec", name)
	return value
}

// contentIn is the hash of the pod template of an object.
func contentIn(o *unstructured.Unstructured) string {
	var template v1.PodTemplateSpec
	content, _, _ := unstructured.NestedMap(o.Object, "spec", "template")
	if runtime.DefaultUnstructuredConverter.FromUnstructured(content, &template) != nil {
		return ""
	}
	return members.HashTemplate(&template)
}

// happened are the events about a content that was written, by what was there. An object without the label of
// local objects is not watched, and one that seemed to be missing may have existed.
func (w *order) happened(there, now *unstructured.Unstructured) []podhealth.Event {
	switch {
	case there == nil:
	case w.Create && there.GetAnnotations()[annotationOwner] == string(w.object.UID):
		return []podhealth.Event{federation.OverwroteChange(w.Cluster)}
	case w.Create:
		replicas, _, _ := unstructured.NestedInt64(there.Object, "spec", "replicas")
		return []podhealth.Event{federation.OverwroteForeign(w.Cluster, int32(replicas))} // an int32 of the API
	case contentIn(there) == contentIn(now): // nobody had changed it
		return slices.DeleteFunc(slices.Clone(w.about), func(e podhealth.Event) bool { return e == federation.OverwroteChange(w.Cluster) })
	}
	return w.about
}

// remove deletes an object with its pods. One that was somebody else's before, or is by now, is left behind
// without the marks of a local object.
func remove(ctx context.Context, c client.Client, w order, o *unstructured.Unstructured) (left bool, err error) {
	err = c.Get(ctx, client.ObjectKeyFromObject(o), o)
	switch {
	case err != nil:
		return false, client.IgnoreNotFound(err)
	case o.GetAnnotations()[annotationOwner] != string(w.object.UID), w.uid != "" && w.uid != o.GetUID():
		return false, nil
	case o.GetAnnotations()[annotationAdopted] == "" && metav1.GetControllerOfNoCopy(o) == nil:
		return false, client.IgnoreNotFound(c.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground),
			client.Preconditions{UID: ptr.To(o.GetUID())}))
	}
	marks := map[string]any{annotationOwner: nil, annotationAdopted: nil, annotationReplicas: nil, annotationRevision: nil}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": o.GetUID(), "annotations": marks,
		"labels": map[string]any{v1alpha1.LabelFederated: nil}}})
	if err != nil {
		return false, err
	}
	return true, client.IgnoreNotFound(c.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), owner))
}
