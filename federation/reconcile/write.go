package reconcile

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/go-logr/logr"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/federation/members"
	"github.com/evenkeel/evenkeel/podhealth"
)

// owner is the field manager of what is written.
const owner = client.FieldOwner("evenkeel-federation")

// send has a write made in the background.
func (r *reconciler) send(ctx context.Context, key types.NamespacedName, f *v1alpha1.FederatedReplicaSet, w federation.Write, about []podhealth.Event) {
	c := r.members.Get(w.Cluster)
	if c == nil {
		return
	}
	l, id := seen(c, f, r.sent.made(key, w.Cluster, &f.Spec))
	l.Replicas, l.Written, l.Exists = w.To, ptr.To(w.To), !w.Delete
	if w.Content {
		l.Foreign, l.Revision, l.RolledOut = false, federation.Revision(&f.Spec), false
	}
	sent := r.clock.Now()
	r.sent.send(key, letter{write: w, at: sent, local: l})
	log := logr.FromContextOrDiscard(ctx).WithValues("cluster", w.Cluster, "from", w.From, "to", w.To)
	c.Do(r.triggers.Context(), key.String(), func(ctx context.Context, member client.Client) {
		about, err := found(ctx, member, f, w, about)
		var o *unstructured.Unstructured
		if err == nil {
			o, err = write(ctx, member, f, w, id.uid)
		}
		r.metrics.wrote(w, r.clock.Since(sent), err)
		if err == nil {
			log.Info("Written", "why", w.Why)
			r.sent.arrived(key, w, o.GetResourceVersion())
			if w.Content {
				r.sent.makes(key, w.Cluster, &f.Spec, o)
			}
			r.triggers.Pass(key, settle) // the change may have shown, and been passed over, while the answer was under way
			r.record(f, about)
			return
		}
		failure := federation.Failure{Write: w}
		if errors.Is(err, errRecreate) {
			r.record(f, about)
		} else {
			failure.Refused = refusal(f, err)
		}
		log.Info("Could not write", "problem", members.Explain(err))
		r.sent.failed(key, failure)
		r.triggers.Pass(key, settle)
	})
}

// longest is how much is stored of what a cluster answers.
const longest = 512

// refusal is why a write was not made: the answer of the cluster, or what became known without one.
func refusal(f *v1alpha1.FederatedReplicaSet, err error) string {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || apierrors.IsUnexpectedServerError(err) { // that one is not from an API server
		return members.Explain(err)
	}
	status := answer.Status()
	if apierrors.IsNotFound(err) && status.Details != nil && status.Details.Kind == "namespaces" {
		return fmt.Sprintf("it has no namespace %s: create it there", f.Namespace)
	}
	text := cmp.Or(status.Message, members.Explain(err))
	return strings.ToValidUTF8(text[:min(len(text), longest)], "")
}

// found returns the events about a write. An object without the label of local objects is not
// watched: one that seems to be missing may exist, and is overwritten then.
func found(ctx context.Context, c client.Client, f *v1alpha1.FederatedReplicaSet, w federation.Write, about []podhealth.Event) ([]podhealth.Event, error) {
	if !w.Create {
		return about, nil
	}
	o, err := localOf(f, w.To)
	if err != nil {
		return nil, err
	}
	switch err := c.Get(ctx, client.ObjectKeyFromObject(o), o); {
	case apierrors.IsNotFound(err):
		return about, nil
	case err != nil:
		return nil, err
	case o.GetAnnotations()[annotationOwner] == string(f.UID):
		return []podhealth.Event{federation.OverwroteChange(w.Cluster)}, nil
	}
	replicas, _, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	return []podhealth.Event{federation.OverwroteForeign(w.Cluster, int32(replicas))}, nil //nolint:gosec // an int32 of the API
}

// write makes a write, and returns the object as the cluster has it now. Only the object of the UID is
// deleted, or gets another number of replicas; an empty one is any.
func write(ctx context.Context, c client.Client, f *v1alpha1.FederatedReplicaSet, w federation.Write, uid types.UID) (*unstructured.Unstructured, error) {
	o, err := localOf(f, w.To)
	if err != nil {
		return nil, err
	}
	switch {
	case w.Delete:
		options := []client.DeleteOption{client.PropagationPolicy(metav1.DeletePropagationBackground)}
		if uid != "" {
			options = append(options, client.Preconditions{UID: &uid})
		}
		return o, client.IgnoreNotFound(c.Delete(ctx, o, options...))
	case w.Content:
		return o, apply(ctx, c, o)
	}
	metadata := map[string]any{"annotations": marks(f, w.To, false)}
	if uid != "" {
		metadata["uid"] = uid
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata, "spec": map[string]any{"replicas": w.To}})
	if err != nil {
		return nil, err
	}
	return o, c.Patch(ctx, o, client.RawPatch(types.MergePatchType, patch), owner)
}

// apply creates an object or overwrites all that it says. The selector of an object cannot be
// changed: one that has another is deleted, without its pods, and created again.
func apply(ctx context.Context, c client.Client, o *unstructured.Unstructured) error {
	before := o.DeepCopy()
	err := c.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), owner, client.ForceOwnership)
	if !apierrors.IsInvalid(err) {
		return err
	}
	there := before.DeepCopy()
	if c.Get(ctx, client.ObjectKeyFromObject(before), there) != nil {
		return err
	}
	selector, _, _ := unstructured.NestedMap(before.Object, "spec", "selector")
	if has, _, _ := unstructured.NestedMap(there.Object, "spec", "selector"); apiequality.Semantic.DeepEqual(has, selector) {
		return err // it is something else that is invalid
	}
	if err := c.Delete(ctx, there, client.PropagationPolicy(metav1.DeletePropagationOrphan), client.Preconditions{UID: ptr.To(there.GetUID())}); err != nil {
		return err
	}
	return errRecreate
}

// errRecreate is returned when an object was deleted so that it can be created with another
// selector: the next pass creates it.
var errRecreate = errors.New("deleted because of its selector, to be created again")
