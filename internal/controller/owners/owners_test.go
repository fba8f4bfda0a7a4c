package owners_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/evenkeel/evenkeel/internal/controller/owners"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func controlledBy(kind, name string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: kind, Name: name, UID: "u-" + "of-" + "web", Controller: new(true)}}
}

func deployed() []client.Object {
	return []client.Object{
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-of-web"}},
		&appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u-of-web-1",
			OwnerReferences: controlledBy("Deployment", "web")}},
	}
}

var ofPod = &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "u-of-web-1", Controller: new(true)}

func Example() {
	live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(deployed()...).Build()
	list, err := owners.New(live, nil).Of(context.Background(), "shop", ofPod)
	for _, o := range list {
		fmt.Println(o.GroupKind, o.Name)
	}
	fmt.Println(err)
	// Output:
	// ReplicaSet.apps web-1
	// Deployment.apps web
	// <nil>
}

// Each controller is read once within some minutes, and a reading that failed is repeated.
func TestControllersAreReadOnce(t *testing.T) {
	reads, problem := 0, error(nil)
	c := clocktesting.NewFakePassiveClock(start)
	live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(deployed()...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			reads++
			if problem != nil {
				return problem
			}
			return c.Get(ctx, key, o, opts...)
		},
	}).Build()
	o := owners.New(live, c)
	if _, known := o.Known("shop", ofPod); known {
		t.Error("known before it was read")
	}
	problem = errors.New("no answer")
	if _, err := o.Of(t.Context(), "shop", ofPod); !errors.Is(err, problem) {
		t.Errorf("the error is %v", err)
	}
	problem = nil
	for range 3 {
		if list, err := o.Of(t.Context(), "shop", ofPod); err != nil || len(list) != 2 {
			t.Errorf("got %v, %v", list, err)
		}
	}
	if reads != 3 {
		t.Errorf("%d reads, want one that failed and one of each controller", reads)
	}
	if list, known := o.Known("shop", ofPod); !known || list[1].Name != "web" {
		t.Errorf("got %v, %v", list, known)
	}
	c.SetTime(start.Add(6 * time.Minute))
	if _, known := o.Known("shop", ofPod); known {
		t.Error("known forever")
	}
}

// A controller that is gone is an error, also if another object has its name; the list ends before one that
// may not be read.
func TestControllersThatCannotBeRead(t *testing.T) {
	group := schema.GroupResource{Group: "apps", Resource: "replicasets"}
	for _, c := range []struct {
		name    string
		problem error
		ref     *metav1.OwnerReference
		gone    bool
	}{
		{"gone", nil, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-2", UID: "u"}, true},
		{"replaced", nil, &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1", UID: "u"}, true},
		{"forbidden", apierrors.NewForbidden(group, "web-1", nil), ofPod, false},
	} {
		live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(deployed()...).WithInterceptorFuncs(interceptor.Funcs{
			Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if c.problem != nil {
					return c.problem
				}
				return w.Get(ctx, key, o, opts...)
			},
		}).Build()
		list, err := owners.New(live, nil).Of(t.Context(), "shop", c.ref)
		if len(list) != 0 || apierrors.IsNotFound(err) != c.gone || !c.gone && err != nil {
			t.Errorf("%s: got %v, %v", c.name, list, err)
		}
	}
}

// A reference that somebody makes up is not taken for that of another object, whatever it has in common
// with it, and what was found about it is not either.
func TestReferencesThatAreMadeUp(t *testing.T) {
	live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(deployed()...).Build()
	o := owners.New(live, nil)
	for name, made := range map[string]struct {
		namespace string
		change    func(*metav1.OwnerReference)
	}{
		"another namespace": {"attack", func(*metav1.OwnerReference) {}},
		"another name":      {"shop", func(r *metav1.OwnerReference) { r.Name = "web-2" }},
		"another kind":      {"shop", func(r *metav1.OwnerReference) { r.Kind = "StatefulSet" }},
		"another version":   {"shop", func(r *metav1.OwnerReference) { r.APIVersion = "apps/v99" }},
		"another UID":       {"shop", func(r *metav1.OwnerReference) { r.UID = "u" }},
	} {
		ref := *ofPod
		made.change(&ref)
		if list, _ := o.Of(t.Context(), made.namespace, &ref); len(list) > 0 {
			t.Errorf("%s: got %v", name, list)
		}
		if list, err := o.Of(t.Context(), "shop", ofPod); err != nil || len(list) != 2 {
			t.Errorf("the true one after %s: got %v, %v", name, list, err)
		}
	}
}

// A controller is never asked for by a name that no object can have: the client would make another path of it.
func TestNamesThatArePaths(t *testing.T) {
	live := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
			t.Errorf("%q is asked for", key.Name)
			return nil
		},
	}).Build()
	for _, name := range []string{"../../../watch/pods", "web/status", "..", ".", "web%2fstatus"} {
		ref := &metav1.OwnerReference{APIVersion: "v1", Kind: "Pod", Name: name}
		if list, err := owners.New(live, nil).Of(t.Context(), "shop", ref); len(list) > 0 || !apierrors.IsNotFound(err) {
			t.Errorf("%q: %v, %v", name, list, err)
		}
	}
}
