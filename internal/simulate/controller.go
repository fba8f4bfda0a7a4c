package simulate

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/nodegroupset/template"
)

// podName names a pod of the workload.
func (w *Workload) podName(number int) string { return fmt.Sprintf("%s-%d", w.Name, number) }

func (w *Workload) isStatefulSet() bool { return w.Kind == v1alpha1.WorkloadStatefulSet }

// rankAmong sorts pods of one replica set as its controller deletes them: those without a node go
// first, then those that are not ready, those that cost less, those that share a node with more
// related pods, those that have been ready for less time and the younger ones, both in powers of
// two. Ties are broken at random, in a real cluster by the random UID, and here by a hash of the
// name. Without related pods the order is that of a Job, which knows neither them nor costs.
func rankAmong(pods, related []*pod, now time.Duration) []*pod {
	onNode := map[*node]int{}
	for _, p := range related {
		onNode[p.node]++
	}
	type candidate struct {
		*pod
		key [6]int // what is deleted first is less
		uid [sha256.Size]byte
	}
	ranked := make([]candidate, len(pods))
	for i, p := range pods {
		bound, ready, readyFor, cost := 0, 0, 0, 0
		if p.node != nil {
			bound = 1
		}
		if p.node != nil && template.IsReady(p.node.object) {
			runs := p.life.report.Runs
			since := max(runs[len(runs)-1].From.Duration, p.node.upSince.Sub(epoch))
			ready, readyFor = 1, magnitude(now-since)
		}
		if len(related) > 0 {
			cost, _ = p.cost()
		}
		key := [6]int{bound, ready, cost, -onNode[p.node], readyFor, magnitude(now - p.life.pending)}
		ranked[i] = candidate{p, key, sha256.Sum256([]byte(p.object.Namespace + "/" + p.object.Name))}
	}
	slices.SortFunc(ranked, func(a, b candidate) int {
		return cmp.Or(slices.Compare(a.key[:], b.key[:]), bytes.Compare(a.uid[:], b.uid[:]), cmp.Compare(a.object.Name, b.object.Name))
	})
	sorted := make([]*pod, len(ranked))
	for i, c := range ranked {
		sorted[i] = c.pod
	}
	return sorted
}

// cost is the deletion cost of a pod, if it has one that can be read.
func (p *pod) cost() (cost int, has bool) {
	if p.assigned != nil && p.assigned.cost != nil {
		return int(*p.assigned.cost), true
	}
	n, err := strconv.Atoi(p.object.Annotations[v1.PodDeletionCost])
	return n, err == nil
}

// magnitude is the power of two in a time.
func magnitude(d time.Duration) int {
	if d <= 0 {
		return -1
	}
	return int(math.Log2(float64(d)))
}

// controllers are the objects by which the scheduler groups pods, to spread them by default. Those
// of pods from files are derived: they select the labels that their pods have in common.
func (s *Setup) controllers() []runtime.Object {
	var objects []runtime.Object
	for i := range s.Workloads {
		w := &s.Workloads[i]
		if len(w.Revisions) > 0 {
			continue // its controllers are objects of the files
		}
		objects = append(objects, controllerObject(metav1.GetControllerOfNoCopy(w.Pod), w.Namespace,
			map[string]string{appLabel: w.Pod.Labels[appLabel]}))
	}
	common := map[string]map[string]string{} // by controller
	var first []*v1.Pod                      // of each
	for _, p := range slices.Concat(s.Pods, s.alike.kinds) {
		if metav1.GetControllerOfNoCopy(p) == nil {
			continue
		}
		owner := ownerOf(p)
		if _, known := common[owner]; !known {
			first = append(first, p)
			common[owner] = maps.Clone(p.Labels)
			delete(common[owner], appsv1.StatefulSetPodNameLabel) // in which the pods of a stateful set differ
			delete(common[owner], appsv1.PodIndexLabel)
			continue
		}
		maps.DeleteFunc(common[owner], func(key, value string) bool { other, has := p.Labels[key]; return !has || other != value })
	}
	for _, p := range first {
		objects = append(objects, controllerObject(metav1.GetControllerOfNoCopy(p), p.Namespace, common[ownerOf(p)]))
	}
	return slices.DeleteFunc(objects, func(o runtime.Object) bool { return o == nil })
}

// controllerObject returns the controller by which pods are spread, or nil.
func controllerObject(ref *metav1.OwnerReference, namespace string, labels map[string]string) runtime.Object {
	if ref == nil {
		return nil
	}
	meta := metav1.ObjectMeta{Namespace: namespace, Name: ref.Name}
	selector := &metav1.LabelSelector{MatchLabels: labels}
	switch ref.Kind {
	case "ReplicaSet":
		return &appsv1.ReplicaSet{ObjectMeta: meta, Spec: appsv1.ReplicaSetSpec{Selector: selector}}
	case "StatefulSet":
		return &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Selector: selector}}
	case "ReplicationController":
		return &v1.ReplicationController{ObjectMeta: meta, Spec: v1.ReplicationControllerSpec{Selector: labels}}
	}
	return nil
}
