package provisioning

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/workloadspread"
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// at is so many seconds after the pod could not be scheduled.
func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

func pending(conditions ...v1.PodCondition) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web-0", Namespace: "shop", UID: "web-0"},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: append(conditions, v1.PodCondition{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(noon),
		})},
	}
}

func condition(status v1.ConditionStatus, seconds int) v1.PodCondition {
	return v1.PodCondition{Type: ConditionType, Status: status, LastTransitionTime: metav1.NewTime(at(seconds))}
}

// event is one about the pod. It was sent first and last at these times.
func event(reason, message string, first, last int) v1.Event {
	return v1.Event{
		InvolvedObject: v1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "web-0"},
		Reason:         reason, Message: message, Type: v1.EventTypeNormal,
		Source: v1.EventSource{Component: "cluster-autoscaler"}, ReportingController: "cluster-autoscaler",
		FirstTimestamp: metav1.NewTime(at(first)), LastTimestamp: metav1.NewTime(at(last)), Count: 1,
	}
}

func trigger(groups string, seconds int) v1.Event {
	return event("TriggeredScaleUp", "pod triggered scale-up: "+groups, seconds, seconds)
}

func refusal(first, last int) v1.Event {
	return event("NotTriggerScaleUp", "pod didn't trigger scale-up: 2 max node group size reached", first, last)
}

func from(e v1.Event, component string) v1.Event {
	e.Source.Component, e.ReportingController = component, component
	return e
}

func ofAnotherPod(e v1.Event) v1.Event {
	e.InvolvedObject.UID = "web-0-before"
	return e
}

// loop is the status of a loop of Cluster Autoscaler.
func loop(seconds int, groups map[string]Group) *Status {
	return &Status{Time: at(seconds), Groups: groups}
}

func growing(since int) Group { return Group{Growing: true, Since: at(since)} }
func resting(since int) Group { return Group{Since: at(since)} }

