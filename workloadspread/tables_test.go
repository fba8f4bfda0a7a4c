package workloadspread

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// counted is a status with pods of one revision.
func counted(row ...v1alpha1.WorkloadSubsetCount) *v1alpha1.WorkloadSpreadStatus {
	for i := range row {
		row[i].Name = string(rune('a' + i))
	}
	return &v1alpha1.WorkloadSpreadStatus{VersionedSubsetStatuses: map[string][]v1alpha1.WorkloadSubsetCount{OneRevision: row}}
}

type count = v1alpha1.WorkloadSubsetCount

func entryAt(ago time.Duration, name string) map[string]metav1.Time {
	return map[string]metav1.Time{name: stamp(noon.Add(-ago))}
}

func stateOf(spec *v1alpha1.WorkloadSpreadSpec, status *v1alpha1.WorkloadSpreadStatus, replicas int32) State {
	return State{Spec: spec, Status: status, Workload: Workload{Found: true, Replicas: replicas}, Now: noon}
}

func TestCreate(t *testing.T) {
	for _, c := range []struct {
		name    string
		spec    *v1alpha1.WorkloadSpreadSpec
		status  *v1alpha1.WorkloadSpreadStatus
		subset  int
		missing int32 // of a, afterwards
		changed bool
	}{
		{"five are missing", deployment("5", ""), counted(), 0, 4, true},
		{"the first is full", deployment("5", ""), counted(count{Replicas: 5}), 1, 0, false},
		{"again", deployment("5", ""), counted(count{MissingReplicas: 4, CreatingPods: entryAt(0, "new")}), 0, 4, false},
		{"one subset without a limit", deployment(""), counted(), 0, -1, false},
		{"all are full", deployment("1", "1"), counted(count{Replicas: 1}, count{Replicas: 1}), -1, 0, false},
	} {
		a := Admit(stateOf(c.spec, c.status, 20), NewPod{ID: "new", Revision: OneRevision})
		if a.Subset != c.subset || a.Changed != c.changed || a.Refused {
			t.Errorf("%s: %+v", c.name, a)
		}
		if rows := a.Status.VersionedSubsetStatuses[OneRevision]; a.Changed &&
			(rows[0].MissingReplicas != c.missing || len(rows[0].CreatingPods) != 1) {
			t.Errorf("%s: %+v", c.name, rows)
		}
	}
}

func TestNoFreeSubset(t *testing.T) {
	spec, full := deployment("1", "1"), counted(count{Replicas: 1}, count{Replicas: 1})
	spec.WhenFull = v1alpha1.WhenFullRefuse
	if a := Admit(stateOf(spec, full, 3), NewPod{ID: "new", Revision: OneRevision}); !a.Refused || a.Message == "" {
		t.Errorf("refuse: %+v", a)
	}
	pod, err := Inject(&v1.Pod{}, nil, Assignment{Name: "spread"}, nil)
	if a, ok := AssignmentOf(pod); err != nil || !ok || a.Subset != "" {
		t.Errorf("marked as %+v: %v", a, err)
	}
}

// podIn is a running and ready pod of a subset.
func podIn(name, subset string) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name), CreationTimestamp: stamp(noon.Add(-time.Hour)),
			Annotations: map[string]string{AnnotationSpread: Assignment{Name: "spread", Subset: subset}.String()}},
		Spec:   v1.PodSpec{NodeName: "n"},
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}},
	}
}

func podsIn(subset string, n int) []*v1.Pod {
	var out []*v1.Pod
	for i := range n {
		out = append(out, podIn(fmt.Sprintf("%s-%02d", subset, i), subset))
	}
	return out
}

func ofRevision(revision string, pods []*v1.Pod) []*v1.Pod {
	for _, p := range pods {
		p.Name, p.Labels = revision+"-"+p.Name, map[string]string{"pod-template-hash": revision}
	}
	return pods
}

