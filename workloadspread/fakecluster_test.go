package workloadspread

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// subsetOf is a subset with a maximum, if it is not empty.
func subsetOf(name, most string) v1alpha1.WorkloadSubset {
	s := v1alpha1.WorkloadSubset{Name: name}
	if most != "" {
		value := intstr.Parse(most)
		s.MaxReplicas = &value
	}
	return s
}

// deployment spreads a Deployment over subsets, each with its maximum.
func deployment(most ...string) *v1alpha1.WorkloadSpreadSpec {
	spec := &v1alpha1.WorkloadSpreadSpec{TargetRef: v1alpha1.WorkloadReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}
	for i, m := range most {
		spec.Subsets = append(spec.Subsets, subsetOf(string(rune('a'+i)), m))
	}
	return spec
}

// fakeCluster is an API server with one workload, its controller, the webhook and ours.
type fakeCluster struct {
	t        testing.TB
	r        *rand.Rand
	spec     *v1alpha1.WorkloadSpreadSpec
	stored   v1alpha1.WorkloadSpreadStatus
	pods     []*v1.Pod
	seen     []*v1.Pod // what the cache has
	replicas int32
	surge    int32
	revision int
	now      time.Time
	serial   int
	nodeless map[string]bool // subsets in which no node has room
	seenAt   time.Time
	// gentle worlds have no refused evictions and no changes of the spec, and the cache is no more than
	// some seconds late.
	gentle  bool
	history []string
}

func newFakeCluster(t testing.TB, spec *v1alpha1.WorkloadSpreadSpec, replicas int32) *fakeCluster {
	return &fakeCluster{t: t, spec: spec, replicas: replicas, now: noon, nodeless: map[string]bool{}}
}

func (w *fakeCluster) log(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *fakeCluster) fail(format string, args ...any) {
	w.t.Helper()
	text := fmt.Sprintf(format, args...)
	for _, line := range w.history[max(0, len(w.history)-60):] {
		text += "\n  " + line
	}
	stored, err := json.Marshal(w.stored)
	w.t.Fatalf("%s\n%s %v", text, stored, err)
}

func (w *fakeCluster) state() State {
	return State{Spec: w.spec, Status: w.stored.DeepCopy(), Now: w.now,
		Workload: Workload{Found: true, Replicas: w.replicas, Surge: w.surge, Revision: w.hash(w.revision)}}
}

func (w *fakeCluster) hash(revision int) string { return "r" + strconv.Itoa(revision) }

