package e2e

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/workloadspread"
)

// WorkloadSpreads with the real controllers of workloads and two webhook servers. StatefulSets, Jobs and pods that find no node are
// in TestChartGrantsWhatIsCalled, which needs them, too.
func TestWorkloadSpreads(t *testing.T) {
	t.Parallel()
	ctx := t.Context() // each wait has a limit of its own
	w := newSpreadCluster(ctx, t)
	together(ctx, t, in(w, map[string]func(context.Context, *testing.T, *spreadCluster){
		"many pods at once":     manyAtOnce,
		"ten workloads at once": tenAtOnce,
		"up and down":           upAndDown,
		"rollouts":              rollouts,
		"evictions":             evictions,
		"base and weights":      baseAndWeights,
		"level":                 levelOnTheWayDown,
		"samples":               samplesAsSimulated,
	}))
	t.Run("a webhook server is killed", func(t *testing.T) { killedServer(ctx, t, w) })
	t.Run("the API server restarts", func(t *testing.T) { restartedWhileCounting(ctx, t, w) })
	t.Run("the leader is killed", func(t *testing.T) { killedWhileMoving(ctx, t, w) })
	t.Run("nobody leads", func(t *testing.T) { nobodyLeads(ctx, t, w) })
	t.Run("no webhook server answers", func(t *testing.T) { nobodyAnswers(ctx, t, w) })
}

// Pods that are created at once fill the subsets in their order, exactly.
func manyAtOnce(ctx context.Context, t *testing.T, w *spreadCluster) {
	tenth := 50
	if testing.Short() {
		tenth = 10
	}
	m := w.market(ctx, t, "many", zone{"a", 1000}, zone{"b", 1000}, zone{"c", 1000})
	m.spread(ctx, t, m.bounded("Deployment", fmt.Sprint("a ", 3*tenth), fmt.Sprint("b ", 5*tenth), "c"))
	m.create(ctx, t, m.web(int32(10*tenth)))
	m.counts(ctx, t, "at once", map[string]int{"a": 3 * tenth, "b": 5 * tenth, "c": 2 * tenth})
	m.never(t, map[string]int{"": 0, "a": 3 * tenth, "b": 5 * tenth})
}

// spreadPods is how many pods each of ten workloads has that are created at the same time.
var spreadPods = flag.Int("spread-pods", 30, "replicas of each workload of TestWorkloadSpreads/ten_workloads_at_once")

// Ten workloads create pods at the same time, and none is refused, but where a busy machine does not answer in
// time.
func tenAtOnce(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "ten", zone{"a", 1000}, zone{"b", 1000}, zone{"c", 1000})
	n := *spreadPods
	subsets := []string{fmt.Sprint("a ", n*3/10), fmt.Sprint("b ", n/2), "c"}
	m.spread(ctx, t, m.bounded("Deployment", subsets...))
	var workloads []*appsv1.Deployment
	for i := range 10 {
		d := m.web(int32(n))
		of := map[string]string{"app": fmt.Sprint("web-", i)}
		d.Name, d.Spec.Selector.MatchLabels, d.Spec.Template.Labels = fmt.Sprint("web-", i), of, of
		o := m.bounded("Deployment", subsets...)
		o.Name, o.Spec.TargetRef.Name = d.Name, d.Name
		m.create(ctx, t, o)
		workloads = append(workloads, d)
	}
	mark, err := w.plane.Mark()
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range workloads {
		m.create(ctx, t, d)
	}
	want := map[string]int{"a": 10 * (n * 3 / 10), "b": 10 * (n / 2)}
	want["c"] = 10*n - want["a"] - want["b"]
	until(ctx, t, "all pods are in their subsets", func() bool {
		late, _ := m.unanswered(ctx, t)
		return elsewhere(m.inSubsets(ctx, t), want) <= late
	})
	m.never(t, map[string]int{"": 0, "a": 10 * (n * 3 / 10), "b": 10 * (n / 2)})
	if _, refused := m.unanswered(ctx, t); refused != "" {
		t.Errorf("a pod was refused: %s", refused)
	}
	m.wrote(t, mark, 10*n)
}

