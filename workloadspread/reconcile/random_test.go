package reconcile

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/workloadspread"
	"github.com/evenkeel/evenkeel/workloadspread/store"
)

// loops is how many random worlds are played; make worlds plays ten thousand.
var (
	loops = flag.Uint64("loops", 60, "random worlds")
	from  = flag.Uint64("from", 0, "the seed of the first one")
)

// randomCluster is a cluster with one Deployment: its controllers, the scheduler, two webhook servers and the
// controller of WorkloadSpreads, all of which may fail.
type randomCluster struct {
	*harness
	r        *rand.Rand
	webhooks []*store.Store
	revision int
	serial   int
	created  int
	nodeless map[string]bool // subsets in which no node has room
	crashed  bool
	history  []string
}

func newRandomCluster(t *testing.T, seed uint64) *randomCluster {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 14))
	w := &randomCluster{harness: newHarness(t, append(deployed(r.Int32N(15)), randomSpread(r), node("n", "one"))...), r: r,
		nodeless: map[string]bool{}}
	w.log("seed %d", seed)
	for range 2 {
		w.webhooks = append(w.webhooks, store.New(w.server, w.server, nil))
	}
	return w
}

func randomSpread(r *rand.Rand) *v1alpha1.WorkloadSpread {
	n := 1 + r.IntN(3)
	s := spreadOver()
	for i := range n {
		most := ""
		if r.IntN(3) > 0 && (i < n-1 || r.IntN(2) == 0) {
			most = strconv.Itoa(r.IntN(7))
		}
		s.Spec.Subsets = append(s.Spec.Subsets, subset(string(rune('a'+i)), most))
	}
	switch last := &s.Spec.Subsets[n-1]; r.IntN(4) {
	case 0:
		s.Spec.Distribution = v1alpha1.DistributeEven
	case 1:
		last.MaxReplicas = nil
		s.Spec.ScheduleStrategy = v1alpha1.WorkloadScheduleStrategy{Type: v1alpha1.ScheduleAdaptive, Adaptive: &v1alpha1.AdaptiveSchedule{
			RescheduleCriticalSeconds: new(int32(5 + r.IntN(20))), UnschedulableSeconds: new(int32(90)),
			MaxReschedulesPerMinute: new(1 + r.Int32N(9)),
		}}
	}
	if r.IntN(4) == 0 {
		s.Spec.WhenFull = v1alpha1.WhenFullRefuse
	}
	return s
}

func (w *randomCluster) log(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf("%s ", w.clock.Now().Format(time.TimeOnly))+fmt.Sprintf(format, args...))
}

func (w *randomCluster) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("%s\n  %s\n%+v", fmt.Sprintf(format, args...), strings.Join(w.history[max(0, len(w.history)-80):], "\n  "), w.get().Status)
}

func (w *randomCluster) hash() string { return "r" + strconv.Itoa(w.revision+1) }

func (w *randomCluster) deployment() *appsv1.Deployment {
	d := &appsv1.Deployment{}
	if err := w.server.Get(w.t.Context(), spreadKey, d); err != nil {
		w.t.Fatal(err)
	}
	return d
}

func (w *randomCluster) replicas() int32 { return *w.deployment().Spec.Replicas }

