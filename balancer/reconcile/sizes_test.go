package reconcile

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/podhealth"
)

// act has the controllers of a target create the pods that are missing, which run at once, or delete
// those that are too many.
func (b *bench) act(target string, size int) {
	b.t.Helper()
	there := b.pods(target)
	for _, pod := range there[min(size, len(there)):] {
		if err := b.client.Delete(b.t.Context(), &pod); err != nil {
			b.t.Fatal(err)
		}
	}
	for range size - len(there) {
		pod := running("", map[string]string{"app": "web", "target": target})
		pod.GenerateName = target + "-"
		if err := b.client.Create(b.t.Context(), pod); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bench) pods(target string) []v1.Pod {
	b.t.Helper()
	var list v1.PodList
	if err := b.client.List(b.t.Context(), &list, client.MatchingLabels{"target": target}); err != nil {
		b.t.Fatal(err)
	}
	return list.Items
}

// weigh gives the targets of a Balancer proportions.
func (b *bench) weigh(name string, proportions map[string]int32) {
	b.t.Helper()
	web := b.get(name)
	web.Spec.Policy.Proportions.TargetProportions = proportions
	web.Generation++
	if err := b.client.Update(b.t.Context(), web); err != nil {
		b.t.Fatal(err)
	}
}

// A target gets fewer replicas, and more again before its controllers have deleted a pod. As long as
// they may still do that, nothing leaves elsewhere in place of those pods.
func TestMoreAgainBeforePodsAreDeleted(t *testing.T) {
	for name, seen := range map[string]bool{"both numbers are acted on": true, "the smaller number is never seen": false} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, append(append(pods("a", 10), pods("b", 10)...), balancerOf("web", 20, "a", "b"))...)
			b.server.deploy("a", 10)
			b.server.deploy("b", 10)
			b.pass("web")
			b.wrote("")
			b.weigh("web", map[string]int32{"a": 1, "b": 3})
			b.pass("web")
			b.wrote("b=15")
			b.act("b", 15)
			b.pass("web")
			b.wrote("a=5")
			b.weigh("web", map[string]int32{"a": 1, "b": 1})
			b.pass("web")
			b.wrote("a=10")
			if again := b.pass("web"); again != scale.PollInterval {
				t.Errorf("the next pass is in %s, want that of targets that are polled", again)
			}
			b.wrote("")
			if seen {
				b.act("a", 5)
			}
			if ready := len(b.pods("a")) + min(len(b.pods("b")), int(b.server.scales["b"].Spec.Replicas)); ready < 20 {
				t.Errorf("20 pods ran, then %d", ready)
			}
			b.act("a", 10)
			b.after(30*time.Second - time.Millisecond)
			if again := b.pass("web"); again != time.Millisecond {
				t.Errorf("the next pass is in %s, want it when no more pods are deleted", again)
			}
			b.wrote("")
			b.after(30 * time.Second)
			b.pass("web")
			b.wrote("b=10")
		})
	}
}

// What is known of a target that cannot be read still counts, and nothing is known of one that is new.
func TestSizesOfUnreadTargets(t *testing.T) {
	b := newBench(t)
	key := passes.Request(balancerOf("web", 0)).NamespacedName
	for i, step := range []struct {
		size int32
		err  error
		want int32
	}{{size: 9}, {size: 5}, {size: 9, want: 5}, {err: errNotRead, want: 5}, {size: 9, want: 5}} {
		targets := []balancer.TargetObservation{{Name: "a", Replicas: step.size, Err: step.err, Pods: make([]podhealth.Pod, 9)},
			{Name: "b", Err: errNotRead}}
		timer := podhealth.Timer{Now: start}
		b.memory(key).sizes.observe(targets, &timer)
		if got := ptr.Deref(targets[0].Staying, 0); got != step.want || timer.Next.IsZero() != (step.want == 0) || targets[1].Staying != nil {
			t.Errorf("step %d: %d stay, look again at %v", i, got, timer.Next)
		}
	}
	b.forget(key)
	targets := []balancer.TargetObservation{{Name: "a", Replicas: 9, Pods: make([]podhealth.Pod, 9)}}
	if b.memory(key).sizes.observe(targets, &podhealth.Timer{Now: start}); targets[0].Staying != nil || len(b.memory(key).sizes) != 1 {
		t.Error("a Balancer that is gone is remembered")
	}
}
