package e2e

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// unsettled reports whether the object is not settled for a reason, with a message that says so.
func (s *stage) unsettled(ctx context.Context, t *testing.T, reason, says string) bool {
	t.Helper()
	c := meta.FindStatusCondition(s.get(ctx, t).Status.Conditions, v1alpha1.ConditionSettled)
	return c != nil && c.Status == metav1.ConditionFalse && c.Reason == reason && strings.Contains(c.Message, says)
}

// changeLocal changes the local object in a member, as somebody else does.
func (s *stage) changeLocal(ctx context.Context, t *testing.T, name string, change func(client.Object)) {
	t.Helper()
	d := s.local(ctx, name)
	if d == nil {
		t.Fatalf("no local object in %s", name)
	}
	before := d.DeepCopy()
	change(d)
	if err := s.members[name].Client.Patch(ctx, d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// Somebody else sizes the Deployment in one member to 60, again and again. The others keep their shares. It is put
// right a few times, then left alone and named, and put right again later, by itself.
func (w *federation) sizedByOthers(ctx context.Context, t *testing.T) {
	s := w.open(ctx, t, "sized-by-others", anyRoom, anyRoom, anyRoom)
	s.create(ctx, t, 30, 0, evenly)
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	s.begin(ctx, t)
	writes := func(name string) int { return len(s.written(t, s.marks, s.members[name])) }
	s.until(ctx, t, "the condition names it", func() bool {
		if sizes, _ := s.sizes(ctx); sizes[1] != 60 {
			patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":60}}`))
			if err := s.members["berlin"].Client.Patch(ctx, emptyDeployment(s.namespace, "web"), patch); err != nil {
				t.Fatal(err)
			}
		}
		return s.unsettled(ctx, t, "SecondWriter", "berlin: something else also writes its Deployment")
	})
	// Twice, and again for each pass that has not read yet what the one before has stored: on a busy machine that is a few.
	if n := writes("berlin"); n > 6 {
		t.Errorf("it was put right %d times before it was left alone", n)
	}
	s.until(ctx, t, "what it wants runs beside the shares of the others", func() bool {
		sizes, ready := s.sizes(ctx)
		return slices.Equal(sizes, []int32{10, 60, 10}) && slices.Equal(ready, sizes)
	})
	s.until(ctx, t, "it is put right when its pause is over", func() bool { sizes, _ := s.sizes(ctx); return sizes[1] == 10 })
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	if a, b, c := writes("amsterdam"), writes("berlin"), writes("cork"); a != 0 || b > 9 || c != 0 {
		t.Errorf("the local objects were written %d, %d and %d times", a, b, c)
	}
	s.bounds(t, "sized by others", 30, 80)
	s.close(ctx, t)
}

// A local object is deleted that has a finalizer of somebody else. It is not written while it is being deleted. Its
// share runs elsewhere when it has not started in time, and returns as soon as the object is gone.
func (w *federation) deletedSlowly(ctx context.Context, t *testing.T) {
	const finalizer = "example.com/wait"
	s := w.open(ctx, t, "deleted-slowly", anyRoom, anyRoom, anyRoom)
	s.create(ctx, t, 30, startup, evenly)
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	s.changeLocal(ctx, t, "berlin", func(o client.Object) { controllerutil.AddFinalizer(o, finalizer) })
	s.begin(ctx, t)
	if err := w.members["berlin"].Client.Delete(ctx, s.local(ctx, "berlin"),
		client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
		t.Fatal(err)
	}
	s.until(ctx, t, "the condition says that it is being deleted", func() bool { return s.unsettled(ctx, t, "Deleting", "berlin") })
	s.until(ctx, t, "its share runs elsewhere", func() bool { _, ready := s.sizes(ctx); return slices.Equal(ready, []int32{15, 0, 15}) })
	if writes := s.written(t, s.marks, s.members["berlin"]); len(writes) > 0 {
		t.Errorf("it is being deleted, and written: %v", writes)
	}
	s.changeLocal(ctx, t, "berlin", func(o client.Object) { controllerutil.RemoveFinalizer(o, finalizer) })
	s.settles(ctx, t, []int32{10, 10, 10}, nil)
	s.bounds(t, "deleted slowly", 20, 60)
	s.close(ctx, t)
}