// all are the pods of the workload, in the order of their names.
func (w *randomCluster) all() []*v1.Pod {
	var list v1.PodList
	if err := w.server.List(w.t.Context(), &list); err != nil {
		w.t.Fatal(err)
	}
	var out []*v1.Pod
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func (w *randomCluster) active(hash string) []*v1.Pod {
	return slices.DeleteFunc(w.all(), func(p *v1.Pod) bool {
		return !workloadspread.Active(p) || workloadspread.RevisionOf(p) != hash
	})
}

// state is what a webhook server knows.
func (w *randomCluster) state(s *v1alpha1.WorkloadSpread) workloadspread.State {
	return workloadspread.State{Spec: &s.Spec, Status: &s.Status, Now: w.clock.Now(),
		Workload: workloadspread.Workload{Found: true, Replicas: w.replicas(), Revision: w.hash()}}
}

// checked fails the world if a status says that anything is missing that cannot be.
func (w *randomCluster) checked(s *v1alpha1.WorkloadSpread, err error) {
	if err != nil {
		w.fail("a webhook could not store the status: %v", err)
	}
	for i := range s.Status.SubsetStatuses {
		if of := &s.Status.SubsetStatuses[i]; of.MaxReplicas != workloadspread.Unlimited &&
			(of.MissingReplicas < 0 || of.MissingReplicas > of.MaxReplicas) {
			w.fail("subset %s is missing %d of %d", of.Name, of.MissingReplicas, of.MaxReplicas)
		}
	}
}

// create is a request of the controller of the ReplicaSet, through one of the webhook servers or, if
// they are away, through none. It reports whether there is a pod.
func (w *randomCluster) create(lost, away bool) bool {
	w.serial++
	pod := replica(w.serial, w.hash(), "")
	pod.CreationTimestamp = metav1.NewTime(w.clock.Now())
	pod.Spec.NodeName, pod.Status = "", v1.PodStatus{Phase: v1.PodPending}
	if !away {
		var a workloadspread.Admission
		id := pod.Name
		stored, err := w.webhooks[w.r.IntN(2)].Update(w.t.Context(), spreadKey,
			func(s *v1alpha1.WorkloadSpread, _ *store.Round) (*v1alpha1.WorkloadSpreadStatus, bool, error) {
				state, pod := w.state(s), workloadspread.NewPod{ID: id, Revision: w.hash()}
				if a = workloadspread.Admit(state, pod); a.Recount {
					state.Counted = true
					state.Status, state.Absent = workloadspread.Recount(state, s.Name, pod.Revision, w.all())
					a = workloadspread.Admit(state, pod)
				}
				return a.Status, a.Changed, nil
			})
		w.checked(stored, err)
		if a.Refused {
			w.log("%s is refused: %s", pod.Name, a.Message)
			return false
		}
		assignment := workloadspread.Assignment{Name: "web"}
		if a.Subset >= 0 {
			assignment.Subset = stored.Spec.Subsets[a.Subset].Name
		}
		pod.Annotations = map[string]string{workloadspread.AnnotationSpread: assignment.String()}
		if a.Cost != 0 {
			pod.Annotations[workloadspread.AnnotationCost] = strconv.Itoa(int(a.Cost))
		}
	}
	w.log("create %s %s lost %v", pod.Name, pod.Annotations[workloadspread.AnnotationSpread], lost)
	if lost {
		return false
	}
	w.must(w.server.Create(w.t.Context(), pod))
	w.created++
	return true
}

func (w *randomCluster) remove(pod *v1.Pod) {
	w.log("delete %s %s", pod.Name, pod.Annotations[workloadspread.AnnotationSpread])
	if err := client.IgnoreNotFound(w.server.Delete(w.t.Context(), pod)); err != nil {
		w.t.Fatal(err)
	}
}

// lastFirst is the order in which the controller of ReplicaSets deletes.
func lastFirst(a, b *v1.Pod) int {
	cost := func(p *v1.Pod) int {
		n, _ := strconv.Atoi(p.Annotations[workloadspread.AnnotationCost])
		return n
	}
	rank := func(p *v1.Pod) int {
		if p.Spec.NodeName == "" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(cost(a), cost(b)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time),
		cmp.Compare(a.Name, b.Name))
}

// scale brings the pods of a revision to a number.
func (w *randomCluster) scale(hash string, size int, lost, away func() bool) {
	for tries := 0; hash == w.hash() && len(w.active(hash)) < size && tries < 2*size; tries++ {
		if !w.create(lost(), away()) && !lost() {
			break // its controller backs off
		}
	}
	pods := w.active(hash)
	slices.SortFunc(pods, lastFirst)
	for _, pod := range pods[:max(0, len(pods)-size)] {
		w.remove(pod)
	}
}

// roll replaces old pods and brings the new ones to their number.
func (w *randomCluster) roll(lost, away func() bool) {
	for old := range w.revision {
		if hash := "r" + strconv.Itoa(old+1); len(w.active(hash)) > 0 {
			w.scale(hash, len(w.active(hash))/2, never, never)
		}
	}
	old := len(w.all()) - len(w.active(w.hash()))
	w.scale(w.hash(), max(0, int(w.replicas())-old), lost, away)
}

func never() bool { return false }

// schedule gives nodes to the pods for which there are some.
func (w *randomCluster) schedule() {
	for _, pod := range w.all() {
		a, _ := workloadspread.AssignmentOf(pod)
		if pod.Spec.NodeName != "" || !workloadspread.Active(pod) || w.nodeless[a.Subset] && len(pod.Status.Conditions) > 0 {
			continue
		}
		if w.nodeless[a.Subset] {
			waits(pod, w.clock.Now())
		} else {
			pod.Spec.NodeName = "n"
			pod.Status = v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}}
		}
		w.update(pod)
	}
}

