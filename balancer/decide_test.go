package balancer

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

// with changes a policy.
func with(p v1alpha1.BalancerPolicy, change func(*v1alpha1.BalancerPolicy)) v1alpha1.BalancerPolicy {
	change(&p)
	return p
}

// late makes the last n pods of a target pending for an hour.
func (w *fakeCluster) late(target, n int) {
	pods := w.pods[target]
	for i := len(pods) - n; i < len(pods); i++ {
		pods[i] = podhealth.Pod{Created: noon.Add(-time.Hour), Phase: v1.PodPending}
	}
}

// later is the upstream rule for priority, healthy and D'Hondt the one for proportions.
func later(p *v1alpha1.BalancerPolicy) { p.Relief = v1alpha1.ReliefLaterOnly }
func healthy(p *v1alpha1.BalancerPolicy) {
	p.Relief, p.Rounding = v1alpha1.ReliefHealthyOnly, v1alpha1.RoundDHondt
}

func TestExamples(t *testing.T) {
	halves := proportional(map[string]int32{"a": 50, "b": 50})
	thirds := proportional(map[string]int32{"a": 30, "b": 70})
	order := priority("a", "b")
	upstream, healthyHalves := with(order, later), with(halves, healthy)
	tests := map[string]struct {
		replicas int32
		policy   v1alpha1.BalancerPolicy
		a, b     v1alpha1.BalancerTarget
		sizes    [2]int32 // what is found
		late     [2]int   // how many of that have not started in time
		want     [2]int32 // what is desired
		overflow string   // part of the message
		minimums string   // part of the message
	}{
		"30 to 70":      {replicas: 10, policy: thirds, want: [2]int32{3, 7}},
		"1 at 30 to 70": {replicas: 1, policy: thirds, want: [2]int32{0, 1}},
		"priority, max": {replicas: 10, policy: order, a: targetOf("a", -1, 3), want: [2]int32{3, 7}},
		"priority, min": {replicas: 10, policy: order, a: targetOf("a", 2, -1), b: targetOf("b", 3, -1), want: [2]int32{7, 3}},
		"priority, less than the minimums": {
			replicas: 1, policy: order, a: targetOf("a", 2, -1), b: targetOf("b", 3, -1), want: [2]int32{2, 3}, minimums: "asked for by 4",
		},
		"priority, both blocked, as upstream": {
			replicas: 10, policy: upstream, sizes: [2]int32{3, 3}, late: [2]int{2, 2}, want: [2]int32{10, 9}, overflow: "8 replicas",
		},
		"priority, a minimum that cannot run, as upstream": {
			replicas: 6, policy: upstream, a: targetOf("a", 3, -1), b: targetOf("b", 3, -1), sizes: [2]int32{3, 3}, late: [2]int{0, 3},
			want: [2]int32{3, 3}, overflow: "3 replicas",
		},
		"priority, a minimum that cannot run": {
			replicas: 6, policy: order, a: targetOf("a", 3, -1), b: targetOf("b", 3, -1), sizes: [2]int32{3, 3}, late: [2]int{0, 3},
			want: [2]int32{6, 3},
		},
		"priority, not named": {replicas: 10, policy: priority("b"), a: targetOf("a", 1, -1), want: [2]int32{1, 9}},
		"not named, as upstream": {
			replicas: 10, policy: with(priority("b"), later), a: targetOf("a", 1, -1), b: targetOf("b", -1, 4), want: [2]int32{1, 4},
			overflow: "5 replicas",
		},
		"proportional, not named": {replicas: 10, policy: proportional(map[string]int32{"b": 1}), a: targetOf("a", 1, -1), want: [2]int32{1, 9}},
		"both at max": {
			replicas: 10, policy: halves, a: targetOf("a", -1, 3), b: targetOf("b", -1, 2), want: [2]int32{3, 2}, overflow: "5 replicas",
		},
		"a minimum beyond all": {replicas: 10, policy: halves, a: targetOf("a", 20, -1), want: [2]int32{20, 0}, minimums: "asked for by 10"},
		"min and max":          {replicas: 10, policy: halves, a: targetOf("a", 3, 3), b: targetOf("b", 4, -1), want: [2]int32{3, 7}},
		"halves, one blocked": {
			replicas: 10, policy: healthyHalves, sizes: [2]int32{5, 5}, late: [2]int{2, 0}, want: [2]int32{5, 7},
		},
		"halves, a minimum blocked": {
			replicas: 6, policy: healthyHalves, a: targetOf("a", 3, -1), b: targetOf("b", 3, -1), sizes: [2]int32{3, 3}, late: [2]int{3, 0},
			want: [2]int32{3, 6},
		},
		"halves, max and blocked": {
			replicas: 18, policy: healthyHalves, a: targetOf("a", -1, 10), b: targetOf("b", -1, 10), sizes: [2]int32{9, 9}, late: [2]int{2, 0},
			want: [2]int32{9, 10}, overflow: "1 replica can",
		},
		"90 to 10, nearest":     {replicas: 5, policy: proportional(map[string]int32{"a": 85, "b": 15}), want: [2]int32{4, 1}},
		"90 to 10, as upstream": {replicas: 5, policy: with(proportional(map[string]int32{"a": 85, "b": 15}), healthy), want: [2]int32{5, 0}},
		"ties by name":          {replicas: 1, policy: halves, want: [2]int32{1, 0}},
		"a probe where blocked": {replicas: 9, policy: order, a: targetOf("a", -1, 5), sizes: [2]int32{9, 5}, late: [2]int{0, 2},
			want: [2]int32{5, 4}, overflow: "1 replica can"},
		"nothing, scaled to zero": {replicas: 0, policy: order, sizes: [2]int32{4, 4}, want: [2]int32{0, 0}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.a.Name == "" {
				tt.a = targetOf("a", -1, -1)
			}
			if tt.b.Name == "" {
				tt.b = targetOf("b", -1, -1)
			}
			w := newFakeCluster(specOf(tt.replicas, withFallback(tt.policy), tt.a, tt.b), tt.sizes[:]...)
			w.late(0, tt.late[0])
			w.late(1, tt.late[1])
			d, err := w.pass()
			must(t, err)
			if got := [2]int32{d.Status.Targets[0].Desired, d.Status.Targets[1].Desired}; got != tt.want {
				t.Errorf("desired %v, want %v: %+v", got, tt.want, d.Status.Targets)
			}
			checkCondition(t, d, v1alpha1.ConditionOverflow, tt.overflow)
			checkCondition(t, d, v1alpha1.ConditionMinimumsExceedReplicas, tt.minimums)
		})
	}
}

