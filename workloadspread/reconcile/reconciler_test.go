package reconcile

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
	"github.com/evenkeel/evenkeel/internal/controller/scale"
	"github.com/evenkeel/evenkeel/podhealth"
	"github.com/evenkeel/evenkeel/workloadspread"
)

func node(name, zone string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelTopologyZone: zone}}}
}

// tenOf are ten pods, eight of subset a and two of b.
func tenOf() []client.Object {
	objects := deployed(10)
	for i := range 10 {
		objects = append(objects, replica(i, "r1", string("aaaaaaaabb"[i])))
	}
	return objects
}

// The order of the scale-down is that of the worked example: 200 and 100; with fewer places in a,
// those that a has too many get -100. Then nothing more is written.
func TestDeletionCostsFollowTheSubsets(t *testing.T) {
	b := newHarness(t, append(tenOf(), spreadOver(subset("a", "8"), subset("b", "")))...)
	b.mustPass()
	if got := b.costs(); got != "200 200 200 200 200 200 200 200 100 100" {
		t.Errorf("the costs are %s", got)
	}
	if got := b.get().Status.Filled; got != "a 8/8, b 2/-" {
		t.Errorf("filled %q", got)
	}
	if got := b.written(); strings.Count(got, "mark") != 10 || strings.Count(got, "status") != 1 {
		t.Errorf("wrote %s", got)
	}
	if again := b.mustPass(); b.written() != "" || again != scale.PollInterval {
		t.Errorf("an idle pass writes, or comes again in %s", again)
	}

	s := b.get()
	s.Spec.Subsets[0] = subset("a", "5")
	if err := b.server.Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	b.mustPass()
	if got := b.costs(); got != "200 200 200 200 200 -100 -100 -100 100 100" {
		t.Errorf("the costs are %s", got)
	}
	if got := b.written(); strings.Count(got, "mark") != 3 {
		t.Errorf("wrote %s, want the three that differ", got)
	}
	if b.mustPass(); b.written() != "" {
		t.Error("an idle pass writes")
	}
}

// Pods that were there before, or that were created while no webhook answered, are counted in the
// subset whose nodes they run on; the status says of the others that they are in none.
func TestPodsThatNobodyAdmittedAreFound(t *testing.T) {
	in := func(s v1alpha1.WorkloadSubset, zone string) v1alpha1.WorkloadSubset {
		s.RequiredNodeSelector = &v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone,
			Operator: v1.NodeSelectorOpIn, Values: []string{zone}}}}
		return s
	}
	objects := append(deployed(4), spreadOver(in(subset("a", "2"), "one"), in(subset("b", ""), "two")), node("n", "one"), node("m", "two"),
		node("o", "three"))
	for i, name := range []string{"n", "m", "o"} {
		pod := replica(i, "r1", "")
		pod.Spec.NodeName = name
		objects = append(objects, pod)
	}
	other := replica(9, "r2", "") // its ReplicaSet is gone
	b := newHarness(t, append(objects, other)...)
	b.mustPass()
	b.mustPass()
	s := b.get().Status
	if s.Filled != "a 1/2, b 1/-" || s.Unassigned != 1 || meta.IsStatusConditionTrue(s.Conditions, v1alpha1.ConditionAllInSubsets) {
		t.Errorf("the status is %+v", s)
	}
	a, ok := workloadspread.AssignmentOf(b.pod("web-r1-000"))
	if !ok || a.Subset != "a" || a.Name != "web" {
		t.Errorf("assigned to %+v", a)
	}
	if got := b.costs(); got != "200 100 -300 " {
		t.Errorf("the costs are %q", got)
	}
}

