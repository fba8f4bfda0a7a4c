package members

import (
	"encoding/json"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// Anyone who may write in a member labels large objects as federated. What is kept of them does not grow with them, and says
// all the same what their template is.
func TestLocalObjectsAreKeptSmall(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	meta := metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7", Generation: 3,
		Labels: map[string]string{v1alpha1.LabelFederated: "web", "team": long},
		Annotations: map[string]string{v1alpha1.AnnotationFederatedUID: "f", v1alpha1.LabelFederated + "-x": long, "note": long,
			annotationContent: "made up"},
		Finalizers: []string{long},
		OwnerReferences: []metav1.OwnerReference{{Kind: "A", Name: long},
			{Kind: "Deployment", Name: "web", UID: "d", Controller: ptr.To(true)}},
	}
	template := v1.PodTemplateSpec{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Env: []v1.EnvVar{{Name: "A", Value: long}}}}}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": long}}
	for _, o := range []interface {
		metav1.Object
		runtime.Object
	}{
		&appsv1.Deployment{ObjectMeta: *meta.DeepCopy(),
			Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](5), Selector: selector, Template: template}},
		&appsv1.ReplicaSet{ObjectMeta: *meta.DeepCopy(),
			Spec: appsv1.ReplicaSetSpec{Replicas: ptr.To[int32](5), Selector: selector, Template: template}},
	} {
		for range 2 { // informers may do so
			if kept, err := trimLocal(o); err != nil || kept != o {
				t.Fatalf("%v, %v", kept, err)
			}
		}
		if text, err := json.Marshal(o); err != nil || len(text) > 1000 || !strings.Contains(string(text), `"replicas":5`) {
			t.Errorf("%T has %d bytes, %v", o, len(text), err)
		}
		if got := ContentOf(o); got != HashTemplate(&template) {
			t.Errorf("%T: content %q, want that of its template", o, got)
		}
		if o.GetAnnotations()[v1alpha1.AnnotationFederatedUID] != "f" || metav1.GetControllerOf(o) == nil || o.GetGeneration() != 3 {
			t.Errorf("%T lacks what is read of it: %+v", o, o)
		}
	}
}