// wrote checks the writes since a mark while so many pods were created: fewer than there are pods, apart from conflicts of
// the writers, and none of costs.
func (m *market) wrote(t *testing.T, since controlplane.Mark, pods int) {
	t.Helper()
	writes, err := m.plane.Writes(controllerUser, since)
	if err != nil {
		t.Fatal(err)
	}
	done := map[string]int{}
	for _, write := range writes {
		if write.Namespace == m.namespace && write.Resource != "events" {
			done[fmt.Sprintf("%s %s/%s %d", write.Verb, write.Resource, write.Subresource, write.Code)]++
		}
	}
	t.Logf("%d pods: %v", pods, done)
	if done["update workloadspreads/status 200"] > pods || done["patch pods/ 200"] > 0 {
		t.Errorf("wrote %v for %d pods", done, pods)
	}
}

// Whatever the number, subsets are filled in order and emptied in reverse, and the costs are those of the
// design.
func upAndDown(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "updown", zone{"a", 110}, zone{"b", 110}, zone{"c", 110})
	m.spread(ctx, t, m.bounded("Deployment", "a 6", "b 4", "c"))
	m.create(ctx, t, m.web(0))
	r := rand.New(rand.NewPCG(14, 1)) // a test
	changes := 20
	if testing.Short() {
		changes = 8
	}
	for range changes {
		n := r.IntN(20)
		m.scaleTo(ctx, t, int32(n))
		m.counts(ctx, t, fmt.Sprint("with ", n), map[string]int{"a": min(n, 6), "b": min(max(n-6, 0), 4), "c": max(n-10, 0)})
		m.costs(ctx, t, map[string]int{"a": 300, "b": 200, "c": 100})
	}
	m.never(t, map[string]int{"": 0, "a": 6, "b": 4})
}

// In a rollout no subset has more than its maximum and the surge, and in the end all are as before.
func rollouts(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "rollouts", zone{"a", 110}, zone{"b", 110}, zone{"c", 110})
	m.spread(ctx, t, m.bounded("Deployment", "a 10", "b 20", "c"))
	d := m.web(40)
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromString("25%")),
		MaxUnavailable: ptr.To(intstr.FromInt32(0))}
	m.create(ctx, t, d)
	want := map[string]int{"a": 10, "b": 20, "c": 10}
	m.counts(ctx, t, "before", want)
	for i := range 2 {
		m.roll(ctx, t, fmt.Sprint(i))
		m.counts(ctx, t, fmt.Sprint("after rollout ", i), want)
	}
	m.never(t, map[string]int{"": 0, "a": 20, "b": 30})
}

// roll begins a rollout of the Deployment and waits until it has ended.
func (m *market) roll(ctx context.Context, t *testing.T, value string) {
	t.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "web"}}
	if err := m.Patch(ctx, d, client.RawPatch("application/merge-patch+json",
		fmt.Appendf(nil, `{"spec":{"template":{"metadata":{"annotations":{"rollout":%q}}}}}`, value))); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "the rollout has ended", func() bool {
		err := m.Get(ctx, client.ObjectKeyFromObject(d), d)
		return err == nil && d.Status.ObservedGeneration == d.Generation && d.Status.UpdatedReplicas == *d.Spec.Replicas &&
			d.Status.Replicas == *d.Spec.Replicas && d.Status.AvailableReplicas == *d.Spec.Replicas
	})
}