func inputOf(spec *v1alpha1.WorkloadSpreadSpec, replicas int32, pods ...*v1.Pod) Input {
	return Input{Name: "spread", State: stateOf(spec, &v1alpha1.WorkloadSpreadStatus{}, replicas), Pods: pods}
}

func TestCount(t *testing.T) {
	for _, c := range []struct {
		name    string
		spec    *v1alpha1.WorkloadSpreadSpec
		status  *v1alpha1.WorkloadSpreadStatus
		pods    int
		missing int32
		next    time.Duration
	}{
		{"a pod and a fresh entry of another", deployment("5", ""), counted(count{CreatingPods: entryAt(0, "x")}), 1, 3, 30 * time.Second},
		{"an entry of the pod itself", deployment("5", ""), counted(count{CreatingPods: entryAt(0, "a-00")}), 1, 4, 0},
		{"an entry that was not seen in 29 seconds", deployment("5", ""), counted(count{CreatingPods: entryAt(29*time.Second, "x")}), 1, 3,
			time.Second},
		{"an entry that was not seen in 30 seconds", deployment("5", ""), counted(count{CreatingPods: entryAt(30*time.Second, "x")}), 1, 4, 0},
		{"more pods than the maximum", deployment("5", ""), counted(), 8, 0, 0},
		{"no limit", deployment("", ""), counted(), 8, -1, 0},
	} {
		in := inputOf(c.spec, 10, podsIn("a", c.pods)...)
		in.Status = c.status
		d := Decide(in)
		got := d.Status.VersionedSubsetStatuses[OneRevision][0]
		if got.MissingReplicas != c.missing || got.Replicas != int32(c.pods) {
			t.Errorf("%s: %+v", c.name, got)
		}
		if want := noon.Add(c.next); c.next > 0 && !d.Next.Equal(want) || c.next == 0 && !d.Next.IsZero() {
			t.Errorf("%s: again at %v, want in %v", c.name, d.Next, c.next)
		}
	}
}

func TestTimeoutOfTheObjectItself(t *testing.T) {
	spec := deployment("5", "")
	spec.CreatingTimeoutSeconds = new(int32(60))
	in := inputOf(spec, 10, podsIn("a", 2)...)
	in.Status = counted(count{CreatingPods: entryAt(31*time.Second, "x")})
	d := Decide(in)
	if got := d.Status.VersionedSubsetStatuses[OneRevision][0]; got.MissingReplicas != 2 || !d.Next.Equal(noon.Add(29*time.Second)) {
		t.Errorf("%+v, again at %v", got, d.Next)
	}
}

// costsOf are the costs of pods by their names.
func costsOf(d Decision) map[string]int32 {
	out := map[string]int32{}
	for _, c := range d.Costs {
		out[c.Pod.Name] = c.Cost
	}
	return out
}

func tally(d Decision, prefix string) map[int32]int {
	out := map[int32]int{}
	for name, n := range costsOf(d) {
		if name[:len(prefix)] == prefix {
			out[n]++
		}
	}
	return out
}

func TestDeletionCostEightAndTwo(t *testing.T) {
	d := Decide(inputOf(deployment("8", ""), 10, append(podsIn("a", 8), podsIn("b", 2)...)...))
	if tally(d, "a")[200] != 8 || tally(d, "b")[100] != 2 || d.Status.Filled != "a 8/8, b 2/-" {
		t.Errorf("%v %s", costsOf(d), d.Status.Filled)
	}
}

func TestDeletionCostAfterTheMaximumGoesFromEightToFive(t *testing.T) {
	d := Decide(inputOf(deployment("5", ""), 10, append(podsIn("a", 8), podsIn("b", 2)...)...))
	if tally(d, "a")[200] != 5 || tally(d, "a")[-100] != 3 || tally(d, "b")[100] != 2 {
		t.Errorf("%v", costsOf(d))
	}
}

func TestDeletionCostThreeOfFour(t *testing.T) {
	d := Decide(inputOf(deployment("3", ""), 4, podsIn("a", 4)...))
	if tally(d, "a")[200] != 3 || tally(d, "a")[-100] != 1 {
		t.Errorf("%v", costsOf(d))
	}
}

