package reconcile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/federation"
	"github.com/evenkeel/evenkeel/podhealth"
)

// existing is a Deployment of another origin, or one that was written for an owner.
func existing(owner string) *appsv1.Deployment {
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	d.Spec.Template.Spec = v1.PodSpec{HostNetwork: true, Containers: []v1.Container{{Name: "web", Image: "web:0"},
		{Name: "foreign", Image: "foreign:1"}}}
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

// An object without the label of local objects is not watched and seems to be missing. The event
// says that it was overwritten, not that it was created, and nothing of others is left in its template.
func TestAnUnwatchedObjectIsOverwritten(t *testing.T) {
	created, changed := podhealth.Event{Reason: federation.ReasonCreated, About: "a"}, federation.OverwroteChange("a")
	create, content := federation.Write{Cluster: "a", Create: true, Content: true, To: 5}, federation.Write{Cluster: "a", Content: true, To: 5}
	for name, c := range map[string]struct {
		objects []client.Object
		write   federation.Write
		about   podhealth.Event
		want    []podhealth.Event
		adopted bool
	}{
		"missing": {nil, create, created, []podhealth.Event{created}, false},
		"of another origin": {[]client.Object{existing("")}, create, created, []podhealth.Event{federation.OverwroteForeign("a", 3)},
			true},
		"of another FederatedReplicaSet": {[]client.Object{existing("u2")}, create, created,
			[]podhealth.Event{federation.OverwroteForeign("a", 3)}, false},
		"its label was removed": {[]client.Object{existing("u1")}, create, created, []podhealth.Event{changed}, false},
		"watched":               {[]client.Object{existing("u1")}, content, changed, []podhealth.Event{changed}, false},
	} {
		t.Run(name, func(t *testing.T) {
			api, f := member(c.objects...), web()
			f.Spec.Template.Spec.Raw = []byte(`{"containers":[{"name":"web","image":"web:1"}]}`)
			_, got, err := write(t.Context(), api, order{c.write, f, "", v1alpha1.TakeoverUnowned, []podhealth.Event{c.about}})
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("got %+v, %v, want %+v", got, err, c.want)
			}
			d := inMember(t, api)
			if pod := d.Spec.Template.Spec; len(pod.Containers) != 1 || pod.Containers[0].Image != "web:1" || pod.HostNetwork ||
				*d.Spec.Replicas != 5 {
				t.Errorf("%+v", d.Spec)
			}
			if adopted := d.Annotations[annotationAdopted] != ""; adopted != c.adopted {
				t.Errorf("%v", d.Annotations)
			}
			// The same again overwrites nothing, and says nothing.
			if _, got, err := write(t.Context(), api, order{content, f, "", v1alpha1.TakeoverUnowned, []podhealth.Event{changed}}); err != nil ||
				len(got) != 0 {
				t.Errorf("again: %+v, %v", got, err)
			}
		})
	}
	if e := federation.OverwroteForeign("a", 3); e.Reason != federation.ReasonOverwritten || !strings.Contains(e.Message, "3 replicas") {
		t.Errorf("%+v", e)
	}
}

// What a controller owns, what is being deleted and, as the admin says, what was not written for the object is
// left as it is, and the reason says so.
func TestWhatIsLeftAsItIs(t *testing.T) {
	owned, terminating := existing(""), existing("u1")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Shop", Name: "s", UID: "s", Controller: ptr.To(true)}}
	terminating.DeletionTimestamp, terminating.Finalizers = ptr.To(metav1.Now()), []string{"a/b"}
	for name, c := range map[string]struct {
		there    *appsv1.Deployment
		takeover v1alpha1.Takeover
		says     string
	}{
		"owned":       {owned, v1alpha1.TakeoverUnowned, "belongs to Shop s and is left as it is"},
		"terminating": {terminating, v1alpha1.TakeoverUnowned, "is being deleted"},
		"never":       {existing(""), v1alpha1.TakeoverNever, "has takeover: Never"},
		"its own":     {existing("u1"), v1alpha1.TakeoverNever, ""},
	} {
		api, f := member(c.there), web()
		f.Spec.Template.Spec.Raw = []byte(`{"containers":[{"name":"web","image":"web:1"}]}`)
		before := inMember(t, api)
		_, _, err := write(t.Context(), api, order{federation.Write{Cluster: "a", Create: true, Content: true, To: 5}, f, "", c.takeover, nil})
		switch {
		case c.says == "" && err == nil:
		case err == nil || !strings.Contains(refusal(f, err), c.says):
			t.Errorf("%s: %v", name, err)
		case !apiequality.Semantic.DeepEqual(before, inMember(t, api)):
			t.Errorf("%s: it was changed: %+v", name, inMember(t, api))
		}
	}
}

// What was somebody else's before is never deleted. It is left behind without the marks of a local object.
func TestAdoptedObjectIsLeftBehind(t *testing.T) {
	d := existing("u1")
	d.Annotations[annotationAdopted] = federated
	d.Labels = map[string]string{v1alpha1.LabelFederated: federated, "team": "other"}
	api := member(d)
	_, events, err := write(t.Context(), api, order{federation.Write{Cluster: "a", Delete: true}, web(), "", "", nil})
	if err != nil || len(events) != 1 || events[0].Reason != federation.ReasonLeftBehind {
		t.Errorf("%+v, %v", events, err)
	}
	if left := inMember(t, api); len(left.Annotations) != 0 || len(left.Labels) != 1 || *left.Spec.Replicas != 3 {
		t.Errorf("%+v", left)
	}
}

// A change of the number of replicas writes nothing else, and returns the version by which its
// result is recognized. What is gone already need not be deleted.
func TestWrite(t *testing.T) {
	f := web()
	c := member(existing("u1"))
	o, _, err := write(t.Context(), c, order{federation.Write{From: 3, To: 8}, f, "", "", nil})
	if err != nil {
		t.Fatal(err)
	}
	d, want := inMember(t, c), existing("u1")
	if *d.Spec.Replicas != 8 || d.ResourceVersion != o.GetResourceVersion() || d.Annotations[annotationReplicas] != "8" ||
		d.Annotations[annotationOwner] != "u1" {
		t.Errorf("version %q, %+v", o.GetResourceVersion(), d)
	}
	if d.Spec.Replicas = want.Spec.Replicas; !apiequality.Semantic.DeepEqual(d.Spec, want.Spec) {
		t.Errorf("got %+v, want %+v", d.Spec, want.Spec)
	}
	for range 2 {
		if _, _, err := write(t.Context(), c, order{federation.Write{Delete: true}, f, "", "", nil}); err != nil {
			t.Error(err)
		}
	}
	// A missing object is not created by a change of its number of replicas.
	if _, _, err := write(t.Context(), c, order{federation.Write{From: 2, To: 3}, f, "", "", nil}); !apierrors.IsNotFound(err) {
		t.Errorf("got %v", err)
	}
	f.Spec.Template.Spec.Raw = []byte(`[`)
	var failed apierrors.APIStatus
	if _, _, err := write(t.Context(), c, order{federation.Write{Create: true, Content: true}, f, "", "", nil}); err == nil ||
		errors.As(err, &failed) {
		t.Errorf("got %v", err)
	}
}