// An unknown workload is a condition, not an error, also if nobody knows the kind, it may not be
// read, or its number of replicas is none.
func TestWorkloadsThatCannotBeRead(t *testing.T) {
	for _, c := range []struct {
		kind, reason string
		paths        []string
	}{
		{"Deployment", workloadspread.ReasonNotFound, nil},
		{"Rollout", workloadspread.ReasonNotFound, []string{"spec.replicas"}},
		{"ConfigMap", workloadspread.ReasonUnreadable, []string{"metadata.name"}},
	} {
		s := spreadOver(subset("a", ""))
		s.Spec.TargetRef.Kind = c.kind
		if c.kind == "ConfigMap" {
			s.Spec.TargetRef.APIVersion = "v1"
		}
		if c.paths != nil {
			s.Spec.TargetFilter = &v1alpha1.WorkloadFilter{ReplicasPathList: c.paths}
		}
		b := newHarness(t, s, &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}})
		again := b.mustPass()
		found := meta.FindStatusCondition(b.get().Status.Conditions, v1alpha1.ConditionTargetFound)
		if found == nil || found.Reason != c.reason || again == 0 {
			t.Errorf("%s: the condition is %+v, the next pass in %s", c.kind, found, again)
		}
		b.written()
		if b.mustPass(); b.written() != "" {
			t.Errorf("%s: an idle pass writes", c.kind)
		}
	}
}

// adaptive is a WorkloadSpread whose pods move on after 30 seconds.
func adaptive() *v1alpha1.WorkloadSpread {
	s := spreadOver(subset("a", "5"), subset("b", ""))
	s.Spec.ScheduleStrategy = v1alpha1.WorkloadScheduleStrategy{Type: v1alpha1.ScheduleAdaptive,
		Adaptive: &v1alpha1.AdaptiveSchedule{RescheduleCriticalSeconds: new(int32(30))}}
	return s
}

// A pod that cannot be scheduled is deleted in the second in which its time is over, and its subset
// is open again in the second in which the mark expires.
func TestPodsMoveOnAtTheExactSecond(t *testing.T) {
	b := newHarness(t, append(deployed(2), adaptive(), replica(0, "r1", "a"), waits(replica(1, "r1", "a"), noon.Add(-12*time.Second)))...)
	wait := b.mustPass()
	if wait != scale.PollInterval { // less than the 18 s that are left
		t.Errorf("the next pass is in %s", wait)
	}
	b.clock.SetTime(noon.Add(15 * time.Second))
	if wait = b.mustPass(); wait != 3*time.Second || b.pod("web-r1-001") == nil {
		t.Fatalf("the next pass is in %s", wait)
	}
	b.told()
	b.clock.SetTime(noon.Add(18 * time.Second))
	if b.mustPass(); b.pod("web-r1-001") != nil {
		t.Error("the pod is still there")
	}
	if told := b.told(); !strings.Contains(told, "Normal Rescheduled") || !strings.Contains(told, "Warning Unschedulable") {
		t.Errorf("told %q", told)
	}
	marked := func() bool { return b.get().Status.SubsetStatuses[0].UnschedulableUntil != nil }
	for b.clock.SetTime(noon.Add(18*time.Second + 299*time.Second)); ; b.clock.SetTime(b.clock.Now().Add(wait)) {
		if wait = b.mustPass(); !marked() {
			break
		}
	}
	if after := b.clock.Now().Sub(noon); after != 318*time.Second {
		t.Errorf("the mark was removed after %s", after)
	}
}

// What changed since it was seen is not deleted, and what fails is tried again, without a second event
// and without holding others back.
func TestADeletionThatFailsHoldsNothingBack(t *testing.T) {
	late := noon.Add(-time.Minute)
	b := newHarness(t, append(deployed(3), adaptive(), waits(replica(0, "r1", "a"), late), waits(replica(1, "r1", "a"), late),
		replica(2, "r1", "a"))...)
	b.fault = func(_ int, what string) (error, bool) {
		switch what {
		case "delete web-r1-000":
			return forbidden("web-r1-000"), false
		case "mark web-r1-002":
			return forbidden("web-r1-002"), false
		}
		return nil, false
	}
	if _, err := b.pass(); err == nil || !strings.Contains(err.Error(), "writing pod shop/web-r1-000") ||
		!strings.Contains(err.Error(), "writing pod shop/web-r1-002") {
		t.Errorf("the error is %v", err)
	}
	if b.pod("web-r1-000") == nil || b.pod("web-r1-001") != nil {
		t.Error("not the other one is deleted")
	}
	if told := b.told(); strings.Count(told, "Rescheduled") != 1 {
		t.Errorf("told %q", told)
	}
	b.fault = nil
	b.mustPass()
	if b.pod("web-r1-000") != nil || b.costs() != "200" {
		t.Errorf("left: %s", b.costs())
	}
}