// store keeps of the status what an API server keeps.
func (w *fakeCluster) store(s *v1alpha1.WorkloadSpreadStatus) {
	text, err := json.Marshal(s)
	if err == nil {
		w.stored = v1alpha1.WorkloadSpreadStatus{}
		err = json.Unmarshal(text, &w.stored)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	for revision, row := range w.stored.VersionedSubsetStatuses {
		limits := w.limits(revision)
		for i, c := range row {
			if c.MissingReplicas != Unlimited && (c.MissingReplicas < 0 || limits[i] != Unlimited && c.MissingReplicas > limits[i]) {
				w.fail("revision %s subset %s is missing %d of %d", revision, c.Name, c.MissingReplicas, limits[i])
			}
		}
	}
}

func (w *fakeCluster) limits(revision string) []int32 {
	s := w.state()
	return s.counts().limits(revision)
}

// untouched fails the world if a decision has changed the status that it was made from, which all share.
func (w *fakeCluster) untouched(s State) {
	if !equality.Semantic.DeepEqual(s.Status, &w.stored) {
		w.fail("the status became %+v", *s.Status)
	}
}

// create is a request of the workload's controller. It reports whether there is a pod.
func (w *fakeCluster) create(revision int, lost bool) bool {
	w.serial++
	id := fmt.Sprintf("uid-%d", w.serial)
	a := w.admit(NewPod{ID: id, Revision: w.hash(revision)})
	if a.Changed {
		w.store(a.Status)
	}
	if again := Admit(w.state(), NewPod{ID: id, Revision: w.hash(revision)}); a.Changed && (again.Changed || again.Subset != a.Subset) {
		w.fail("admitted to %d, then to %d", a.Subset, again.Subset)
	}
	w.log("create r%d %s: subset %d refused %v lost %v", revision, id, a.Subset, a.Refused, lost)
	if a.Refused || lost {
		return false
	}
	pod := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("web-%04d", w.serial), UID: types.UID(id), CreationTimestamp: stamp(w.now),
			Labels: map[string]string{"pod-template-hash": w.hash(revision)},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
	var subset *v1alpha1.WorkloadSubset
	assignment := Assignment{Name: "spread", ID: id}
	if a.Subset >= 0 {
		subset = &w.spec.Subsets[a.Subset]
		assignment.Subset = subset.Name
	}
	pod, err := Inject(pod, subset, assignment, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	if a.Cost != 0 {
		pod.Annotations[AnnotationCost] = number(a.Cost)
	}
	w.pods = append(w.pods, pod)
	if w.gentle && a.Subset >= 0 {
		if limit := w.limits(w.hash(revision))[a.Subset]; limit != Unlimited && w.has(revision, a.Subset) > limit {
			w.fail("subset %s has %d pods of revision %d, may have %d", subset.Name, w.has(revision, a.Subset), revision, limit)
		}
		w.checkSurge(a.Subset)
	}
	return true
}

// checkSurge counts pods of all revisions when one is created in a subset: if that is above its limit,
// the subsets together are so by no more than the surge.
func (w *fakeCluster) checkSurge(created int) {
	var over int32
	above := false
	for i, limit := range Limits(w.spec, w.replicas, nil) {
		var n int32
		for _, revision := range w.revisions() {
			n += w.has(revision, i)
		}
		if limit != Unlimited {
			over += max(0, n-limit)
			above = above || i == created && n > limit
		}
	}
	if above && over > w.surge && len(w.nodeless) == 0 {
		w.fail("subsets are %d above their limits, the surge is %d", over, w.surge)
	}
}

func (w *fakeCluster) has(revision, subset int) (n int32) {
	for _, pod := range w.pods {
		if a, _ := AssignmentOf(pod); Active(pod) && a.Subset == w.spec.Subsets[subset].Name && RevisionOf(pod) == w.hash(revision) {
			n++
		}
	}
	return n
}

func (w *fakeCluster) revisions() []int {
	var out []int
	for revision := range w.revision + 1 {
		if len(w.active(revision)) > 0 {
			out = append(out, revision)
		}
	}
	return out
}

func (w *fakeCluster) active(revision int) []*v1.Pod {
	var out []*v1.Pod
	for _, pod := range w.pods {
		if Active(pod) && RevisionOf(pod) == w.hash(revision) {
			out = append(out, pod)
		}
	}
	return out
}

// admit is the webhook.
func (w *fakeCluster) admit(pod NewPod) Admission {
	state := w.state()
	a := Admit(state, pod)
	w.untouched(state)
	if a.Recount {
		state.Counted = true
		state.Status, state.Absent = Recount(state, "spread", pod.Revision, w.pods)
		a = Admit(state, pod)
	}
	return a
}

func (w *fakeCluster) remove(pod *v1.Pod) {
	w.log("delete %s %s", pod.Name, pod.Annotations[AnnotationSpread])
	w.pods = slices.DeleteFunc(w.pods, func(p *v1.Pod) bool { return p.UID == pod.UID })
}

// lastFirst is the order in which the controller of ReplicaSets deletes.
func lastFirst(a, b *v1.Pod) int {
	cost := func(p *v1.Pod) int {
		n, err := strconv.Atoi(p.Annotations[AnnotationCost])
		if err != nil {
			return 0
		}
		return n
	}
	rank := func(p *v1.Pod) int {
		switch {
		case p.Spec.NodeName == "":
			return 0
		case p.Status.Phase == v1.PodPending:
			return 1
		case condition(p, v1.PodReady).Status != v1.ConditionTrue:
			return 2
		}
		return 3
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(cost(a), cost(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name))
}

// scale brings the pods of a revision to a number.
func (w *fakeCluster) scale(revision, size int, lost func() bool) {
	for tries := 0; len(w.active(revision)) < size && tries < 2*size; tries++ {
		if !w.create(revision, lost()) && !lost() {
			break // its controller backs off
		}
	}
	pods := w.active(revision)
	slices.SortFunc(pods, lastFirst)
	for _, pod := range pods[:max(0, len(pods)-size)] {
		w.remove(pod)
	}
}

// roll takes one step of a rollout, as the controller of Deployments: new pods within the surge, then
// old ones go.
func (w *fakeCluster) roll(lost func() bool) {
	old := 0
	for revision := range w.revision {
		old += len(w.active(revision))
	}
	w.scale(w.revision, max(len(w.active(w.revision)), min(int(w.replicas), int(w.replicas+w.surge)-old)), lost)
	w.schedule()
	ready := 0
	for _, pod := range w.active(w.revision) {
		if condition(pod, v1.PodReady).Status == v1.ConditionTrue {
			ready++
		}
	}
	excess := old + ready - int(w.replicas) + 1 - min(int(w.surge), 1)
	for revision := range w.revision {
		size := len(w.active(revision))
		gone := min(size, max(0, excess))
		w.scale(revision, size-gone, lost)
		excess -= gone
	}
	if int(w.replicas) < len(w.active(w.revision)) {
		w.scale(w.revision, int(w.replicas), lost)
	}
}

// schedule gives nodes to the pods for which there are some.
func (w *fakeCluster) schedule() {
	for i, pod := range w.pods {
		a, _ := AssignmentOf(pod)
		if pod.Spec.NodeName != "" || !Active(pod) {
			continue
		}
		pod = pod.DeepCopy()
		if w.nodeless[a.Subset] {
			if len(pod.Status.Conditions) == 0 {
				pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable,
					LastTransitionTime: stamp(w.now)}}
			}
		} else {
			pod.Spec.NodeName, pod.Status.Phase = "n", v1.PodRunning
			pod.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: stamp(w.now)}}
		}
		w.pods[i] = pod
	}
}

