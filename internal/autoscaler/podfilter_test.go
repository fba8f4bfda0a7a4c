package autoscaler_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

func TestPodsThatClusterAutoscalerLeavesAlone(t *testing.T) {
	low, cutoff, zero := int32(-11), int32(-10), int32(0)
	now := metav1.Now()
	controller := true
	owned := func(kind string) func(*v1.Pod) {
		return func(p *v1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Name: "x", Controller: &controller}}
		}
	}
	condition := func(p *v1.Pod, reason string) {
		p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: reason}}
	}
	for name, tc := range map[string]struct {
		filter autoscaler.PodFilter
		change func(*v1.Pod)
		want   autoscaler.Why
	}{
		"a pod":            {autoscaler.PodFilter{}, func(*v1.Pod) {}, ""},
		"of a replica set": {autoscaler.PodFilter{}, owned("ReplicaSet"), ""},
		"of a daemon set":  {autoscaler.PodFilter{}, owned("DaemonSet"), autoscaler.OfDaemonSet},
		"of a node":        {autoscaler.PodFilter{}, owned("Node"), autoscaler.Static},
		"a mirror pod": {autoscaler.PodFilter{},
			func(p *v1.Pod) { p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"} }, autoscaler.Static},
		"gone soon": {autoscaler.PodFilter{}, func(p *v1.Pod) { p.DeletionTimestamp = &now }, autoscaler.BeingDeleted},
		"gated": {autoscaler.PodFilter{},
			func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}} }, autoscaler.Gated},
		"nominated":        {autoscaler.PodFilter{}, func(p *v1.Pod) { p.Status.NominatedNodeName = "n" }, autoscaler.Nominated},
		"below the cutoff": {autoscaler.PodFilter{}, func(p *v1.Pod) { p.Spec.Priority = &low }, autoscaler.Expendable},
		"at the cutoff":    {autoscaler.PodFilter{}, func(p *v1.Pod) { p.Spec.Priority = &cutoff }, ""},
		"another cutoff": {autoscaler.PodFilter{ExpendablePriorityCutoff: &zero}, func(p *v1.Pod) { p.Spec.Priority = &cutoff },
			autoscaler.Expendable},
		"the default by its name": {autoscaler.PodFilter{}, func(p *v1.Pod) { p.Spec.SchedulerName = v1.DefaultSchedulerName }, ""},
		"another scheduler":       {autoscaler.PodFilter{}, func(p *v1.Pod) { p.Spec.SchedulerName = "volcano" }, autoscaler.OtherScheduler},
		"another one has tried it": {autoscaler.PodFilter{},
			func(p *v1.Pod) { p.Spec.SchedulerName = "volcano"; condition(p, v1.PodReasonUnschedulable) }, ""},
		"another one is not done": {autoscaler.PodFilter{}, func(p *v1.Pod) { p.Spec.SchedulerName = "volcano"; condition(p, "Waiting") },
			autoscaler.OtherScheduler},
		"bypassed": {autoscaler.PodFilter{BypassedSchedulers: []string{"volcano"}}, func(p *v1.Pod) { p.Spec.SchedulerName = "volcano" }, ""},
		"not allowed": {autoscaler.PodFilter{AllowedSchedulers: []string{v1.DefaultSchedulerName}}, func(p *v1.Pod) {
			p.Spec.SchedulerName = "volcano"
			condition(p, v1.PodReasonUnschedulable)
		}, autoscaler.OtherScheduler},
		"the default allowed":     {autoscaler.PodFilter{AllowedSchedulers: []string{v1.DefaultSchedulerName}}, func(*v1.Pod) {}, ""},
		"the default not allowed": {autoscaler.PodFilter{AllowedSchedulers: []string{"volcano"}}, func(*v1.Pod) {}, autoscaler.OtherScheduler},
	} {
		p := &v1.Pod{}
		tc.change(p)
		why, reason := tc.filter.LeftAlone(p)
		if why != tc.want || (reason == "") != (why == "") {
			t.Errorf("%s: got %q, %q, want %q", name, why, reason, tc.want)
		}
	}
}
