package scaleup_test

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/scaleup"
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
		filter scaleup.PodFilter
		change func(*v1.Pod)
		want   scaleup.Why
	}{
		"a pod":                    {scaleup.PodFilter{}, func(*v1.Pod) {}, ""},
		"of a replica set":         {scaleup.PodFilter{}, owned("ReplicaSet"), ""},
		"of a daemon set":          {scaleup.PodFilter{}, owned("DaemonSet"), scaleup.OfDaemonSet},
		"of a node":                {scaleup.PodFilter{}, owned("Node"), scaleup.Static},
		"a mirror pod":             {scaleup.PodFilter{}, func(p *v1.Pod) { p.Annotations = map[string]string{v1.MirrorPodAnnotationKey: "x"} }, scaleup.Static},
		"gone soon":                {scaleup.PodFilter{}, func(p *v1.Pod) { p.DeletionTimestamp = &now }, scaleup.BeingDeleted},
		"gated":                    {scaleup.PodFilter{}, func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "kueue.x-k8s.io/admission"}} }, scaleup.Gated},
		"nominated":                {scaleup.PodFilter{}, func(p *v1.Pod) { p.Status.NominatedNodeName = "n" }, scaleup.Nominated},
		"below the cutoff":         {scaleup.PodFilter{}, func(p *v1.Pod) { p.Spec.Priority = &low }, scaleup.Expendable},
		"at the cutoff":            {scaleup.PodFilter{}, func(p *v1.Pod) { p.Spec.Priority = &cutoff }, ""},
		"another cutoff":           {scaleup.PodFilter{ExpendablePriorityCutoff: &zero}, func(p *v1.Pod) { p.Spec.Priority = &cutoff }, scaleup.Expendable},
		"the default by its name":  {scaleup.PodFilter{}, func(p *v1.Pod) { p.Spec.SchedulerName = v1.DefaultSchedulerName }, ""},
		"another scheduler":        {scaleup.PodFilter{}, func(p *v1.Pod) { p.Spec.SchedulerName = "volcano" }, scaleup.OtherScheduler},
		"another one has tried it": {scaleup.PodFilter{}, func(p *v1.Pod) { p.Spec.SchedulerName = "volcano"; condition(p, v1.PodReasonUnschedulable) }, ""},
		"another one is not done":  {scaleup.PodFilter{}, func(p *v1.Pod) { p.Spec.SchedulerName = "volcano"; condition(p, "Waiting") }, scaleup.OtherScheduler},
		"bypassed":                 {scaleup.PodFilter{BypassedSchedulers: []string{"volcano"}}, func(p *v1.Pod) { p.Spec.SchedulerName = "volcano" }, ""},
		"not allowed": {scaleup.PodFilter{AllowedSchedulers: []string{v1.DefaultSchedulerName}}, func(p *v1.Pod) {
			p.Spec.SchedulerName = "volcano"
			condition(p, v1.PodReasonUnschedulable)
		}, scaleup.OtherScheduler},
		"the default allowed":     {scaleup.PodFilter{AllowedSchedulers: []string{v1.DefaultSchedulerName}}, func(*v1.Pod) {}, ""},
		"the default not allowed": {scaleup.PodFilter{AllowedSchedulers: []string{"volcano"}}, func(*v1.Pod) {}, scaleup.OtherScheduler},
	} {
		p := &v1.Pod{}
		tc.change(p)
		why, reason := tc.filter.LeftAlone(p)
		if why != tc.want || (reason == "") != (why == "") {
			t.Errorf("%s: got %q, %q, want %q", name, why, reason, tc.want)
		}
	}
}