// While the autoscaler acts for a pod it is kept, and the autoscaler is asked again soon.
func TestNoPodIsDeletedWhileTheAutoscalerActs(t *testing.T) {
	b := newHarness(t, append(deployed(1), adaptive(), waits(replica(0, "r1", "a"), noon.Add(-time.Minute)))...)
	does := scaleUps{"uid-web-r1-000": {Acting: true, Since: noon.Add(-50 * time.Second)}}
	b.autoscaler = does
	if wait := b.mustPass(); wait != askAgain || b.pod("web-r1-000") == nil {
		t.Errorf("the next pass is in %s, the pod is %v", wait, b.pod("web-r1-000"))
	}
	if n := gauge(t, b.registry, "evenkeel_workloadspread_deferred_pods"); n != 1 {
		t.Errorf("%v pods are deferred", n)
	}
	does["uid-web-r1-000"] = workloadspread.ScaleUp{Since: noon.Add(-time.Second)} // it has given up
	if b.mustPass(); b.pod("web-r1-000") != nil {
		t.Error("the pod is still there")
	}
}

// A pod whose time is over only when the autoscaler has been asked about others is kept until it is asked about.
func TestNoPodIsDeletedThatTheAutoscalerWasNotAskedAbout(t *testing.T) {
	critical := time.Duration(*adaptive().Spec.ScheduleStrategy.Adaptive.RescheduleCriticalSeconds) * time.Second
	b := newHarness(t, append(deployed(2), adaptive(), waits(replica(0, "r1", "a"), noon.Add(-critical)),
		waits(replica(1, "r1", "a"), noon.Add(time.Second-critical)))...)
	b.autoscaler = asked(func(pods []*v1.Pod) (acts scaleUps) {
		b.clock.SetTime(b.clock.Now().Add(2 * time.Second))
		acts = scaleUps{}
		for _, p := range pods {
			acts[p.UID] = workloadspread.ScaleUp{Acting: true, Since: noon}
		}
		return acts
	})
	for range 2 {
		if b.mustPass(); b.pod("web-r1-000") == nil || b.pod("web-r1-001") == nil {
			t.Fatal("a pod is gone")
		}
	}
}

// asked is an autoscaler that answers about the pods that it is asked about.
type asked func([]*v1.Pod) scaleUps

func (a asked) ScaleUps(_ context.Context, pods []*v1.Pod) (map[types.UID]workloadspread.ScaleUp, error) {
	return a(pods), nil
}

// scaleUps is what an autoscaler does.
type scaleUps map[types.UID]workloadspread.ScaleUp

func (s scaleUps) ScaleUps(context.Context, []*v1.Pod) (map[types.UID]workloadspread.ScaleUp, error) {
	return s, nil
}

func forbidden(name string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, name, errors.New("not allowed"))
}

func gauge(t *testing.T, registry *prometheus.Registry, name string) float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
	if i < 0 || len(families[i].GetMetric()) != 1 {
		t.Fatalf("there is no metric %s, or several", name)
	}
	return families[i].GetMetric()[0].GetGauge().GetValue()
}

func (b *harness) update(pod *v1.Pod) {
	b.t.Helper()
	status := pod.Status
	if err := b.server.Update(b.t.Context(), pod); err != nil {
		b.t.Fatal(err)
	}
	pod.Status = status
	if err := b.server.Status().Update(b.t.Context(), pod); err != nil {
		b.t.Fatal(err)
	}
}

// A pod that has got a node since it was seen is not deleted, nor is another pod of its name; what was
// decided about the others is done.
func TestWhatHasChangedSinceItWasSeenIsKept(t *testing.T) {
	late := noon.Add(-time.Minute)
	b := newHarness(t, append(deployed(3), adaptive(), waits(replica(0, "r1", "a"), late), waits(replica(1, "r1", "a"), late),
		waits(replica(2, "r1", "a"), late))...)
	b.late = &v1.PodList{}
	if err := b.server.List(t.Context(), b.late); err != nil {
		t.Fatal(err)
	}
	scheduled := b.pod("web-r1-000")
	scheduled.Spec.NodeName, scheduled.Status = "n", replica(0, "r1", "a").Status
	b.update(scheduled)
	if err := b.server.Delete(t.Context(), b.pod("web-r1-001")); err != nil {
		t.Fatal(err)
	}
	other := replica(1, "r1", "a")
	other.UID = "other"
	if err := b.server.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if again := b.mustPass(); again != passes.FirstRetry {
		t.Errorf("the next pass is in %s", again)
	}
	if b.pod("web-r1-000") == nil || b.pod("web-r1-001") == nil || b.pod("web-r1-002") != nil {
		t.Error("not the one that waits is deleted")
	}
	if told := b.told(); strings.Count(told, "Rescheduled") != 1 {
		t.Errorf("told %q", told)
	}
}