// checkCondition checks that a condition holds and says so, or does not hold if it is to say
// nothing.
func checkCondition(t *testing.T, d Decision, kind, part string) {
	t.Helper()
	c := meta.FindStatusCondition(d.Status.Conditions, kind)
	if c == nil || (c.Status == metav1.ConditionTrue) != (part != "") || !strings.Contains(c.Message, part) {
		t.Errorf("condition %s is %+v; want %q", kind, c, part)
	}
}

// Without a fallback nothing is ever started elsewhere.
func TestNoFallback(t *testing.T) {
	w := newFakeCluster(specOf(10, priority("a", "b"), targetOf("a", -1, -1), targetOf("b", -1, -1)), 10, 0)
	w.late(0, 5)
	d, err := w.pass()
	must(t, err)
	if len(d.Writes) != 0 || d.Status.Targets[0].NotStarted != 0 || d.Status.Targets[0].Capacity != nil {
		t.Errorf("%+v", d)
	}
}

// A target that cannot be read is left at its last known size, and the others share the rest.
func TestUnreadableTargets(t *testing.T) {
	w := newFakeCluster(specOf(12, proportional(map[string]int32{"a": 1, "b": 1, "c": 1}), targetOf("a", -1, -1), targetOf("b", 1, -1),
		targetOf("c", -1, -1)), 5, 2, 5)
	w.observe()
	gone := errors.New("no Deployment of that name")
	w.in.Targets[1] = TargetObservation{Name: "b", Err: gone}

	d, err := Decide(w.in)
	must(t, err)
	b := d.Status.Targets[1]
	if b.Reason != ReasonUnknown || b.Desired != 1 || b.Current != 1 {
		t.Errorf("never known, its minimum is set aside: %+v", b)
	}
	want := []Write{{"a", 5, 6, 0, "its share of the proportions"}}
	if !reflect.DeepEqual(d.Writes, want) {
		t.Errorf("writes %v, want %v", d.Writes, want)
	}
	checkCondition(t, d, v1alpha1.ConditionTargetsReadable, "")
	if !told(d, ReasonTargetUnreadable) {
		t.Error("no event")
	}
	again := w.in
	again.Status, again.Spec.Targets = d.Status, slices.Clone(again.Spec.Targets)
	again.Spec.Targets[1].MinReplicas = new(int32(2))
	d, err = Decide(again)
	must(t, err)
	if b = d.Status.Targets[1]; b.Reason != ReasonUnknown || b.Desired != 2 || told(d, ReasonTargetUnreadable) {
		t.Errorf("still not known, and its minimum is another: %+v", b)
	}

	w.observe()
	d, err = w.pass()
	must(t, err)
	if told(d, ReasonTargetUnreadable) || len(d.Writes) != 1 {
		t.Errorf("readable: %+v", d)
	}
	w.run()
	must(t, w.converge())
	w.in.Spec.Replicas = new(int32(9))
	w.observe()
	w.in.Targets[1] = TargetObservation{Name: "b", Err: gone}
	for i := range 2 {
		d, err = Decide(w.in)
		must(t, err)
		b = d.Status.Targets[1]
		if b.Reason != ReasonUnreadable || b.Desired != 4 || b.Current != 4 || d.Status.Targets[0].Desired != 3 {
			t.Errorf("known: %+v", d.Status.Targets)
		}
		if told(d, ReasonTargetUnreadable) != (i == 0) {
			t.Error("an event the first time, and no other")
		}
		w.in.Status = d.Status
	}
}