// A pod that is evicted leaves its seat to the one that replaces it. One whose eviction a disruption
// budget refuses keeps it: kubectl drain frees nothing and writes nothing, and pods that come meanwhile
// go to the next subset.
func evictions(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "evictions", zone{"a", 110}, zone{"b", 110})
	m.spread(ctx, t, m.bounded("Deployment", "a 4", "b"))
	m.create(ctx, t, m.web(6))
	want := map[string]int{"a": 4, "b": 2}
	m.counts(ctx, t, "before", want)
	for range 3 {
		pods := m.replicas(ctx, t)
		i := slices.IndexFunc(pods, func(p v1.Pod) bool { a, _ := workloadspread.AssignmentOf(&p); return a.Subset == "a" })
		if err := m.SubResource("eviction").Create(ctx, &pods[i], &policyv1.Eviction{}); err != nil {
			t.Fatal(err)
		}
		m.counts(ctx, t, "after an eviction", want)
	}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "web"}}
	budget.Spec = policyv1.PodDisruptionBudgetSpec{MaxUnavailable: ptr.To(intstr.FromInt32(0)),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": balancerName}}}
	m.create(ctx, t, budget)
	until(ctx, t, "the budget is known", func() bool {
		return m.Get(ctx, client.ObjectKeyFromObject(budget), budget) == nil && budget.Status.ExpectedPods == 6
	})
	version := func() string {
		o := &v1alpha1.WorkloadSpread{}
		if err := m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: "web"}, o); err != nil {
			t.Fatal(err)
		}
		return o.ResourceVersion
	}
	before := version()
	m.drained(ctx, t, func() {})
	if version() != before {
		t.Error("the drain has the status written")
	}
	m.drained(ctx, t, func() {
		m.scaleTo(ctx, t, 20)
		m.counts(ctx, t, "with 14 more during a drain", map[string]int{"a": 4, "b": 16})
	})
	m.never(t, map[string]int{"": 0, "a": 4})
}

// drained drains the node of a, which the budget refuses, for as long as some work takes.
func (m *market) drained(ctx context.Context, t *testing.T, during func()) {
	t.Helper()
	var done sync.WaitGroup
	var err error
	done.Go(func() {
		_, err = newKubectl(t, m.plane, m, m.namespace).run(ctx, "kubectl drain "+m.node("a")+" --force --ignore-daemonsets --timeout=30s")
	})
	during()
	done.Wait()
	if err == nil || !strings.Contains(err.Error(), "disruption budget") {
		t.Errorf("the drain: %v", err)
	}
}

// Two on demand and then 20/80, at every number, through a rollout and on the way down.
func baseAndWeights(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "ratio", zone{"a", 110}, zone{"b", 110})
	o := m.bounded("Deployment", "a", "b")
	o.Spec.Distribution = v1alpha1.DistributeWeighted
	o.Spec.Subsets[0].Base, o.Spec.Subsets[0].Weight, o.Spec.Subsets[1].Weight = ptr.To[int32](2), ptr.To[int32](20), ptr.To[int32](80)
	m.spread(ctx, t, o)
	m.create(ctx, t, m.web(2))
	for _, step := range []struct{ replicas, a int }{{2, 2}, {12, 4}, {22, 6}, {12, 4}, {7, 3}, {1, 1}, {12, 4}} {
		m.scaleTo(ctx, t, int32(step.replicas))
		m.counts(ctx, t, fmt.Sprint("with ", step.replicas), map[string]int{"a": step.a, "b": step.replicas - step.a})
		m.costed(ctx, t)
	}
	m.roll(ctx, t, "1")
	m.counts(ctx, t, "after a rollout", map[string]int{"a": 4, "b": 8})
	m.costed(ctx, t)
	m.scaleTo(ctx, t, 7)
	m.counts(ctx, t, "after the rollout with 7", map[string]int{"a": 3, "b": 4})
}

// costed waits until all pods have a deletion cost.
func (m *market) costed(ctx context.Context, t *testing.T) {
	t.Helper()
	until(ctx, t, "all pods of "+m.namespace+" have a deletion cost", func() bool {
		for _, p := range m.replicas(ctx, t) {
			if p.Annotations[workloadspread.AnnotationCost] == "" {
				return false
			}
		}
		return true
	})
}

// Subsets that are kept level stay so while the workload shrinks, at once or one by one.
func levelOnTheWayDown(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "level", zone{"a", 110}, zone{"b", 110}, zone{"c", 110})
	o := m.bounded("Deployment", "a", "b", "c")
	o.Spec.Distribution = v1alpha1.DistributeEven
	m.spread(ctx, t, o)
	m.create(ctx, t, m.web(100))
	m.counts(ctx, t, "at first", map[string]int{"a": 34, "b": 33, "c": 33})
	m.costed(ctx, t)
	for _, n := range []int{67, 50, 49, 48, 20, 4, 1} {
		m.scaleTo(ctx, t, int32(n))
		m.counts(ctx, t, fmt.Sprint("with ", n), map[string]int{"a": (n + 2) / 3, "b": (n + 1) / 3, "c": n / 3})
	}
}

