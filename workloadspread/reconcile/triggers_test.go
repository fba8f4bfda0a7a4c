package reconcile

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/owners"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/workloads"
)

// stage is triggers with a queue.
type stage struct {
	*triggers
	t     *testing.T
	queue passes.Queue
}

func newStage(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	b := newHarness(t, objects...)
	s := &stage{t: t, triggers: &triggers{reader: &workloads.Reader{Spreads: b.server, Owners: owners.New(b.server, nil)},
		clock: clock.RealClock{}}}
	s.queue = workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	t.Cleanup(s.queue.ShutDown)
	if err := s.Attach(t.Context(), s.queue); err != nil {
		t.Fatal(err)
	}
	return s
}

// asked are the WorkloadSpreads that are asked for within a time.
func (s *stage) asked(within time.Duration) (names []string) {
	time.Sleep(within) //nolint:forbidigo // virtual time
	synctest.Wait()
	for s.queue.Len() > 0 {
		r, _ := s.queue.Get()
		names = append(names, r.Name)
		s.queue.Done(r)
	}
	return names
}

func (s *stage) wants(when string, within time.Duration, want ...string) {
	s.t.Helper()
	if got := s.asked(within); fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Errorf("%s: asked for %v, want %v", when, got, want)
	}
}

// A change of a pod leads to a pass over the WorkloadSpread of its workload, and over no other once
// the owners are known; in a namespace without any, to none.
func TestWhichPodsMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := spreadOver(subset("a", ""))
		other.Name, other.UID, other.Spec.TargetRef.Name = "other", "other", "other"
		s := newStage(t, append(deployed(1), spreadOver(subset("a", "")), other)...)
		create := func(pod *v1.Pod) { s.changes().Create(t.Context(), event.CreateEvent{Object: pod}, s.queue) }
		elsewhere := replica(1, "r1", "")
		elsewhere.Namespace = "elsewhere"
		create(elsewhere)
		s.wants("in another namespace", time.Second)
		create(replica(1, "r1", "a"))
		if got := s.asked(podChangeDelay); len(got) != 2 {
			t.Errorf("before the owners are known: asked for %v, want both", got)
		}
		if _, err := s.reader.Owners.Of(t.Context(), "shop", &replica(1, "r1", "").OwnerReferences[0]); err != nil {
			t.Fatal(err)
		}
		create(replica(2, "r1", "a"))
		s.wants("afterwards", podChangeDelay, "web")
		lone := replica(3, "r1", "")
		lone.OwnerReferences = nil
		create(lone)
		s.wants("without a controller", time.Second)
		for i := range 2 {
			s.changes().Delete(t.Context(), event.DeleteEvent{Object: replica(1+i, "r1", "a")}, s.queue)
		}
		s.wants("deleted", podChangeDelay, "web")
		s.workload(scale.Target{Namespace: "shop", Name: "other"})
		s.wants("the workload", 0, "other")
	})
}

// A pod that ends before the status counts it is counted at once, and one that starts is not.
func TestAPodThatEndsBeforeItIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := spreadOver(subset("a", ""))
		o.Status.VersionedSubsetStatuses = map[string][]v1alpha1.WorkloadSubsetCount{
			"r1": {{Name: "a", CreatingPods: map[string]metav1.Time{replica(1, "r1", "a").Name: metav1.Now()}}},
		}
		s := newStage(t, append(deployed(1), o)...)
		if _, err := s.reader.Owners.Of(t.Context(), "shop", &replica(1, "r1", "").OwnerReferences[0]); err != nil {
			t.Fatal(err)
		}
		change := func(i int, how func(*v1.Pod)) {
			before, after := replica(i, "r1", "a"), replica(i, "r1", "a")
			how(after)
			s.changes().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, s.queue)
		}
		ends := func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }
		change(1, func(p *v1.Pod) { p.Spec.NodeName = "other" })
		s.wants("it is bound", 0)
		s.wants("after a while", podChangeDelay, "web")
		change(1, ends)
		s.wants("it ends", 0, "web")
		change(2, ends)
		s.wants("one that is counted ends", 0)
		s.wants("after a while", podChangeDelay, "web")
	})
}

