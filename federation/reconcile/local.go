package reconcile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/federation/members"
)

// The annotations of a local object: the UID of the FederatedReplicaSet that it was written for, that it was
// somebody else's before, the number of replicas that was written last, and the revision of its content.
const (
	annotationOwner    = v1alpha1.AnnotationFederatedUID
	annotationAdopted  = v1alpha1.AnnotationFederatedAdopted
	annotationReplicas = "evenkeel.dev/federated-replicas"
	annotationRevision = "evenkeel.dev/federated-revision"
)

// federated is the value of the label of local objects and their pods.
const federated = "true"

func kindOf(f *v1alpha1.FederatedReplicaSet) string {
	return string(cmp.Or(f.Spec.LocalKind, v1alpha1.LocalReplicaSet))
}

// localOf is the local object that a cluster should have.
func localOf(f *v1alpha1.FederatedReplicaSet, replicas int32) (*unstructured.Unstructured, error) {
	text, err := json.Marshal(map[string]any{
		"apiVersion": appsv1.SchemeGroupVersion.String(), "kind": kindOf(f),
		"spec": map[string]any{"replicas": replicas, "selector": f.Spec.Selector, "template": f.Spec.Template},
	})
	o := &unstructured.Unstructured{}
	if err == nil {
		err = o.UnmarshalJSON(text)
	}
	if err == nil {
		err = unstructured.SetNestedField(o.Object, federated, "spec", "template", "metadata", "labels", v1alpha1.LabelFederated)
	}
	if err != nil {
		return nil, fmt.Errorf("spec.template: %w", err)
	}
	o.SetNamespace(f.Namespace)
	o.SetName(f.Name)
	o.SetLabels(labels.Merge(labels.Set{v1alpha1.LabelFederated: federated}, f.Labels))
	o.SetAnnotations(map[string]string{
		annotationOwner: string(f.UID), annotationRevision: federation.Revision(&f.Spec), annotationReplicas: strconv.Itoa(int(replicas)),
	})
	return o, nil
}

// identity is which object was found, its version, and whether its workload controller has acted on that.
type identity struct {
	uid         types.UID
	version     string
	acted       bool
	untouchable bool // it may not be overwritten
}

// seen is what was found of a local object in a cluster, without its pods. Its content is that of its revision
// if its template is what the cluster made of it, as the status says. What may not be overwritten there is
// not the local object: to write it fails, and says why.
func seen(c *members.Cluster, f *v1alpha1.FederatedReplicaSet,
	status *v1alpha1.FederatedReplicaSetStatus) (l federation.Local, id identity) {
	var meta *metav1.ObjectMeta
	if kindOf(f) == members.Deployment {
		d := c.Deployment(f.Namespace, f.Name)
		if d == nil {
			return l, identity{}
		}
		meta = &d.ObjectMeta
		l.Replicas = ptr.Deref(d.Spec.Replicas, 1)
		s := d.Status
		l.Outdated, l.MaxUnavailable = max(0, s.Replicas-s.UpdatedReplicas), maxUnavailable(&d.Spec.Strategy)
		l.Paused, id.acted = d.Spec.Paused, actedOn(d, c.ReplicaSetsOf(d))
		l.RolledOut = s.ObservedGeneration >= d.Generation && l.Outdated == 0
		for _, condition := range s.Conditions {
			if condition.Type == appsv1.DeploymentReplicaFailure && condition.Status == v1.ConditionTrue {
				l.FailingSince = c.HostTime(condition.LastTransitionTime.Time)
			}
		}
	} else {
		r := c.ReplicaSet(f.Namespace, f.Name)
		if r == nil {
			return l, identity{}
		}
		meta = &r.ObjectMeta
		l.Replicas, l.RolledOut, id.acted = ptr.Deref(r.Spec.Replicas, 1), true, r.Status.ObservedGeneration >= r.Generation
		for _, condition := range r.Status.Conditions {
			if condition.Type == appsv1.ReplicaSetReplicaFailure && condition.Status == v1.ConditionTrue {
				l.FailingSince = c.HostTime(condition.LastTransitionTime.Time)
			}
		}
	}
	l.Exists, l.Terminating = meta.DeletionTimestamp == nil, meta.DeletionTimestamp != nil
	if l.Exists && untouchable(meta, f, c.View().Takeover) != nil {
		return federation.Local{}, identity{untouchable: true}
	}
	l.Foreign = meta.Annotations[annotationOwner] != string(f.UID)
	if n, err := strconv.ParseInt(meta.Annotations[annotationReplicas], 10, 32); err == nil && !l.Foreign {
		l.Written = ptr.To(int32(n))
	}
	if s := status.Cluster(c.Name()); !l.Foreign && (s == nil || s.Content == "" || s.Content == members.ContentOf(meta)) {
		l.Revision = meta.Annotations[annotationRevision]
	}
	id.uid, id.version = meta.UID, meta.ResourceVersion
	return l, id
}

// actedOn reports whether the controllers of a Deployment have said that they know its number, and it has passed
// the number on to its ReplicaSets: no pods are deleted any more for an earlier one.
func actedOn(d *appsv1.Deployment, sets []*appsv1.ReplicaSet) bool {
	left := ptr.Deref(d.Spec.Replicas, 1)
	for _, r := range sets {
		if r.Status.ObservedGeneration < r.Generation {
			return false
		}
		left -= ptr.Deref(r.Spec.Replicas, 1)
	}
	return left == 0 && d.Status.ObservedGeneration >= d.Generation
}

// maxUnavailable is how many pods a Deployment may have out of service during a rollout.
func maxUnavailable(s *appsv1.DeploymentStrategy) *intstr.IntOrString {
	if s.Type == appsv1.RecreateDeploymentStrategyType {
		return ptr.To(intstr.FromString("100%"))
	}
	if s.RollingUpdate == nil {
		return nil
	}
	return s.RollingUpdate.MaxUnavailable
}

// adopted are the pods of a local object that were not created from its template, and are not watched
// because they lack its labels. A ReplicaSet keeps them; a Deployment replaces them. What is known of
// them is in its status, where those that are not ready may only be starting.
func adopted(c *members.Cluster, f *v1alpha1.FederatedReplicaSet, watched members.Pods) (p members.Pods) {
	var ready int32
	if kindOf(f) == members.Deployment {
		if d := c.Deployment(f.Namespace, f.Name); d != nil {
			p.Created, ready = min(d.Status.Replicas-watched.Created, d.Status.Replicas-d.Status.UpdatedReplicas), d.Status.ReadyReplicas
		}
	} else if r := c.ReplicaSet(f.Namespace, f.Name); r != nil {
		p.Created, ready = r.Status.Replicas-r.Status.FullyLabeledReplicas, r.Status.ReadyReplicas
	}
	p.Created = max(0, p.Created)
	p.Ready = min(p.Created, max(0, ready-watched.Ready))
	return p
}