func told(d Decision, reason string) bool {
	for _, e := range d.Events {
		if e.Reason == reason {
			return true
		}
	}
	return false
}

// A target in conflict is not written; it says what to do.
func TestConflicts(t *testing.T) {
	w := newFakeCluster(specOf(10, priority("a", "b"), targetOf("a", -1, -1), targetOf("b", -1, -1)), 2, 2)
	w.in.Conflicts = map[string]string{"a": "Balancer shop/other claims it too: remove it from one of the two"}
	d, err := w.pass()
	must(t, err)
	if want := []Write{{"b", 2, 8, 0, "its place in the order"}}; !reflect.DeepEqual(d.Writes, want) {
		t.Errorf("writes %v, want %v", d.Writes, want)
	}
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionTargetsReadable)
	if c.Status != metav1.ConditionFalse || c.Message != "a: Balancer shop/other claims it too: remove it from one of the two" ||
		!told(d, ReasonTargetConflict) {
		t.Errorf("%+v", d)
	}
}

// Pods that the selector matches and that no target has are reported; nothing else comes of them.
func TestStrays(t *testing.T) {
	w := newFakeCluster(specOf(10, priority("a"), targetOf("a", -1, -1)), 10)
	w.in.Strays = []string{"batch-1", "batch-2"}
	d, err := w.pass()
	must(t, err)
	c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionTargetsReadable)
	if c.Status != metav1.ConditionTrue || !strings.Contains(c.Message, "pods of no target, 2 in all, such as batch-1: narrow it") ||
		len(d.Writes) > 0 {
		t.Errorf("%+v", d)
	}
}

// Where replicas is not set the sum that is found is adopted, and nothing is written before.
func TestAdoption(t *testing.T) {
	w := newFakeCluster(specOf(0, proportional(map[string]int32{"a": 1, "b": 1}), targetOf("a", -1, -1), targetOf("b", -1, -1)), 7, 2)
	w.in.Spec.Replicas = nil
	w.observe()
	w.in.Targets[1].Err = errors.New("no answer")
	d, err := Decide(w.in)
	must(t, err)
	if d.Adopt != nil || len(d.Writes) != 0 {
		t.Errorf("a size is not known: %+v", d)
	}
	d, err = w.pass()
	must(t, err)
	if d.Adopt == nil || *d.Adopt != 9 || len(d.Writes) != 0 {
		t.Errorf("9 are found: %+v", d)
	}
	must(t, w.converge())
	if fmt.Sprint(w.sizes) != "[5 4]" {
		t.Errorf("sizes %v", w.sizes)
	}
}

