package workloadspread

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
)

// loops is how many random worlds are played; make worlds plays ten thousand.
var (
	loops = flag.Uint64("loops", 500, "random worlds")
	from  = flag.Uint64("from", 0, "the seed of the first one")
)

// randomSpec draws the subsets of a Deployment.
func randomSpec(r *rand.Rand) *v1alpha1.WorkloadSpreadSpec {
	spec := deployment(make([]string, 1+r.IntN(4))...)
	n := len(spec.Subsets)
	switch r.IntN(4) {
	case 0:
		left := 100
		for i := range n - 1 {
			percent := r.IntN(left + 1)
			left -= percent
			spec.Subsets[i] = subsetOf(spec.Subsets[i].Name, fmt.Sprintf("%d%%", percent))
		}
		if r.IntN(2) == 0 {
			spec.Subsets[n-1] = subsetOf(spec.Subsets[n-1].Name, fmt.Sprintf("%d%%", left))
		}
	case 1:
		spec.Distribution = v1alpha1.DistributeEven
	case 2:
		spec.Distribution = v1alpha1.DistributeWeighted
		for i := range spec.Subsets {
			spec.Subsets[i].Weight = new(1 + r.Int32N(9))
			if r.IntN(2) == 0 {
				spec.Subsets[i].Base = new(r.Int32N(4))
			}
		}
	default:
		for i := range n - r.IntN(2) {
			if r.IntN(3) > 0 {
				spec.Subsets[i] = subsetOf(spec.Subsets[i].Name, fmt.Sprint(r.IntN(10)))
			} else if r.IntN(2) == 0 {
				spec.Subsets[i].MinReplicas = new(r.Int32N(5))
			}
		}
	}
	if r.IntN(3) == 0 && n > 1 && spec.Subsets[n-1].MaxReplicas == nil {
		spec.ScheduleStrategy = v1alpha1.WorkloadScheduleStrategy{Type: v1alpha1.ScheduleAdaptive, Adaptive: &v1alpha1.AdaptiveSchedule{
			RescheduleCriticalSeconds: new(int32(5 + r.IntN(20))), UnschedulableSeconds: new(int32(120)),
			MaxReschedulesPerMinute: new(1 + r.Int32N(20)),
		}}
	}
	if r.IntN(4) == 0 {
		spec.WhenFull = v1alpha1.WhenFullRefuse
	}
	return spec
}

// mishap changes something of the world, or lets one of its parts fail.
func (w *fakeCluster) mishap() {
	r := w.r
	lost := func() bool { return r.IntN(8) == 0 }
	var victim *v1.Pod
	if len(w.pods) > 0 {
		victim = w.pods[r.IntN(len(w.pods))]
	}
	switch what := r.IntN(13); {
	case what == 0:
		w.replicas = r.Int32N(25)
		w.log("replicas %d", w.replicas)
	case what == 1:
		w.revision++
		w.log("revision %d", w.revision)
	case what == 2 && victim != nil:
		w.remove(victim)
	case what == 3 && victim != nil: // it is being deleted, and stays for a while
		w.log("%s terminates", victim.Name)
		i := slices.Index(w.pods, victim)
		w.pods[i] = victim.DeepCopy()
		w.pods[i].DeletionTimestamp = new(stamp(w.now))
	case what == 4 && victim != nil: // it fails, and no webhook is asked
		w.log("%s fails", victim.Name)
		i := slices.Index(w.pods, victim)
		w.pods[i] = victim.DeepCopy()
		w.pods[i].Status.Phase = v1.PodFailed
	case what == 5 && victim != nil: // it is lost, and no webhook is asked
		w.log("%s is lost", victim.Name)
		w.pods = slices.DeleteFunc(w.pods, func(p *v1.Pod) bool { return p.UID == victim.UID })
	case what == 6:
		w.look()
		w.reconcile(r.IntN(10))
	case what == 7 && !w.gentle:
		changed := randomSpec(r)
		changed.ScheduleStrategy = v1alpha1.WorkloadScheduleStrategy{}
		clear(w.nodeless)
		w.spec = changed
		w.log("the spec changes")
	case what == 8 && w.spec.ScheduleStrategy.Type == v1alpha1.ScheduleAdaptive && !w.gentle:
		w.nodeless[w.spec.Subsets[r.IntN(len(w.spec.Subsets)-1)].Name] = true
	case what == 9:
		w.schedule()
	default:
		w.roll(lost)
	}
	if r.IntN(3) > 0 || w.gentle && w.now.Sub(w.seenAt) > 10*time.Second {
		w.look()
	}
	if r.IntN(2) == 0 {
		w.reconcile(1 << 30) // maybe with what the cache had before
	}
	w.now = w.now.Add(time.Duration(r.IntN(12)) * time.Second)
}