// The surplus are the pods that would be deleted first anyway.
func TestDeletionCostOfUnassignedAndPendingPods(t *testing.T) {
	pods := podsIn("a", 5)
	pods[0].Spec.NodeName = ""
	for _, i := range []int{3, 4} {
		pods[i].Status = v1.PodStatus{Phase: v1.PodPending}
	}
	got := costsOf(Decide(inputOf(deployment("2"), 5, pods...)))
	for i, want := range []int32{-100, 100, 100, -100, -100} {
		if got[pods[i].Name] != want {
			t.Errorf("pod %d: %d, want %d", i, got[pods[i].Name], want)
		}
	}
}

func TestDeletionCostOfSurplusAndPodsOfNoSubset(t *testing.T) {
	pods := append(podsIn("a", 2), podsIn("b", 2)...)
	d := Decide(inputOf(deployment("1", "1"), 2, append(pods, podsIn("x", 1)...)...))
	if a, b := tally(d, "a"), tally(d, "b"); a[200] != 1 || a[-100] != 1 || b[100] != 1 || b[-200] != 1 || tally(d, "x")[-300] != 1 {
		t.Errorf("%v", costsOf(d))
	}
	if d.Status.Unassigned != 1 {
		t.Errorf("%d unassigned", d.Status.Unassigned)
	}
}

// While a rollout makes progress, the old revision is left from the first subset on; a rollout that is
// stuck leaves the order as it is, and so does one whose pods were restarted.
func TestAStuckRolloutDoesNotReverseTheCosts(t *testing.T) {
	for name, c := range map[string]struct {
		change         func(*v1.Pod)
		first, surplus int32 // costs of the old pods of a
		next           time.Duration
	}{
		"progress": {func(*v1.Pod) {}, 100, -200, 90 * time.Second},
		"none for two minutes": {func(p *v1.Pod) {
			p.Status.Conditions[0].LastTransitionTime = stamp(noon.Add(-progress))
		}, 200, -100, 0},
		"not ready":   {func(p *v1.Pod) { p.Status.Conditions[0].Status = v1.ConditionFalse }, 200, -100, 0},
		"not created": {func(p *v1.Pod) { p.DeletionTimestamp = new(stamp(noon)) }, 200, -100, 0},
		"restarted": {func(p *v1.Pod) {
			p.Status.ContainerStatuses = []v1.ContainerStatus{{RestartCount: 1}}
		}, 200, -100, 0},
	} {
		old, fresh := append(podsIn("a", 3), podsIn("b", 1)...), podsIn("a", 1)
		fresh[0].Status.Conditions[0].LastTransitionTime = stamp(noon.Add(-30 * time.Second))
		c.change(fresh[0])
		in := inputOf(deployment("2", ""), 4, append(ofRevision("r1", old), ofRevision("r2", fresh)...)...)
		in.Workload.Revision = "r2"
		d := Decide(in)
		if a, b := tally(d, "r1-a"), tally(d, "r1-b"); a[c.first] != 2 || a[c.surplus] != 1 || b[300-c.first] != 1 {
			t.Errorf("%s: %v", name, costsOf(d))
		}
		if c.next > 0 != d.Next.Equal(noon.Add(c.next)) && c.next > 0 {
			t.Errorf("%s: again at %v", name, d.Next)
		}
	}
}

// In a stuck rollout from ten pods to four, the normal machines keep theirs.
func TestAStuckRolloutScalesDownTheLastSubsetFirst(t *testing.T) {
	w := newFakeCluster(t, deployment("8", ""), 10)
	w.quiet()
	w.revision, w.surge = 1, 3
	w.scale(1, 3, never) // none of them becomes ready
	w.look()
	w.reconcile(1 << 30)
	w.replicas = 4
	w.scale(0, 4, never)
	if got := []int32{w.has(0, 0), w.has(0, 1)}; !slices.Equal(got, []int32{4, 0}) {
		t.Errorf("%v", got)
	}
}

