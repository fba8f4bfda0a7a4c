package reconcile

import (
	"context"
	"errors"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/podhealth"
)

// existing is a Deployment of another origin, or one that was written for an owner.
func existing(owner string) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	d.Spec.Replicas, d.Spec.Selector, d.Spec.Template.Labels = ptr.To[int32](3), &metav1.LabelSelector{MatchLabels: labels}, labels
	if owner != "" {
		d.Annotations = map[string]string{annotationOwner: owner}
	}
	return d
}

func member(objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(objects...).Build()
}

func inMember(t *testing.T, c client.Client) *appsv1.Deployment {
	t.Helper()
	d := &appsv1.Deployment{}
	if err := c.Get(context.Background(), client.ObjectKey{Namespace: "shop", Name: "web"}, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// E2: an object without the label of local objects is not watched and seems to be missing. The event
// says that it was overwritten, not that it was created.
func TestE2UnwatchedObjectIsOverwritten(t *testing.T) {
	created := podhealth.Event{Reason: federation.ReasonCreated, About: "a"}
	create := federation.Write{Cluster: "a", Create: true, Content: true, To: 5}
	for name, c := range map[string]struct {
		objects []client.Object
		write   federation.Write
		want    podhealth.Event
	}{
		"missing":                        {nil, create, created},
		"of another origin":              {[]client.Object{existing("")}, create, federation.OverwroteForeign("a", 3)},
		"of another FederatedReplicaSet": {[]client.Object{existing("u2")}, create, federation.OverwroteForeign("a", 3)},
		"its label was removed":          {[]client.Object{existing("u1")}, create, federation.OverwroteChange("a")},
		"watched":                        {[]client.Object{existing("u1")}, federation.Write{Cluster: "a", Content: true, To: 5}, created},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := found(t.Context(), member(c.objects...), web(), c.write, []podhealth.Event{created})
			if err != nil || len(got) != 1 || got[0] != c.want {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
		})
	}
	if e := federation.OverwroteForeign("a", 3); e.Reason != federation.ReasonOverwritten || !strings.Contains(e.Message, "3 replicas") {
		t.Errorf("%+v", e)
	}
}

// A change of the number of replicas writes nothing else, and returns the version by which its
// result is recognized. What is gone already need not be deleted.
func TestWrite(t *testing.T) {
	f := web()
	c := member(existing("u1"))
	o, err := write(t.Context(), c, f, federation.Write{From: 3, To: 8}, "")
	if err != nil {
		t.Fatal(err)
	}
	d, want := inMember(t, c), existing("u1")
	if *d.Spec.Replicas != 8 || d.ResourceVersion != o.GetResourceVersion() || d.Annotations[annotationReplicas] != "8" || d.Annotations[annotationOwner] != "u1" {
		t.Errorf("version %q, %+v", o.GetResourceVersion(), d)
	}
	if d.Spec.Replicas = want.Spec.Replicas; !apiequality.Semantic.DeepEqual(d.Spec, want.Spec) {
		t.Errorf("got %+v, want %+v", d.Spec, want.Spec)
	}
	for range 2 {
		if _, err := write(t.Context(), c, f, federation.Write{Delete: true}, ""); err != nil {
			t.Error(err)
		}
	}
	// A missing object is not created by a change of its number of replicas.
	if _, err := write(t.Context(), c, f, federation.Write{From: 2, To: 3}, ""); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	f.Spec.Template.Spec.Raw = []byte(`[`)
	var failed apierrors.APIStatus
	if _, err := write(t.Context(), c, f, federation.Write{Create: true, Content: true}, ""); err == nil || errors.As(err, &failed) {
		t.Errorf("got %v", err)
	}
}