// Writes that make larger come first, and the greatest first.
func TestOrderOfWrites(t *testing.T) {
	w := newFakeCluster(specOf(20, priority("e", "d", "c", "b", "a"), targetOf("a", -1, -1), targetOf("b", -1, -1), targetOf("c", 1, 1),
		targetOf("d", 6, 6), targetOf("e", -1, 13)), 30, 40, 0, 0, 0)
	d, err := w.pass()
	must(t, err)
	want := "[{e 0 13 0 it has its maximum} {d 0 6 0 it has its maximum} {c 0 1 0 it has its maximum} " +
		"{b 40 11 29 its place in the order} {a 30 9 21 its place in the order}]"
	if got := fmt.Sprint(d.Writes); got != want {
		t.Error(got)
	}
}

// The time of a condition moves when its status does, and only then.
func TestConditionTimes(t *testing.T) {
	w := newFakeCluster(specOf(10, priority("a"), targetOf("a", -1, -1)), 10)
	since := func() (metav1.ConditionStatus, time.Duration) {
		d, err := w.pass()
		must(t, err)
		if len(d.Status.Conditions) != 7 {
			t.Fatalf("%d conditions", len(d.Status.Conditions))
		}
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBalanced)
		return c.Status, c.LastTransitionTime.Sub(noon)
	}
	check := func(status metav1.ConditionStatus, after time.Duration) {
		t.Helper()
		if s, d := since(); s != status || d != after {
			t.Errorf("%s since %v; want %s since %v", s, d, status, after)
		}
	}
	check(metav1.ConditionTrue, 0)
	w.in.Now = noon.Add(time.Minute)
	check(metav1.ConditionTrue, 0)
	w.in.Now = noon.Add(2 * time.Minute)
	w.in.Conflicts = map[string]string{"a": "shared"}
	check(metav1.ConditionFalse, 2*time.Minute)
	w.in.Now = noon.Add(3 * time.Minute)
	check(metav1.ConditionFalse, 2*time.Minute)
	w.in.Conflicts = nil
	check(metav1.ConditionTrue, 3*time.Minute)
}

// An invalid spec stops everything, and nothing is forgotten.
func TestInvalidSpec(t *testing.T) {
	w := newFakeCluster(specOf(10, withFallback(priority("a")), targetOf("a", -1, -1)), 10)
	w.late(0, 3)
	_, err := w.pass()
	must(t, err)
	w.in.Spec.Policy.Priorities.TargetOrder = []string{"b"}
	for i := range 2 {
		d, err := w.pass()
		must(t, err)
		c := meta.FindStatusCondition(d.Status.Conditions, v1alpha1.ConditionBalanced)
		if c.Reason != ReasonInvalidSpec || !strings.Contains(c.Message, "spec.policy.priorities.targetOrder[0]") || len(d.Writes) != 0 {
			t.Errorf("%+v", d)
		}
		if *d.Status.Targets[0].Capacity != 7 || told(d, ReasonInvalidSpec) != (i == 0) {
			t.Errorf("%+v", d)
		}
	}
}

// An input that is none is an error.
func TestWrongObservations(t *testing.T) {
	w := newFakeCluster(specOf(10, priority("a", "b"), targetOf("a", -1, -1), targetOf("b", -1, -1)), 1, 1)
	for name, targets := range map[string][]TargetObservation{
		"none": nil, "one missing": {{Name: "a"}}, "one twice": {{Name: "a"}, {Name: "a"}}, "another": {{Name: "a"}, {Name: "c"}},
	} {
		w.in.Targets = targets
		if d, err := Decide(w.in); err == nil {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// Why a target grows names the targets it stands in for, but not a crowd of them.
func TestWhyNamesWhomATargetStandsInFor(t *testing.T) {
	w := newFakeCluster(specOf(10, withFallback(proportional(map[string]int32{"a": 1, "b": 1, "c": 1, "d": 1, "e": 1})),
		targetOf("a", -1, -1), targetOf("b", -1, -1), targetOf("c", -1, -1), targetOf("d", -1, -1), targetOf("e", -1, -1)), 2, 2, 2, 2, 2)
	for i := range 4 {
		w.late(i, 1)
	}
	d, err := w.pass()
	must(t, err)
	want := []Write{{"e", 2, 6, 0, "its share of the proportions, and replicas of a, b, c and 1 more have not started"}}
	if !reflect.DeepEqual(d.Writes, want) {
		t.Errorf("%v, want %v", d.Writes, want)
	}
}
