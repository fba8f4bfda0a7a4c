package reconcile

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/federation/members"
)

// The annotations of a local object: the UID of the FederatedReplicaSet that it was written for, the
// number of replicas that was written last, and the revision of its content.
const (
	annotationOwner    = v1alpha1.AnnotationFederatedUID
	annotationReplicas = "evenkeel.dev/federated-replicas"
	annotationRevision = "evenkeel.dev/federated-revision"
)

// federated is the value of the label of local objects and their pods.
const federated = "true"

func kindOf(f *v1alpha1.FederatedReplicaSet) string {
	if f.Spec.LocalKind == v1alpha1.LocalDeployment {
		return members.Deployment
	}
	return members.ReplicaSet
}

// localOf is the local object that a cluster should have.
func localOf(f *v1alpha1.FederatedReplicaSet, replicas int32) (*unstructured.Unstructured, error) {
	var pod map[string]any
	if err := json.Unmarshal(f.Spec.Template.Spec.Raw, &pod); err != nil {
		return nil, fmt.Errorf("spec.template.spec: %w", err)
	}
	selector, err := toMap(f.Spec.Selector)
	if err != nil {
		return nil, err
	}
	ofPods := map[string]any{}
	for key, value := range f.Spec.Template.Metadata.Labels {
		ofPods[key] = string(value)
	}
	ofPods[v1alpha1.LabelFederated] = federated
	metadata := map[string]any{"labels": ofPods}
	if a := f.Spec.Template.Metadata.Annotations; len(a) > 0 {
		annotations := map[string]any{}
		for key, value := range a {
			annotations[key] = value
		}
		metadata["annotations"] = annotations
	}
	o := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": appsv1.SchemeGroupVersion.String(), "kind": kindOf(f),
		"spec": map[string]any{
			"replicas": int64(replicas), "selector": selector,
			"template": map[string]any{"metadata": metadata, "spec": pod},
		},
	}}
	o.SetNamespace(f.Namespace)
	o.SetName(f.Name)
	o.SetLabels(labels.Merge(labels.Set{v1alpha1.LabelFederated: federated}, f.Labels))
	o.SetAnnotations(marks(f, replicas, true))
	return o, nil
}

// marks are the annotations to write.
func marks(f *v1alpha1.FederatedReplicaSet, replicas int32, content bool) map[string]string {
	m := map[string]string{annotationReplicas: strconv.Itoa(int(replicas))}
	if content {
		m[annotationOwner], m[annotationRevision] = string(f.UID), federation.Revision(&f.Spec)
	}
	return m
}

func toMap(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var m map[string]any
	return m, json.Unmarshal(text, &m)
}

// identity is which object was found, and its version.
type identity struct {
	uid     types.UID
	version string
}

// seen is what was found of a local object in a cluster, without its pods. A template that is not
// what was written counts as that if the cluster is known to have made it of what was written.
func seen(c *members.Cluster, f *v1alpha1.FederatedReplicaSet, made func(*v1.PodTemplateSpec) bool) (l federation.Local, id identity) {
	var meta *metav1.ObjectMeta
	var spec any
	var template *v1.PodTemplateSpec
	if kindOf(f) == members.Deployment {
		d := c.Deployment(f.Namespace, f.Name)
		if d == nil {
			return l, identity{}
		}
		meta, spec, template = &d.ObjectMeta, d.Spec.Selector, &d.Spec.Template
		l.Replicas = ptr.Deref(d.Spec.Replicas, 1)
		s := d.Status
		l.Outdated, l.MaxUnavailable = max(0, s.Replicas-s.UpdatedReplicas), maxUnavailable(&d.Spec.Strategy)
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
		meta, spec, template = &r.ObjectMeta, r.Spec.Selector, &r.Spec.Template
		l.Replicas, l.RolledOut = ptr.Deref(r.Spec.Replicas, 1), true
		for _, condition := range r.Status.Conditions {
			if condition.Type == appsv1.ReplicaSetReplicaFailure && condition.Status == v1.ConditionTrue {
				l.FailingSince = c.HostTime(condition.LastTransitionTime.Time)
			}
		}
	}
	l.Exists, l.Terminating = meta.DeletionTimestamp == nil, meta.DeletionTimestamp != nil
	l.Foreign = meta.Annotations[annotationOwner] != string(f.UID)
	if n, err := strconv.ParseInt(meta.Annotations[annotationReplicas], 10, 32); err == nil && !l.Foreign {
		l.Written = ptr.To(int32(n))
	}
	if !l.Foreign && (meta.Annotations[annotationRevision] != federation.Revision(&f.Spec) || keeps(f, spec, template) || made(template)) {
		l.Revision = meta.Annotations[annotationRevision]
	}
	return l, identity{meta.UID, meta.ResourceVersion}
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

// keeps reports whether an object still has the content that was written, as far as this program
// knows its fields: a template may have others.
func keeps(f *v1alpha1.FederatedReplicaSet, selector any, template *v1.PodTemplateSpec) bool {
	want, err := localOf(f, 0)
	if err != nil {
		return true
	}
	wanted, _, _ := unstructured.NestedMap(want.Object, "spec", "template")
	var known v1.PodTemplateSpec
	if runtime.DefaultUnstructuredConverter.FromUnstructured(wanted, &known) == nil {
		if wanted, err = toMap(known); err != nil {
			return true
		}
	}
	wantedSelector, _, _ := unstructured.NestedMap(want.Object, "spec", "selector")
	has, err := toMap(template)
	hasSelector, failed := toMap(selector)
	return err == nil && failed == nil && contains(has, wanted) && contains(hasSelector, wantedSelector)
}

// contains reports whether a value has all that another one has. An API server adds defaults, and
// writes quantities in its own way.
func contains(has, want any) bool {
	switch w := want.(type) {
	case map[string]any:
		h, ok := has.(map[string]any)
		if !ok {
			return len(w) == 0 && has == nil
		}
		for key, value := range w {
			if !contains(h[key], value) {
				return false
			}
		}
		return true
	case []any:
		h, ok := has.([]any)
		if !ok || len(h) != len(w) {
			return len(w) == 0 && has == nil
		}
		for i := range w {
			if !contains(h[i], w[i]) {
				return false
			}
		}
		return true
	}
	if reflect.DeepEqual(has, want) || has == nil && (want == nil || reflect.ValueOf(want).IsZero()) {
		return true
	}
	a, err := resource.ParseQuantity(fmt.Sprint(has))
	b, failed := resource.ParseQuantity(fmt.Sprint(want))
	return err == nil && failed == nil && a.Cmp(b) == 0
}