func TestWhatTheAutoscalerDoesAboutAPod(t *testing.T) {
	const spot = "[{spot 3->4 (max: 10)}]"
	grace := int(Grace.Seconds())
	acting := func(since int) *workloadspread.ScaleUp {
		return &workloadspread.ScaleUp{Acting: true, Since: at(since)}
	}
	over := func(since int) *workloadspread.ScaleUp { return &workloadspread.ScaleUp{Since: at(since)} }
	type groups = map[string]Group
	cases := []struct {
		name   string
		pod    *v1.Pod
		events []v1.Event
		status *Status
		now    int
		want   *workloadspread.ScaleUp // nil: not known
	}{
		{"the scheduler has found a node", &v1.Pod{Spec: v1.PodSpec{NodeName: "n"}}, []v1.Event{trigger(spot, 5)}, nil, 60, nil},

		{"condition: a node is on its way", pending(condition(v1.ConditionTrue, 5)), nil, nil, 60, acting(5)},
		{"condition: no node is ordered", pending(condition(v1.ConditionFalse, 5)), nil, nil, 60, over(5)},
		{"condition: it comes before events", pending(condition(v1.ConditionFalse, 5)), []v1.Event{trigger(spot, 9)},
			loop(50, groups{"spot": growing(-10)}), 60, over(5)},
		{"condition: it comes before the status", pending(condition(v1.ConditionTrue, 5)), []v1.Event{refusal(9, 9)},
			loop(50, groups{"spot": resting(40)}), 60, acting(5)},
		{"condition: no node was ordered before one for others was", pending(condition(v1.ConditionFalse, 5)), nil,
			loop(50, groups{"spot": growing(30)}), 60, acting(5)},
		{"condition: unknown says nothing", pending(condition(v1.ConditionUnknown, 5)), []v1.Event{trigger(spot, 9)}, nil, 60, acting(9)},

		{"no autoscaler", pending(), nil, nil, 60, nil},
		{"events of the scheduler only", pending(),
			[]v1.Event{from(event("FailedScheduling", "0/3 nodes are available", 0, 50), "default-scheduler")}, nil, 60, nil},
		{"events about the pod of that name before", pending(), []v1.Event{ofAnotherPod(trigger(spot, 5))}, nil, 60, nil},

		{"no status: a scale-up goes on", pending(), []v1.Event{trigger(spot, 5)}, nil, 600, acting(5)},
		{"no status: a refusal after it", pending(), []v1.Event{trigger(spot, 5), refusal(200, 200)}, nil, 600, over(200)},
		{"no status: a refusal before it", pending(), []v1.Event{refusal(5, 5), trigger(spot, 200)}, nil, 600, acting(200)},
		{"no status: refused again and again", pending(), []v1.Event{refusal(5, 605)}, nil, 610, over(5)},
		{"no status: refused, triggered, refused again with the same words", pending(), []v1.Event{refusal(5, 605), trigger(spot, 100)}, nil, 610,
			over(605)},
		{"no status: the clock of the autoscaler is ahead", pending(), []v1.Event{trigger(spot, 90)}, nil, 60, acting(60)},

		{"the node is on its way", pending(), []v1.Event{trigger(spot, 5)}, loop(50, groups{"spot": growing(10)}), 60, acting(5)},
		{"the status is of the loop before", pending(), []v1.Event{trigger(spot, 5)}, loop(0, groups{"spot": resting(-600)}), 10, acting(5)},
		{"the status does not know the group", pending(), []v1.Event{trigger(spot, 5)}, loop(50, groups{"other": resting(-600)}), 60, acting(5)},
		{"the node has come, and the pod did not fit", pending(), []v1.Event{trigger(spot, 5)}, loop(110, groups{"spot": resting(100)}), 115,
			over(100 + grace)},
		{"the node came within a loop", pending(), []v1.Event{trigger(spot, 5)}, loop(20, groups{"spot": resting(-600)}), 25, over(5 + grace)},
		{"the group has failed", pending(), []v1.Event{trigger(spot, 5)}, loop(80, groups{"spot": resting(70), "other": resting(-600)}), 85,
			over(70 + grace)},
		{"the group has failed, and another one is tried", pending(), []v1.Event{trigger(spot, 5)},
			loop(80, groups{"spot": resting(70), "other": growing(80)}), 85, acting(5)},
		{"the group has failed, and another one grows for others", pending(), []v1.Event{trigger(spot, 5)},
			loop(80, groups{"spot": resting(70), "other": growing(-60)}), 85, over(70 + grace)},
		{"one of two groups is still growing", pending(), []v1.Event{trigger("[{spot-a 0->1 (max: 3)} {spot-b 0->1 (max: 3)}]", 5)},
			loop(80, groups{"spot-a": resting(70), "spot-b": growing(10)}), 85, acting(5)},
		{"the autoscaler has died while the node was on its way", pending(), []v1.Event{trigger(spot, 5)}, loop(20, groups{"spot": resting(10)}),
			20 + int(Fresh.Seconds()) + 1, acting(5)},

		{"triggered, then refused while its node is on its way: pods like it are counted onto that", pending(),
			[]v1.Event{trigger(spot, 5), refusal(20, 20)}, loop(50, groups{"spot": growing(10)}), 60, acting(5)},
		{"triggered, then refused, and the node has come", pending(), []v1.Event{trigger(spot, 5), refusal(20, 20)},
			loop(60, groups{"spot": resting(50)}), 65, over(50 + grace)},
		{"triggered, then refused since the node had come", pending(), []v1.Event{trigger(spot, 5), refusal(60, 60)},
			loop(80, groups{"spot": resting(50)}), 85, over(60)},
		{"triggered, failed and refused within a second", pending(), []v1.Event{trigger(spot, 5), refusal(5, 5)},
			loop(8, groups{"spot": resting(5)}), 10, over(5)},
		{"triggered and refused within a second, and the node is on its way", pending(), []v1.Event{trigger(spot, 5), refusal(5, 5)},
			loop(8, groups{"spot": growing(5)}), 10, acting(5)},
		{"triggered and refused within a second, and another group is tried", pending(), []v1.Event{trigger(spot, 5), refusal(5, 5)},
			loop(8, groups{"spot": resting(5), "other": growing(6)}), 10, acting(5)},
		{"triggered and refused within a second, and the group fails later", pending(), []v1.Event{trigger(spot, 5), refusal(5, 5)},
			loop(80, groups{"spot": resting(70)}), 85, over(70 + grace)},
		{"triggered, then refused, and nothing is known of the group", pending(), []v1.Event{trigger(spot, 5), refusal(20, 20)},
			loop(50, groups{"other": growing(-60)}), 60, over(20)},
		{"refused, and nothing grows", pending(), []v1.Event{refusal(5, 5)}, loop(50, groups{"spot": resting(-600)}), 60, over(5)},
		{"refused while a node for others was on its way", pending(), []v1.Event{refusal(15, 15)}, loop(50, groups{"spot": growing(10)}), 60,
			over(15)},
		{"refused before a node for others was ordered", pending(), []v1.Event{refusal(15, 15)}, loop(50, groups{"spot": growing(30)}), 60,
			acting(15)},

		{"no event, and a node is on its way that it fits on", pending(), nil, loop(50, groups{"spot": growing(10)}), 60, acting(0)},
		{"no event, and the autoscaler has not looked yet", pending(), nil, loop(-5, groups{"spot": resting(-600)}), 5, acting(0)},
		{"no event, although the autoscaler has looked", pending(), nil, loop(50, groups{"spot": resting(-600)}), 60, nil},
		{"no event, and the autoscaler stopped long ago", pending(), nil, loop(-600, groups{"spot": growing(-700)}), 5, nil},

		{"Karpenter: a node is on its way", pending(),
			[]v1.Event{from(event("Nominated", "Pod should schedule on: nodeclaim/spot-x7", 5, 5), "karpenter")}, nil, 60, acting(5)},
		{"Karpenter: nothing helps", pending(), []v1.Event{from(event("FailedScheduling", "Failed to schedule pod, incompatible with nodepool", 5,
			5), "karpenter")}, nil, 60, over(5)},
		{"somebody else nominates", pending(), []v1.Event{from(event("Nominated", "", 5, 5), "somebody")}, nil, 60, nil},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, known := Of(c.pod, c.events, c.status, at(c.now))
			if known != (c.want != nil) {
				t.Fatalf("known is %t (%+v), want %+v", known, got, c.want)
			}
			if known && (got.Acting != c.want.Acting || !got.Since.Equal(c.want.Since)) {
				t.Errorf("acting %t since %v, want %t since %v", got.Acting, got.Since, c.want.Acting, c.want.Since)
			}
		})
	}
}
