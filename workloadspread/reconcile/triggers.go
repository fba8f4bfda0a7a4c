package reconcile

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/podcache"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

// podChangeDelay is the delay of a pass after a change of a pod: pods seldom change alone, and new ones neither
// wait for their place nor for their cost.
const podChangeDelay = 2 * time.Second

// triggers requests passes over the WorkloadSpreads that a change may matter to. No workload is watched
// before the first pass.
type triggers struct {
	passes.Triggers
	reader *workloads.Reader
	clock  clock.PassiveClock
}

// workload requests a pass over the WorkloadSpreads of an object that changed. An object of another
// kind with the same name costs an unnecessary pass.
func (t *triggers) workload(o scale.Target) {
	for _, s := range t.list(context.Background(), o.Namespace) {
		if s.Spec.TargetRef.Name == o.Name {
			t.Pass(client.ObjectKeyFromObject(&s), 0)
		}
	}
}

// list returns the WorkloadSpreads of a namespace; none before the cache has started and after it has stopped,
// when there are no passes.
func (t *triggers) list(ctx context.Context, namespace string) []v1alpha1.WorkloadSpread {
	all, _ := t.reader.SpreadsIn(ctx, namespace)
	return all
}

// spreads requests a pass over a WorkloadSpread whose spec changed and over those that may have the same
// pods: those of a workload of the same name, and of another kind, which may be above or below its own. It
// also requests one for the time when what admission has noted in a status expires.
func (t *triggers) spreads() handler.EventHandler {
	enqueue := func(ctx context.Context, s *v1alpha1.WorkloadSpread, q passes.Queue) {
		q.Add(passes.Request(s))
		for _, other := range t.list(ctx, s.Namespace) {
			if other.Name != s.Name && (other.Spec.TargetRef.Name == s.Spec.TargetRef.Name || other.Spec.TargetRef.Kind != s.Spec.TargetRef.Kind) {
				q.Add(passes.Request(&other))
			}
		}
	}
	return passes.Handler(enqueue, func(ctx context.Context, before, s *v1alpha1.WorkloadSpread, q passes.Queue) {
		if before.Generation != s.Generation {
			enqueue(ctx, s, q)
		} else if expiry := workloadspread.Expiry(&s.Spec, &s.Status); !expiry.IsZero() {
			q.AddAfter(passes.Request(s), max(expiry.Sub(t.clock.Now()), podChangeDelay))
		}
	})
}

// changes requests passes over the WorkloadSpreads that a pod belongs to.
func (t *triggers) changes() handler.EventHandler { return passes.When(podcache.Differ, t.enqueue) }

// enqueue requests passes over the WorkloadSpreads of a pod; over all of the namespace if the owners
// of the pod are not known yet. A pod that ends before it was counted is counted at once: when it is gone, it looks
// like one that has not come yet, and new pods are kept out of its place.
func (t *triggers) enqueue(ctx context.Context, pod *v1.Pod, q passes.Queue) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return
	}
	above, known := t.reader.Owners.Known(pod.Namespace, ref)
	for _, s := range t.list(ctx, pod.Namespace) {
		if !known || workloads.Among(&s, above) {
			delay := podChangeDelay
			if !workloadspread.Active(pod) && workloadspread.Awaited(&s, pod) {
				delay = 0
			}
			q.AddAfter(passes.Request(&s), delay)
		}
	}
}