// Pods of a StatefulSet keep their subset by ordinal, whatever is deleted and whatever their revision.
func ordinals(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "ordinals", zone{"a", 110}, zone{"b", 110}, zone{"c", 110})
	m.spread(ctx, t, m.bounded("StatefulSet", "a 2", "b 3", "c"))
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "web"}}
	d := m.web(0)
	set.Spec = appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](7), Selector: d.Spec.Selector, Template: d.Spec.Template, PodManagementPolicy: appsv1.ParallelPodManagement,
		Ordinals: &appsv1.StatefulSetOrdinals{Start: 5},
	}
	m.create(ctx, t, set)
	want := map[string]int{"a": 2, "b": 3, "c": 2}
	seats := func(when string) {
		t.Helper()
		for _, p := range m.replicas(ctx, t) {
			a, _ := workloadspread.AssignmentOf(&p)
			if want := "aabbbcccc"[workloadspread.OrdinalOf(p.Name)-5]; a.Subset != string(want) {
				t.Errorf("%s: %s is in %q, want %q", when, p.Name, a.Subset, want)
			}
		}
	}
	m.counts(ctx, t, "at first", want)
	seats("at first")
	for _, name := range []string{"web-6", "web-5", "web-10"} {
		if err := m.Delete(ctx, &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	m.counts(ctx, t, "after deletions", want)
	patch := func(text string) {
		t.Helper()
		if err := m.Patch(ctx, set, client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	// A partition counts from the first ordinal.
	patch(`{"spec":{"updateStrategy":{"rollingUpdate":{"partition":4}},"template":{"metadata":{"annotations":{"rollout":"1"}}}}}`)
	until(ctx, t, "three pods are of the new revision", func() bool {
		err := m.Get(ctx, client.ObjectKeyFromObject(set), set)
		return err == nil && set.Status.ObservedGeneration == set.Generation && set.Status.UpdatedReplicas == 3 && set.Status.ReadyReplicas == 7
	})
	m.counts(ctx, t, "in a partition", want)
	seats("in a partition")
	patch(`{"spec":{"replicas":4}}`)
	m.counts(ctx, t, "with 4", map[string]int{"a": 2, "b": 2})
	seats("with 4")
}

// A subset has no more pods of a Job at a time than it may, while pods end and others begin.
func indexedJob(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "job", zone{"a", 0}, zone{"b", 0})
	m.spread(ctx, t, m.bounded("Job", "a 2", "b"))
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, Name: "web"}}
	job.Spec = batchv1.JobSpec{Parallelism: ptr.To[int32](5), Completions: ptr.To[int32](12),
		CompletionMode: ptr.To(batchv1.IndexedCompletion)}
	job.Spec.Template = m.web(0).Spec.Template
	job.Spec.Template.Spec.RestartPolicy = v1.RestartPolicyNever
	m.create(ctx, t, job)
	until(ctx, t, "five pods wait for nodes", func() bool { return len(m.replicas(ctx, t)) == 5 })
	m.addNode(ctx, t, zone{"a", 110})
	m.addNode(ctx, t, zone{"b", 110})
	until(ctx, t, "the Job has ended", func() bool {
		return m.Get(ctx, client.ObjectKeyFromObject(job), job) == nil && job.Status.Succeeded == 12
	})
	m.never(t, map[string]int{"": 0, "a": 2, "b": 5})
	m.most.mu.Lock()
	defer m.most.mu.Unlock()
	if m.most.most["a"] != 2 || m.most.most["b"] < 3 {
		t.Errorf("at most %v pods ran at a time", m.most.most)
	}
}

// adaptive lets pods move on.
func adaptive(o *v1alpha1.WorkloadSpread, critical, window int32) *v1alpha1.WorkloadSpread {
	o.Spec.ScheduleStrategy = v1alpha1.WorkloadScheduleStrategy{Type: v1alpha1.ScheduleAdaptive, Adaptive: &v1alpha1.AdaptiveSchedule{
		RescheduleCriticalSeconds: &critical, UnschedulableSeconds: &window, DisableSimulationSchedule: true,
	}}
	return o
}

