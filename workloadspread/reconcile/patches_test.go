package reconcile

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// The API server is asked about a patch at first, when the template has changed, and again after a while. A pass over what is
// known asks nothing.
func TestWhenPatchesAreTried(t *testing.T) {
	s := spreadOver(subset("a", ""), subset("b", ""))
	s.Spec.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"spec":{"terminationGracePeriodSeconds":7}}`)}
	objects := deployed(1)
	objects[0].(*appsv1.Deployment).Spec.Template.Spec.Containers = []v1.Container{{Name: "main", Image: "web:1"}}
	b := newHarness(t, append(objects, s)...)
	pass := func(when string, tried bool) {
		t.Helper()
		b.mustPass()
		asked := strings.Contains(b.written(), "create")
		c := meta.FindStatusCondition(b.get().Status.SubsetStatuses[0].Conditions, v1alpha1.ConditionPatchFits)
		if c == nil || c.Status != metav1.ConditionTrue || asked != tried {
			t.Errorf("%s: %+v, asked %v", when, c, asked)
		}
		if meta.FindStatusCondition(b.get().Status.SubsetStatuses[1].Conditions, v1alpha1.ConditionPatchFits) != nil {
			t.Errorf("%s: a subset without a patch has a condition about it", when)
		}
	}
	pass("at first", true)
	pass("again", false)
	b.clock.SetTime(noon.Add(11 * time.Minute))
	pass("after ten minutes", true)
	d := &appsv1.Deployment{}
	if err := b.server.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, d); err != nil {
		t.Fatal(err)
	}
	d.Spec.Template.Spec.Containers[0].Image = "web:2"
	if err := b.server.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	pass("with another template", true)
}