// Even subsets stay level on the way down: 34/33/33, 33/33/33, 33/33/32 and so on.
func TestEvenStaysLevelOnTheWayDown(t *testing.T) {
	w := newFakeCluster(t, even("", "", ""), 100)
	w.quiet()
	for n := int32(99); n >= 0; n-- {
		w.replicas = n
		w.scale(0, int(n), never) // before the controller sees it
		if got := []int32{w.has(0, 0), w.has(0, 1), w.has(0, 2)}; slices.Max(got)-slices.Min(got) > 1 {
			t.Fatalf("%d: %v", n, got)
		}
	}
}

// The ratio stays exact on the way up, through a rollout and on the way down.
func TestRatioStaysExact(t *testing.T) {
	w := newFakeCluster(t, ratio(2, 20, 80), 0)
	check := func(when string) {
		t.Helper()
		if got := []int32{w.has(w.revision, 0), w.has(w.revision, 1)}; !slices.Equal(got, layout(w.spec, w.replicas, nil)) {
			t.Fatalf("%s with %d: %v", when, w.replicas, got)
		}
	}
	for _, n := range []int32{1, 2, 3, 7, 20, 52} {
		w.replicas = n
		w.quiet()
		check("up")
	}
	w.revision, w.surge = 1, 13
	w.quiet()
	check("rolled out")
	for ; w.replicas > 0; w.replicas-- {
		w.scale(1, int(w.replicas), never)
		check("down")
	}
}

// A cost is written once: not again when the workload shrinks, and not while its pods are being deleted,
// which would change the order for those that are asked to go next.
func TestCostsAreWrittenOnce(t *testing.T) {
	w := newFakeCluster(t, even("", "", ""), 90)
	w.quiet()
	w.replicas = 60
	for _, left := range []int{90, 83, 71, 60} {
		w.scale(0, left, never)
		w.look()
		if d := w.reconcile(1 << 30); len(d.Costs) > 0 {
			t.Errorf("%d costs change when the workload shrinks and %d pods are left", len(d.Costs), left)
		}
	}
}

func TestOtherKindsGetNoDeletionCost(t *testing.T) {
	for kind, reason := range map[string]string{"batch/v1 Job": ReasonNotRead, "apps/v1 StatefulSet": ReasonByOrdinal} {
		in := inputOf(deployment("1", ""), 2, podsIn("a", 2)...)
		_, err := fmt.Sscan(kind, &in.Spec.TargetRef.APIVersion, &in.Spec.TargetRef.Kind)
		d := Decide(in)
		ordered := slices.IndexFunc(d.Status.Conditions, func(c metav1.Condition) bool { return c.Type == v1alpha1.ConditionScaleDownOrdered })
		if err != nil || len(d.Costs) > 0 || d.Status.Conditions[ordered].Reason != reason {
			t.Errorf("%s: %v %+v %v", kind, d.Costs, d.Status.Conditions, err)
		}
	}
}

func TestStatefulSetGoesByOrdinal(t *testing.T) {
	spec := deployment("3", "2", "")
	spec.TargetRef.Kind = "StatefulSet"
	state := stateOf(spec, &v1alpha1.WorkloadSpreadStatus{}, 10)
	state.Workload.Start = 5
	for ordinal, want := range map[int32]int{5: 0, 7: 0, 8: 1, 9: 1, 10: 2, 99: 2} {
		for _, revision := range []string{"old", "new"} { // on both sides of a partition
			if a := Admit(state, NewPod{ID: fmt.Sprint("web-", ordinal), Revision: revision, Ordinal: ordinal}); a.Subset != want || a.Changed {
				t.Errorf("ordinal %d: %+v", ordinal, a)
			}
		}
	}
	spec.ScheduleStrategy.Type = v1alpha1.ScheduleAdaptive
	state.Status.SubsetStatuses = []v1alpha1.WorkloadSubsetStatus{{Name: "a", UnschedulableUntil: new(stamp(noon.Add(time.Minute)))}}
	for ordinal, want := range map[int32]int{5: 1, 6: 1, 7: 2} {
		if a := Admit(state, NewPod{Ordinal: ordinal}); a.Subset != want {
			t.Errorf("a is marked, ordinal %d: %+v", ordinal, a)
		}
	}
	if OrdinalOf("web-12") != 12 || OrdinalOf("web") != -1 || OrdinalOf("web-x") != -1 {
		t.Error("ordinals of names")
	}
}