// Of the changes of a pod, those count that a decision depends on: conditions too, but not what
// containers and probes report. A pod that ends is looked at at once.
func TestWhichChangesOfAPodMatter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, append(deployed(1), spreadOver(subset("a", "")))...)
		if _, err := s.reader.Owners.Of(t.Context(), "shop", &replica(1, "r1", "").OwnerReferences[0]); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			what   string
			change func(*v1.Pod)
			within time.Duration
			wanted bool
		}{
			{"nothing", func(*v1.Pod) {}, time.Second, false},
			{"a restart", func(p *v1.Pod) { p.Status.ContainerStatuses = []v1.ContainerStatus{{RestartCount: 1}} }, time.Second, false},
			{"a probe", func(p *v1.Pod) { p.Status.Conditions[0].LastProbeTime = metav1.Now() }, time.Second, false},
			{"it is not ready", func(p *v1.Pod) { p.Status.Conditions[0].Status = v1.ConditionFalse }, podChangeDelay, true},
			{"it cannot be scheduled", func(p *v1.Pod) { waits(p, noon) }, podChangeDelay, true},
			{"the autoscaler acts", func(p *v1.Pod) {
				p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: "NodeProvisioningInProgress", Status: v1.ConditionTrue})
			}, podChangeDelay, true},
			{"a label", func(p *v1.Pod) { p.Labels["app"] = "canary" }, podChangeDelay, true},
			{"its cost", func(p *v1.Pod) { p.Annotations[workloadspread.AnnotationCost] = "7" }, podChangeDelay, true},
			{"it fails", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }, podChangeDelay, true},
			{"it is being deleted", func(p *v1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }, podChangeDelay, true},
		} {
			before, after := replica(1, "r1", "a"), replica(1, "r1", "a")
			c.change(after)
			s.changes().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, s.queue)
			var want []string
			if c.wanted {
				want = []string{"web"}
			}
			s.wants(c.what, c.within, want...)
		}
	})
}

// What admission notes in a status leads to a pass in the second in which it expires, and a status
// that says nothing of the kind to none.
func TestWhatAdmissionNotesExpiresOnTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t)
		before, after := spreadOver(subset("a", "3")), spreadOver(subset("a", "3"))
		update := func() {
			s.spreads().Update(t.Context(), event.UpdateEvent{ObjectOld: before, ObjectNew: after}, s.queue)
		}
		update()
		s.wants("nothing is noted", time.Hour)
		at := metav1.NewTime(s.clock.Now())
		after.Status.VersionedSubsetStatuses = map[string][]v1alpha1.WorkloadSubsetCount{"r1": {{Name: "a",
			CreatingPods: map[string]metav1.Time{"x": at}}}}
		update()
		s.wants("before", 30*time.Second-time.Millisecond)
		s.wants("at the second", time.Millisecond, "web")
		after.Status.VersionedSubsetStatuses["r1"][0].CreatingPods["y"] = metav1.NewTime(s.clock.Now())
		update()
		s.wants("it is over already", podChangeDelay, "web")
		after.Generation++
		update() // in a namespace without others
		s.wants("another spec", 0, "web")
	})
}

// A WorkloadSpread that comes or goes may change which pods others have: those of a workload of its
// name, and of another kind.
func TestWhichWorkloadSpreadsMatterToOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		named := func(name, kind, workload string) *v1alpha1.WorkloadSpread {
			s := targeting("apps/v1", kind, subset("a", ""))
			s.Name, s.UID, s.Spec.TargetRef.Name = name, types.UID(name), workload
			return s
		}
		s := newStage(t, named("same", "Deployment", "web"), named("below", "ReplicaSet", "web-1"), named("other", "Deployment", "api"))
		s.spreads().Delete(t.Context(), event.DeleteEvent{Object: named("gone", "Deployment", "web")}, s.queue)
		got := s.asked(0)
		if slices.Sort(got); fmt.Sprint(got) != "[below gone same]" {
			t.Errorf("asked for %v", got)
		}
	})
}