// After quiet the counts are those of the pods, whatever was lost on the way; nothing is missing
// below 0 or above the maximum at any time.
func TestCountsEqualThePodsAfterQuiet(t *testing.T) {
	t.Parallel()
	for seed := *from; seed < *from+*loops; seed++ {
		r := rand.New(rand.NewPCG(seed, 14))
		w := newFakeCluster(t, randomSpec(r), r.Int32N(25))
		w.r, w.surge, w.gentle = r, r.Int32N(4), r.IntN(2) == 0
		w.log("seed %d", seed)
		for range 5 + r.IntN(40) {
			w.mishap()
		}
		clear(w.nodeless)
		w.quiet()
		w.checkCounts()
		w.checkOrder()
	}
}

// checkCounts is the oracle: it counts the pods one by one.
func (w *fakeCluster) checkCounts() {
	limits := Limits(w.spec, w.replicas, nil)
	for i := range w.spec.Subsets {
		var n, current int32
		for _, pod := range w.pods {
			if a, ok := AssignmentOf(pod); ok && Active(pod) && a.Subset == w.spec.Subsets[i].Name {
				n++
				if pod.Labels["pod-template-hash"] == w.hash(w.revision) {
					current++
				}
			}
		}
		want := int32(-1)
		if limits[i] >= 0 {
			want = max(0, limits[i]-n)
		}
		all := w.stored.SubsetStatuses[i]
		if all.Replicas != n || all.MaxReplicas != limits[i] || all.MissingReplicas != want {
			w.fail("subset %s has %d pods of %d, the status says %+v", all.Name, n, limits[i], all)
		}
		count := w.stored.VersionedSubsetStatuses[w.hash(w.revision)][i]
		if count.Replicas != current || count.MissingReplicas != want && n == current || len(count.CreatingPods) > 0 {
			w.fail("subset %s has %d pods of the revision, the status says %+v", all.Name, current, count)
		}
	}
}

// checkOrder takes the pods away one by one, as the controller of ReplicaSets does: first those of no
// subset, then the surplus of the last subset up to the first, then the rest, the last subset
// first or so that the shares stay exact.
func (w *fakeCluster) checkOrder() {
	pods := w.active(w.revision)
	slices.SortFunc(pods, lastFirst)
	sizes, limits := make([]int32, len(w.spec.Subsets)), Limits(w.spec, w.replicas, nil)
	for i := range sizes {
		sizes[i] = w.has(w.revision, i)
	}
	exact := slices.Equal(sizes, limits)
	index := func(pod *v1.Pod) int {
		a, _ := AssignmentOf(pod)
		return indexOf(w.spec, a.Subset)
	}
	before := -1
	for at, pod := range pods {
		i := index(pod)
		place := len(limits) - 1 - i // the last subset first
		switch {
		case i < 0:
			place = 0
		case limits[i] != Unlimited && sizes[i] > limits[i]:
			place++
		case Shared(w.spec):
			for j, n := range layout(w.spec, int32(len(pods)-at), nil) {
				if exact && sizes[j] != n {
					w.fail("with %d pods the subsets have %v", len(pods)-at, sizes)
				}
			}
			place = 100
		default:
			place += 10
		}
		if place < before {
			w.fail("pod %s with cost %s of subset %d is deleted as number %d", pod.Name, pod.Annotations[AnnotationCost], i, at)
		}
		before = place
		if i >= 0 {
			sizes[i]--
		}
	}
}