// The nodes of a subset vanish: its pods move on, and new ones come back after the window.
func movesOnAndComesBack(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "vanishing", zone{"a", 110}, zone{"b", 110})
	m.spread(ctx, t, adaptive(m.bounded("Deployment", "a 4", "b"), 5, 20))
	m.create(ctx, t, m.web(5))
	m.counts(ctx, t, "at first", map[string]int{"a": 4, "b": 1})
	if err := m.Delete(ctx, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.node("a")}}); err != nil {
		t.Fatal(err)
	}
	for _, p := range m.replicas(ctx, t) { // as the collector of pods does after a while
		if p.Spec.NodeName == m.node("a") {
			if err := m.Delete(ctx, &p, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	m.marked(ctx, t, true) // until the window has passed
	m.counts(ctx, t, "without a", map[string]int{"b": 5})
	m.addNode(ctx, t, zone{"a", 110})
	m.marked(ctx, t, false)
	m.scaleTo(ctx, t, 8)
	m.counts(ctx, t, "after the window", map[string]int{"a": 3, "b": 5})
}

// marked waits until new pods pass over a, or do not.
func (m *market) marked(ctx context.Context, t *testing.T, is bool) {
	t.Helper()
	until(ctx, t, fmt.Sprint("a is marked: ", is), func() bool {
		o := &v1alpha1.WorkloadSpread{}
		return m.Get(ctx, client.ObjectKey{Namespace: m.namespace, Name: "web"}, o) == nil && len(o.Status.SubsetStatuses) > 0 &&
			(o.Status.SubsetStatuses[0].UnschedulableUntil != nil) == is
	})
}

// A pod for which the autoscaler brings a node is kept; when it gives up, the pod moves on.
func keptForTheAutoscaler(ctx context.Context, t *testing.T, w *spreadCluster) {
	m := w.market(ctx, t, "kept", zone{"a", 0}, zone{"b", 110})
	const critical = 30 // seconds, within which the event has come on a busy machine, too
	m.spread(ctx, t, adaptive(m.bounded("Deployment", "a", "b"), critical, 120))
	m.create(ctx, t, m.web(2))
	var pods []v1.Pod
	until(ctx, t, "two pods find no node", func() bool {
		pods = m.replicas(ctx, t)
		return len(pods) == 2 && !slices.ContainsFunc(pods,
			func(p v1.Pod) bool { _, waits := workloadspread.UnschedulableSince(&p); return !waits })
	})
	for i := range pods {
		m.says(ctx, t, &pods[i], "TriggeredScaleUp", "pod triggered scale-up: [{a 0->1 (max: 10)}]")
	}
	until(ctx, t, "the critical time is over", func() bool { return time.Since(pods[0].CreationTimestamp.Time) > (critical+5)*time.Second })
	for _, p := range pods {
		if err := m.Get(ctx, client.ObjectKeyFromObject(&p), &p); err != nil || p.DeletionTimestamp != nil {
			t.Errorf("pod %s was not kept: %v", p.Name, err)
		}
	}
	m.addNode(ctx, t, zone{"a", 1})
	until(ctx, t, "one runs", func() bool { return m.running(ctx, t) == 1 })
	for i := range pods { // no more nodes come
		m.says(ctx, t, &pods[i], "NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached")
	}
	m.counts(ctx, t, "when the autoscaler has given up", map[string]int{"a": 1, "b": 1})
}

func (m *market) running(ctx context.Context, t *testing.T) (n int) {
	t.Helper()
	for _, p := range m.replicas(ctx, t) {
		if runs(&p) {
			n++
		}
	}
	return n
}

// says records an event about a pod as Cluster Autoscaler does.
func (m *market) says(ctx context.Context, t *testing.T, pod *v1.Pod, reason, message string) {
	t.Helper()
	now := metav1.Now()
	m.create(ctx, t, &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: m.namespace, GenerateName: pod.Name + "."}, Reason: reason, Message: message,
		Type:           v1.EventTypeNormal,
		InvolvedObject: v1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Source:         v1.EventSource{Component: "cluster-autoscaler"}, FirstTimestamp: now, LastTimestamp: now, Count: 1,
		ReportingController: "cluster-autoscaler",
	})
}
