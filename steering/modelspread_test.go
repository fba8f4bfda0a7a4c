package steering

import (
	"fmt"
	"math"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// pod is the pod of a number. It takes a node of its own.
func (w *world) pod(p int) *v1.Pod {
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: types.UID(fmt.Sprint(p)), CreationTimestamp: metav1.Time{Time: epoch.Add(-time.Minute)}}}
	if !w.spread {
		return pod
	}
	pod.Labels = map[string]string{"app": "web"}
	pod.Spec.Containers = []v1.Container{{Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}}}}
	pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
	}}
	return pod
}

// filled returns how many pods with a spread are on the nodes of each group that are ready, and on
// more nodes if Cluster Autoscaler counts them: each goes to the zone with the fewest.
func (w *world) filled(upcoming func(group int) int) [most]int {
	var room, out [most]int
	for i := range w.groups {
		room[i] = w.ready[i] - w.initial[i] + upcoming(i)
	}
	for range w.pods {
		least, best := math.MaxInt, -1
		for i := range w.groups {
			if w.initial[i]+room[i] == 0 {
				continue // nobody knows of a zone without nodes
			}
			least = min(least, out[i])
			if out[i] < room[i] && (best < 0 || out[i] < out[best]) {
				best = i
			}
		}
		if best < 0 || out[best] > least {
			break
		}
		out[best]++
	}
	return out
}

// fits returns for how many more pods a group may grow before another must.
func (w *world) fits(filled, sizes [most]int, group int) int {
	least := math.MaxInt
	for i := range w.groups {
		if i != group && sizes[i] > 0 {
			least = min(least, filled[i])
		}
	}
	if least == math.MaxInt {
		return w.pods
	}
	return max(0, least+1-filled[group])
}

// workload is what the API server shows: nodes that are ready, full from the start or with the pods
// that run, and the pods that are pending.
func (w *world) workload() *Workload {
	out := &Workload{}
	p, filled := 0, w.filled(func(int) int { return 0 })
	for i := range w.groups {
		for k := range w.ready[i] {
			node := machineIn(names[i])
			node.Name, node.Spec.ProviderID = instance(i, k), instance(i, k)
			out.Nodes = append(out.Nodes, node)
			if k < w.initial[i] {
				full := w.pod(w.pods)
				full.UID, full.Labels, full.Spec.NodeName = types.UID("old-"+node.Name), nil, node.Name
				out.Pods = append(out.Pods, full)
			} else if k-w.initial[i] < filled[i] {
				pod := w.pod(p)
				pod.Spec.NodeName = node.Name
				out.Pods = append(out.Pods, pod)
				p++
			}
		}
	}
	for ; p < w.pods; p++ {
		out.Pods = append(out.Pods, w.pod(p))
	}
	return out
}

// TestModelSpread visits every state that can be reached where pods are spread over zones, and
// members are granted more than was asked: no node is ordered twice, and rest is always come to.
func TestModelSpread(t *testing.T) {
	for _, b := range []struct {
		groups, pods, faults int
		initial              [most]int
	}{{groups: 3, pods: 4, initial: [most]int{1, 1, 1}}, {groups: 3, pods: 3}, {groups: 2, pods: 3, faults: 1, initial: [most]int{1, 1}}, {groups: 2, pods: 2, faults: 1}} {
		w := newWorld(b.groups, b.pods, b.faults, b.initial, nil)
		w.spread = true
		visited, rests, err := search(w)
		t.Logf("%d groups of %v nodes, %d more needed, %d faults: %d states, %d of them at rest", b.groups, b.initial[:b.groups], b.pods, b.faults, visited, rests)
		if err != nil {
			t.Error(err)
		}
	}
}

// TestModelSpreadGrantsMore: the search above does visit grants beyond what was asked, and finds
// what is wrong with a machine that forgets orders.
func TestModelSpreadGrantsMore(t *testing.T) {
	w := newWorld(3, 6, 0, [most]int{1, 1, 1}, nil)
	w.spread = true
	w.begin()
	asked := 0
	for range 3 {
		w.refresh()
		w.ca.chosen = w.ask()
		asked += w.ca.options[w.ca.chosen]
		w.increase(taken)
	}
	if w.target != [most]int{3, 3, 3} || asked >= 6 {
		t.Errorf("sizes %v after three increases by %d nodes, want two more of each, and less asked for", w.target, asked)
	}
	mistaken := newWorld(2, 3, 1, [most]int{1, 1}, func(w *world) {
		for _, b := range w.machine.groups {
			b.order = nil
		}
	})
	mistaken.spread = true
	if _, _, err := search(mistaken); err == nil {
		t.Error("nothing is wrong with a machine that forgets orders that have not ended")
	}
}
