package members

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// aPod belongs to a ReplicaSet, and was created at noon.
func aPod(name, owner string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(noon),
		Labels:          map[string]string{v1alpha1.LabelFederated: "true"},
		OwnerReferences: []metav1.OwnerReference{{Kind: ReplicaSet, Name: owner, Controller: ptr.To(true)}},
	}}
	for _, c := range change {
		c(p)
	}
	return p
}

func condition(kind v1.PodConditionType, status v1.ConditionStatus, after time.Duration) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions,
			v1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(noon.Add(after))})
	}
}

func onNode(p *v1.Pod) { p.Spec.NodeName, p.Status.Phase = "n", v1.PodPending }
func running(p *v1.Pod) {
	p.Spec.NodeName, p.Status.Phase = "n", v1.PodRunning
	p.Status.ContainerStatuses = []v1.ContainerStatus{{State: v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}}}}
}

func crashing(p *v1.Pod) {
	running(p)
	p.Status.ContainerStatuses = []v1.ContainerStatus{{RestartCount: 7,
		State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
}

func TestPods(t *testing.T) {
	for name, test := range map[string]struct {
		pods []*v1.Pod
		want string
	}{
		"none": {nil, "0 0 0 [] []"},
		"waits for a node since it was created": {
			[]*v1.Pod{aPod("a", "web")}, "1 0 0 [0s] []",
		},
		"waits for a node since the scheduler said so": {
			[]*v1.Pod{aPod("a", "web", condition(v1.PodScheduled, v1.ConditionFalse, time.Minute))},
			"1 0 0 [1m0s] []",
		},
		"starts since it got a node": {
			[]*v1.Pod{aPod("a", "web", onNode, condition(v1.PodScheduled, v1.ConditionTrue, time.Minute))},
			"1 1 0 [] [1m0s]",
		},
		"ready": {
			[]*v1.Pod{aPod("a", "web", running, condition(v1.PodReady, v1.ConditionTrue, time.Minute))},
			"1 1 1 [] []",
		},
		"not ready any more, which is not the cluster's fault": {
			[]*v1.Pod{aPod("a", "web", running, condition(v1.PodReady, v1.ConditionFalse, time.Minute))},
			"1 1 0 [] []",
		},
		"crashes again and again": {
			[]*v1.Pod{aPod("a", "web", crashing, condition(v1.PodReady, v1.ConditionFalse, 0))},
			"1 1 0 [] [0s]",
		},
		"those that end do not count": {
			[]*v1.Pod{
				aPod("a", "web", func(p *v1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(noon)) }),
				aPod("b", "web", func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }),
				aPod("c", "web", func(p *v1.Pod) { p.Status.Phase = v1.PodSucceeded }),
			}, "0 0 0 [] []",
		},
		"those of others do not count": {
			[]*v1.Pod{aPod("a", "other"), aPod("b", "web", func(p *v1.Pod) { p.OwnerReferences = nil }),
				aPod("d", "web", func(p *v1.Pod) { p.Labels = nil }), aPod("c", "web", func(p *v1.Pod) { p.Labels["pod-template-hash"] = "x" })},
			"1 0 0 [0s] []", // the hash is not that of its owner
		},
	} {
		t.Run(name, func(t *testing.T) {
			tally := newCounting()
			for _, p := range test.pods {
				count(tally, p)
			}
			if got := tally.counts[Local{ReplicaSet, "shop", "web"}]; shown(got) != test.want {
				t.Errorf("got %s, want %s", shown(got), test.want)
			}
		})
	}
}

// The pods of a Deployment are those of all its ReplicaSets: a rollout moves nothing.
func TestPodsOfDeployment(t *testing.T) {
	tally := newCounting()
	for i, hash := range []string{"5d4f", "5d4f", "77c9"} {
		p := aPod(fmt.Sprint(i), "web-"+hash, running, condition(v1.PodReady, v1.ConditionTrue, 0))
		p.Labels["pod-template-hash"] = hash
		count(tally, p)
	}
	if got := tally.counts[Local{Deployment, "shop", "web"}]; got.Ready != 3 {
		t.Errorf("%+v", got)
	}
}