// reconcile is a pass of the controller, which may crash after so many of its writes.
func (w *fakeCluster) reconcile(writes int) Decision {
	d := Decide(Input{Name: "spread", State: w.state(), Pods: w.seen})
	w.log("reconcile with %d of %d pods, %d writes", len(w.seen), len(w.pods), writes)
	if !d.Changed {
		writes++
	}
	if writes <= 0 {
		return d
	}
	w.store(d.Status)
	for _, c := range d.Costs {
		if writes--; writes <= 0 {
			return d
		}
		for i, pod := range w.pods {
			if pod.UID == c.Pod.UID {
				pod = pod.DeepCopy()
				pod.Annotations[AnnotationCost] = number(c.Cost)
				w.pods[i] = pod
			}
		}
	}
	for _, gone := range d.Delete {
		if writes--; writes <= 0 {
			return d
		}
		for _, pod := range w.pods {
			if pod.UID == gone.Pod.UID {
				w.remove(pod)
				break
			}
		}
	}
	return d
}

func never() bool { return false }

// quiet lets the workload, the scheduler and the controller come to rest.
func (w *fakeCluster) quiet() {
	w.log("quiet")
	for range 40 {
		serial := w.serial
		w.pods = slices.DeleteFunc(w.pods, func(p *v1.Pod) bool { return !Active(p) })
		w.roll(never)
		w.schedule()
		w.look()
		d := w.reconcile(1 << 30)
		w.now = w.now.Add(10 * time.Second)
		if serial == w.serial && !d.Changed && d.Next.IsZero() {
			break
		}
	}
	w.look()
	if d := w.reconcile(1 << 30); d.Changed || len(d.Costs) > 0 || len(d.Delete) > 0 || !d.Next.IsZero() && len(w.nodeless) == 0 {
		w.fail("not quiet: %+v", d)
	}
}

// look brings the cache up to date.
func (w *fakeCluster) look() { w.seen, w.seenAt = slices.Clone(w.pods), w.now }
