package e2e

import (
	"context"
	"fmt"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/autoscaler"
	"github.com/evenkeel/evenkeel/sidecar/cluster"
)

// The leader is frozen with its sidecar in the middle of a scale-up, and wakes when another leads:
// it orders nothing. When it leads again, the rest is ordered once.
func TestStockAutoscalerFrozenLeaderOrdersNothing(t *testing.T) {
	autoscaler.Binary(t)
	freeze := func(t *testing.T, w *trialRun) {
		t.Helper()
		for _, pid := range []int{w.sidecar.PID(), w.autoscaler.PID()} {
			if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
				t.Error(err)
			}
		}
	}
	for _, name := range []string{"at the first question", "after the first order"} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			c := trial{groups: zones("m", 40, 0, 0, 0), demands: []demand{{machine: "m", pods: 60, perNode: 2}}, boot: 20 * time.Second}
			frozen := make(chan struct{})
			if name == "at the first question" {
				c.question = func(w *trialRun) { freeze(t, w); close(frozen) }
			}
			w := startTrial(ctx, t, c, true)
			w.began = clock.RealClock{}.Now()
			workload := w.workloads["m"]
			*workload.Spec.Replicas += 60
			if err := w.plane.Client.Update(ctx, workload); err != nil {
				t.Fatal(err)
			}
			if c.question == nil {
				if err := w.ordered.Until(ctx, func(calls []autoscaler.Call) bool { return len(autoscaler.Increases(calls)) > 0 }); err != nil {
					t.Fatal(err)
				}
				freeze(t, w)
				close(frozen)
			}
			select {
			case <-frozen:
			case <-ctx.Done():
				t.Fatal(ctx.Err())
			}
			before := len(autoscaler.Increases(w.ordered.Calls()))
			const expired = 16 * time.Second // the lease of the leader is for 15
			if err := waitUntil(ctx, clock.RealClock{}.Now().Add(expired)); err != nil {
				t.Fatal(err)
			}
			w.hold(ctx, t, "another", clock.RealClock{}.Now())
			for _, pid := range []int{w.sidecar.PID(), w.autoscaler.PID()} {
				if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			// Longer than the autoscaler takes to notice that it does not lead any more.
			if err := waitUntil(ctx, clock.RealClock{}.Now().Add(12*time.Second)); err != nil {
				t.Fatal(err)
			}
			if now := autoscaler.Increases(w.ordered.Calls()); len(now) != before {
				t.Errorf("%d increases were ordered without leadership: %v", len(now)-before, now)
			}
			w.hold(ctx, t, "another", clock.RealClock{}.Now().Add(-time.Minute))
			restart(ctx, t, w.autoscaler)
			if err := w.run(ctx); err != nil {
				t.Fatal(err)
			}
			w.ran = clock.RealClock{}.Now()
			w.tell(ctx, t)
			if got, want := fmt.Sprint(w.targets()), "map[m-a:10 m-b:10 m-c:10]"; got != want {
				t.Errorf("ordered were %s, want %s", got, want)
			}
		})
	}
}

// hold gives the autoscaler's lease to a holder, as renewed at a time.
func (w *trialRun) hold(ctx context.Context, t *testing.T, holder string, renewed time.Time) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	if err := w.plane.Client.Get(ctx, client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: cluster.DefaultLease}, lease); err != nil {
		t.Fatal(err)
	}
	if *lease.Spec.HolderIdentity != holder {
		*lease.Spec.LeaseTransitions++
	}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &metav1.MicroTime{Time: renewed}
	if err := w.plane.Client.Update(ctx, lease); err != nil {
		t.Fatal(err)
	}
}