// At the limit itself a pod has waited for long enough, and Next is that moment.
func TestPodsCrossTheLimitExactly(t *testing.T) {
	tally := newCounting()
	count(tally, aPod("a", "web"))
	count(tally, aPod("b", "web", condition(v1.PodScheduled, v1.ConditionFalse, time.Minute)))
	count(tally, aPod("c", "web", onNode, condition(v1.PodScheduled, v1.ConditionTrue, 30*time.Second)))
	p := tally.counts[Local{ReplicaSet, "shop", "web"}]
	const limit = 5 * time.Minute
	for _, step := range []struct {
		after                   time.Duration
		unscheduled, notStarted int32
		next                    time.Duration // 0 is never
	}{
		{0, 0, 0, limit},
		{limit - 1, 0, 0, limit},
		{limit, 1, 0, limit + 30*time.Second},
		{limit + 30*time.Second, 1, 1, limit + time.Minute},
		{limit + time.Minute, 2, 1, 0},
	} {
		now := noon.Add(step.after)
		next := time.Time{}
		if step.next > 0 {
			next = noon.Add(step.next)
		}
		u, n := p.Late(now, limit)
		if at := p.Next(now, limit); u != step.unscheduled || n != step.notStarted || !at.Equal(next) {
			t.Errorf("after %s: %d unscheduled, %d not started, next %s; want %+v", step.after, u, n, at, step)
		}
	}
}

// Whatever comes and goes, the counts are those of counting all pods anew, and counts that were read
// do not change.
func TestTallyCountsAsAnOracle(t *testing.T) {
	locals := []Local{{ReplicaSet, "shop", "a"}, {ReplicaSet, "shop", "b"}}
	rapid.Check(t, func(t *rapid.T) {
		tally, pods := newCounting(), map[string]*v1.Pod{}
		var read []Pods
		var was []string
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			name := rapid.SampledFrom([]string{"1", "2", "3", "4", "5", "6"}).Draw(t, "pod")
			if rapid.IntRange(0, 5).Draw(t, "deleted") == 0 {
				delete(pods, name)
				tally.forget(name)
			} else {
				p := aPod(name, rapid.SampledFrom([]string{"a", "b"}).Draw(t, "owner"),
					rapid.SampledFrom([]func(*v1.Pod){onNode, running, crashing, func(*v1.Pod) {},
						func(p *v1.Pod) { p.Status.Phase = v1.PodFailed }}).Draw(t, "kind"),
					condition(v1.PodScheduled, rapid.SampledFrom([]v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse}).Draw(t, "scheduled"),
						time.Duration(rapid.IntRange(0, 9).Draw(t, "since"))*time.Second),
					condition(v1.PodReady, rapid.SampledFrom([]v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse}).Draw(t, "ready"), time.Second))
				pods[name] = p
				count(tally, p)
			}
			for _, l := range locals {
				fresh := newCounting()
				for _, p := range pods {
					count(fresh, p)
				}
				got, want := tally.counts[l], fresh.counts[l]
				if shown(got) != shown(want) {
					t.Fatalf("%v: got %s, want %s", l, shown(got), shown(want))
				}
				if unscheduled, _ := got.waiting.count(); got.Created-got.Scheduled != unscheduled {
					t.Fatal(shown(got))
				}
				read, was = append(read, got), append(was, shown(got))
			}
		}
		for i := range read {
			if shown(read[i]) != was[i] {
				t.Fatalf("counts that were read changed from %s to %s", was[i], shown(read[i]))
			}
		}
	})
}

// counting counts pods as the caches do, which know what each was before.
type counting struct {
	*tally
	pods map[string]*pod
}

func newCounting() *counting { return &counting{newTally(), map[string]*pod{}} }

func count(c *counting, p *v1.Pod) []Local {
	trimmed, _ := trimPod(false)(p)
	before := c.pods[p.Name]
	c.pods[p.Name] = trimmed.(*pod)
	return c.count(before, c.pods[p.Name])
}

func (c *counting) forget(name string) {
	c.count(c.pods[name], nil)
	delete(c.pods, name)
}

// shown is what is counted: created, scheduled, ready, and since when after noon pods wait for a node
// or to start.
func shown(p Pods) string {
	unscheduled, notStarted := p.waiting.times()
	return fmt.Sprint(p.Created, p.Scheduled, p.Ready, unscheduled, notStarted)
}