func TestRolloutExceedsNoSubsetByMoreThanTheSurge(t *testing.T) {
	w := newFakeCluster(t, deployment("4", "4", ""), 10)
	w.quiet()
	w.revision, w.surge, w.gentle = 1, 3, true
	w.quiet() // every create is checked
	if got := []int32{w.has(1, 0), w.has(1, 1), w.has(1, 2)}; !slices.Equal(got, []int32{4, 4, 2}) {
		t.Errorf("%v after the rollout", got)
	}
}

// A Deployment creates pods as soon as it has told others to end: those that are still there do not keep new ones
// out of their subset, but ones that never came do.
func TestOldPodsThatAreStillThereAreNoSurge(t *testing.T) {
	at := metav1.NewTime(noon)
	state := State{
		Spec: deployment("10", "20", ""), Workload: Workload{Found: true, Replicas: 40, Surge: 10, Revision: "r2"}, Now: noon, Counted: true,
		Status: &v1alpha1.WorkloadSpreadStatus{VersionedSubsetStatuses: map[string][]v1alpha1.WorkloadSubsetCount{
			"r1": {{Name: "a"}, {Name: "b", Replicas: 20}, {Name: "c"}},
			"r2": {{Name: "a", Replicas: 10}, {Name: "b", Replicas: 9, CreatingPods: map[string]metav1.Time{"x": at}}, {Name: "c", Replicas: 10}},
		}},
	}
	for absent, want := range []int{1, 2} {
		state.Absent = int32(absent)
		if a := Admit(state, NewPod{ID: "y", Revision: "r2"}); a.Subset != want {
			t.Errorf("%d have not come: subset %d, want %d", absent, a.Subset, want)
		}
	}
}

func TestObserve(t *testing.T) {
	number := func(path string, n any) map[string]any {
		return map[string]any{"spec": map[string]any{path: n}}
	}
	surge := func(v any) map[string]any {
		return map[string]any{"spec": map[string]any{"replicas": int64(10),
			"strategy": map[string]any{"rollingUpdate": map[string]any{"maxSurge": v}}}}
	}
	for _, c := range []struct {
		name, kind string
		object     map[string]any
		want       Workload
	}{
		{"Deployment", "apps/v1 Deployment", number("replicas", int64(10)), Workload{Found: true, Replicas: 10, Surge: 3}},
		{"Deployment by default", "apps/v1 Deployment", map[string]any{}, Workload{Found: true, Replicas: 1, Surge: 1}},
		{"surge of a number", "apps/v1 Deployment", surge(int64(2)), Workload{Found: true, Replicas: 10, Surge: 2}},
		{"surge in percent", "apps/v1 Deployment", surge("15%"), Workload{Found: true, Replicas: 10, Surge: 2}},
		{"recreated", "apps/v1 Deployment", map[string]any{"spec": map[string]any{"replicas": int64(10),
			"strategy": map[string]any{"type": "Recreate"}}}, Workload{Found: true, Replicas: 10}},
		{"StatefulSet", "apps/v1 StatefulSet", map[string]any{"spec": map[string]any{"replicas": 4.0,
			"ordinals": map[string]any{"start": int64(3)}}}, Workload{Found: true, Replicas: 4, Start: 3}},
		{"Job", "batch/v1 Job", number("parallelism", int64(7)), Workload{Found: true, Replicas: 7}},
	} {
		spec := deployment("")
		if _, err := fmt.Sscan(c.kind, &spec.TargetRef.APIVersion, &spec.TargetRef.Kind); err != nil {
			t.Fatal(err)
		}
		if got, err := Observe(spec, c.object); err != nil || got != c.want {
			t.Errorf("%s: %+v %v", c.name, got, err)
		}
	}
	spec := deployment("")
	for name, object := range map[string]map[string]any{"negative": number("replicas", int64(-1)), "text": number("replicas", "x"),
		"half": number("replicas", 0.5), "surge": surge("x")} {
		if w, err := Observe(spec, object); err == nil {
			t.Errorf("%s: %+v", name, w)
		}
	}
	spec.TargetFilter = &v1alpha1.WorkloadFilter{ReplicasPathList: []string{"spec.parts.0.size", "spec.parts.1.size"}}
	object := map[string]any{"spec": map[string]any{"parts": []any{map[string]any{"size": int64(2)}, map[string]any{"size": int64(3)}}}}
	if w, err := Observe(spec, object); err != nil || w.Replicas != 5 {
		t.Errorf("parts: %+v %v", w, err)
	}
}