// Where no webhook refuses a second WorkloadSpread of a workload, the first by name counts: the other
// says so and does nothing, until the first is deleted.
func TestTwoOfOneWorkload(t *testing.T) {
	second := spreadOver(subset("b", ""))
	first := spreadOver(subset("a", ""))
	first.Name, first.UID = "first", "first"
	b := newHarness(t, append(deployed(1), first, second, replica(0, "r1", "b"))...)
	b.mustPass()
	valid := func() *metav1.Condition {
		return meta.FindStatusCondition(b.get().Status.Conditions, v1alpha1.ConditionSpecValid)
	}
	if c := valid(); c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, "which the WorkloadSpread first spreads") ||
		b.costs() != "" {
		t.Errorf("the condition is %+v, the costs are %q", c, b.costs())
	}
	if err := b.server.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	b.mustPass()
	if c := valid(); c.Status != metav1.ConditionTrue || b.costs() != "100" {
		t.Errorf("the condition is %+v, the costs are %q", c, b.costs())
	}
}

// Of the pods of a Deployment and of its ReplicaSet, the first WorkloadSpread by name that selects them
// has them, as at admission; the other says so, and takes them over when the spec of the first is
// invalid.
func TestOneOfADeploymentAndOneOfItsReplicaSet(t *testing.T) {
	second := spreadOver(subset("b", "5"))
	second.Spec.TargetRef = v1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-r1"}
	first := spreadOver(subset("a", "5"))
	first.Name, first.UID = "first", "first"
	first.Spec.TargetFilter = &v1alpha1.WorkloadFilter{Selector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"tier": "gold"}}}
	gold, other := replica(0, "r1", ""), replica(1, "r1", "")
	gold.Labels["tier"] = "gold"
	objects := append(deployed(2), first, second, gold, other, node("n", "one"))
	objects[1].(*appsv1.ReplicaSet).Spec.Replicas = new(int32(2))
	b := newHarness(t, objects...)
	of := func(pod string) string { return b.pod(pod).Annotations[workloadspread.AnnotationSpread] }
	both := func() {
		for _, name := range []string{"first", "web", "first", "web"} {
			if _, err := b.Reconcile(t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop",
				Name: name}}); err != nil {
				t.Fatal(err)
			}
		}
	}
	found := func() string {
		return meta.FindStatusCondition(b.get().Status.Conditions, v1alpha1.ConditionTargetFound).Message
	}
	both()
	if g, o := of(gold.Name), of(other.Name); g != `{"name":"first","subset":"a"}` || o != `{"name":"web","subset":"b"}` {
		t.Errorf("the pods belong to %s and %s", g, o)
	}
	if got := b.get().Status.Filled; got != "b 1/5" || !strings.Contains(found(), "selected by WorkloadSpread first belong") {
		t.Errorf("filled %q, said %q", got, found())
	}
	b.written()
	if both(); b.written() != "" {
		t.Error("they write without end")
	}
	if err := b.server.Get(t.Context(), client.ObjectKeyFromObject(first), first); err != nil {
		t.Fatal(err)
	}
	first.Spec.Subsets[0].MinReplicas = new(int32(6)) // more than the maximum
	if err := b.server.Update(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	both()
	if got := b.get().Status.Filled; of(gold.Name) != `{"name":"web","subset":"b"}` || got != "b 2/5" || strings.Contains(found(), "first") {
		t.Errorf("%s, filled %q, said %q", of(gold.Name), got, found())
	}
}

// The API server refuses longer events, and no character is cut.
func TestLongEventsAreCut(t *testing.T) {
	b := newHarness(t)
	b.event(spreadOver(), podhealth.Event{Type: v1.EventTypeNormal, Reason: "Long", Message: "x" + strings.Repeat("é", 1024)})
	if got := strings.TrimPrefix(b.told(), "Normal Long "); len(got) != 1024-1 || !utf8.ValidString(got) {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