// problems are the answers of an API server that does not do what it is asked.
var problems = []error{
	apierrors.NewForbidden(v1.Resource("pods"), "x", nil), apierrors.NewNotFound(v1.Resource("pods"), "x"),
	apierrors.NewConflict(v1.Resource("pods"), "x", nil),
	apierrors.NewInvalid(v1.SchemeGroupVersion.WithKind("Pod").GroupKind(), "x", nil), apierrors.NewTooManyRequests("busy", 1),
	apierrors.NewInternalError(errors.New("broken")),
	apierrors.NewTimeoutError("slow", 1), context.DeadlineExceeded,
}

// reconcileOnce is a pass. It may see the pods of some time ago, a write may fail or its answer may be
// lost, and the controller may crash at any write.
func (w *randomCluster) reconcileOnce(faults bool) time.Duration {
	w.fault, w.crashed = nil, false
	if w.r.IntN(3) > 0 || !faults {
		w.catchUp()
	}
	if faults {
		at, crash := w.made+1+w.r.IntN(12), w.r.IntN(2) == 0
		problem, lost := problems[w.r.IntN(len(problems))], w.r.IntN(2) == 0
		w.fault = func(write int, what string) (error, bool) {
			switch {
			case w.crashed || write == at && crash:
				first := !w.crashed
				w.crashed = true
				return apierrors.NewForbidden(v1.Resource("pods"), "crashed", nil), first && lost
			case write == at:
				w.log("%s fails: %v, lost %v", what, problem, lost)
				return problem, lost
			}
			return nil, false
		}
	}
	again, err := w.harness.pass()
	w.fault = nil
	w.log("pass: %s again %s, error %v, crashed %v", w.written(), again, err, w.crashed)
	if err != nil && !faults {
		w.fail("a pass failed: %v", err)
	}
	if w.crashed {
		w.start()
		w.catchUp() // a cache begins with what there is
	}
	w.checked(w.get(), nil)
	return again
}

// catchUp lets the cache see what there is.
func (w *randomCluster) catchUp() {
	w.late = &v1.PodList{}
	w.must(w.server.List(w.t.Context(), w.late))
}

// mishap changes something of the world, or lets one of its parts fail.
func (w *randomCluster) mishap() {
	r := w.r
	lost := func() bool { return r.IntN(8) == 0 }
	away := func() bool { return r.IntN(10) == 0 }
	var victim *v1.Pod
	if pods := w.all(); len(pods) > 0 {
		victim = pods[r.IntN(len(pods))]
	}
	switch what := r.IntN(12); {
	case what == 0:
		d := w.deployment()
		d.Spec.Replicas = new(r.Int32N(15))
		w.log("replicas %d", *d.Spec.Replicas)
		w.must(w.server.Update(w.t.Context(), d))
	case what == 1 && w.revision < 3:
		w.revision++
		w.log("revision %d", w.revision)
		w.must(w.server.Create(w.t.Context(), replicaSet(w.hash(), w.revision+1)))
	case what == 2 && victim != nil:
		w.remove(victim)
	case what == 4 && victim != nil:
		w.log("%s fails", victim.Name)
		victim.Status.Phase = v1.PodFailed
		w.update(victim)
	case what == 5 && victim != nil:
		w.log("%s is lost", victim.Name)
		w.must(w.server.Delete(w.t.Context(), victim))
	case what == 6:
		w.log("the spec changes")
		s := w.get()
		s.Spec, s.Generation = randomSpread(r).Spec, s.Generation+1
		clear(w.nodeless)
		w.must(w.server.Update(w.t.Context(), s))
	case what == 7:
		if s := w.get(); s.Spec.ScheduleStrategy.Type == v1alpha1.ScheduleAdaptive && len(s.Spec.Subsets) > 1 {
			w.nodeless[s.Spec.Subsets[0].Name] = true
		}
	case what == 8:
		w.start()
		w.catchUp()
	default:
		w.roll(lost, away)
	}
	if r.IntN(2) == 0 {
		w.schedule()
	}
	if r.IntN(3) > 0 {
		w.reconcileOnce(r.IntN(2) == 0)
	}
	w.after(time.Duration(r.IntN(12)) * time.Second)
}