func TestClassification(t *testing.T) {
	spec := deployment("1", "", "")
	zone := func(z string) *v1.NodeSelectorTerm {
		return &v1.NodeSelectorTerm{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "zone", Operator: v1.NodeSelectorOpIn,
			Values: []string{z}}}}
	}
	spec.Subsets[0].RequiredNodeSelector, spec.Subsets[1].RequiredNodeSelector, spec.Subsets[2].RequiredNodeSelector = zone("a"), zone("a"),
		zone("c")
	spec.Subsets[2].Tolerations = []v1.Toleration{{Key: "spot", Operator: v1.TolerationOpExists}}
	nodes := map[string]*v1.Node{
		"a": {ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"zone": "a"}}},
		"c": {ObjectMeta: metav1.ObjectMeta{Name: "c", Labels: map[string]string{"zone": "c"}},
			Spec: v1.NodeSpec{Taints: []v1.Taint{{Key: "spot", Effect: v1.TaintEffectNoSchedule}}}},
		"d": {ObjectMeta: metav1.ObjectMeta{Name: "d", Labels: map[string]string{"zone": "d"}}},
	}
	var pods []*v1.Pod
	for i, node := range []string{"a", "a", "c", "d", ""} {
		p := podIn(fmt.Sprint("p", i), "")
		p.Annotations, p.Spec.NodeName = nil, node
		pods = append(pods, p)
	}
	in := inputOf(spec, 10, append(pods, podIn("full", ""))...)
	in.Nodes = nodes
	got := map[string]string{}
	for _, a := range Decide(in).Assign {
		got[a.Pod.Name] = a.Subset
	}
	if want := map[string]string{"p0": "a", "p1": "b", "p2": "c"}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	spec.Subsets[1].PreferredNodeSelector = []v1.PreferredSchedulingTerm{{Weight: 3, Preference: *zone("a")}}
	for _, a := range Decide(in).Assign[:1] {
		if a.Subset != "b" {
			t.Errorf("%s although b is preferred", a.Subset)
		}
	}
}

func TestUnknownTargetIsACondition(t *testing.T) {
	in := inputOf(deployment("5", ""), 0)
	in.Workload = Workload{}
	d := Decide(in)
	if c := d.Status.Conditions; len(c) != 2 || c[1].Type != v1alpha1.ConditionTargetFound || c[1].Reason != ReasonNotFound ||
		len(d.Costs) > 0 {
		t.Errorf("%+v", d)
	}
}

func TestStatusIsWrittenOnlyWhenItChanges(t *testing.T) {
	in := inputOf(deployment("8", ""), 10, podsIn("a", 8)...)
	first := Decide(in)
	in.Status, in.Now = first.Status, noon.Add(time.Hour)
	if d := Decide(in); !first.Changed || d.Changed {
		t.Errorf("%v, then %v", first.Changed, d.Changed)
	}
	in.Spec.Subsets[0].MaxReplicas = new(intstr.FromInt32(5))
	if d := Decide(in); !d.Changed {
		t.Error("not changed by another maximum")
	}
}