func (w *randomCluster) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *randomCluster) after(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// quiet lets all come to rest.
func (w *randomCluster) quiet() {
	w.log("quiet")
	clear(w.nodeless)
	begin := w.clock.Now()
	for calm := 0; calm < 10; calm++ { // longer than any mark
		if w.clock.Now().Sub(begin) > 20*time.Minute {
			w.fail("it does not come to rest")
		}
		for _, pod := range w.all() {
			if !workloadspread.Active(pod) {
				w.must(client.IgnoreNotFound(w.server.Delete(w.t.Context(), pod)))
			}
		}
		created, written := w.created, w.made
		w.roll(never, never)
		w.schedule()
		w.reconcileOnce(false)
		if created != w.created || written != w.made {
			calm = -1
		}
		w.after(10 * time.Second)
	}
}

// check counts the pods one by one, and deletes them one by one.
func (w *randomCluster) check() {
	s := w.get()
	limits := workloadspread.Limits(&s.Spec, w.replicas(), nil)
	sizes := make([]int32, len(limits))
	index := map[types.UID]int{}
	pods := w.active(w.hash())
	for _, pod := range pods {
		a, _ := workloadspread.AssignmentOf(pod)
		index[pod.UID] = slices.IndexFunc(s.Spec.Subsets, func(o v1alpha1.WorkloadSubset) bool { return o.Name == a.Subset })
		if index[pod.UID] >= 0 {
			sizes[index[pod.UID]]++
		}
	}
	for i, of := range s.Status.SubsetStatuses {
		want := workloadspread.Unlimited
		if limits[i] != workloadspread.Unlimited {
			want = max(0, limits[i]-sizes[i])
		}
		if of.Replicas != sizes[i] || of.MaxReplicas != limits[i] || of.MissingReplicas != want && of.UnschedulableUntil == nil {
			w.fail("subset %s has %d pods of %d, the status says %+v", of.Name, sizes[i], limits[i], of)
		}
	}
	for _, row := range s.Status.VersionedSubsetStatuses {
		for _, c := range row {
			if len(c.CreatingPods) > 0 {
				w.fail("entries are left: %+v", c)
			}
		}
	}
	var list v1.PodList
	w.must(w.server.List(w.t.Context(), &list))
	if len(list.Items) != len(pods) {
		w.fail("%d pods are left besides those of the workload", len(list.Items)-len(pods))
	}
	if s.Spec.Distribution == v1alpha1.DistributeEven {
		return // the order is that of the positions, which the decisions are tested for
	}
	slices.SortFunc(pods, lastFirst)
	before := -1
	for at, pod := range pods {
		i, place := index[pod.UID], 0 // those of no subset first, then the surplus, then the last subset
		switch {
		case i < 0:
		case limits[i] != workloadspread.Unlimited && sizes[i] > limits[i]:
			place, sizes[i] = len(limits)-i, sizes[i]-1
		default:
			place = 2*len(limits) - i
		}
		if place < before {
			w.fail("pod %s with cost %s is deleted as number %d", pod.Name, pod.Annotations[workloadspread.AnnotationCost], at)
		}
		before = place
	}
}

// After quiet the counts are those of the pods and the order of the scale-down is that of the subsets,
// whatever was lost, and with crashes at any write; nothing is missing below 0 or above the
// maximum at any time.
func TestCountsEqualThePodsWhateverFails(t *testing.T) {
	for seed := *from; seed < *from+*loops; seed++ {
		synctest.Test(t, func(t *testing.T) {
			w := newRandomCluster(t, seed)
			for range 5 + w.r.IntN(20) {
				w.mishap()
			}
			w.quiet()
			w.check()
		})
		if t.Failed() {
			return
		}
	}
}
