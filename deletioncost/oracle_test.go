package deletioncost

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sort"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/controller"
	"pgregory.net/rapid"
)

// fakeReplicaSet is a ReplicaSet on nodes.
type fakeReplicaSet struct {
	nodes []*v1.Node
	pods  []*v1.Pod
	other []*v1.Pod
	made  int
	now   time.Time
	rule  []v1.TopologySpreadConstraint
}

func zoneRule(maxSkew int32) v1.TopologySpreadConstraint {
	return v1.TopologySpreadConstraint{
		MaxSkew: maxSkew, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
	}
}

func hostRule(maxSkew int32) v1.TopologySpreadConstraint {
	c := zoneRule(maxSkew)
	c.TopologyKey, c.WhenUnsatisfiable = v1.LabelHostname, v1.ScheduleAnyway
	return c
}

func newFakeReplicaSet(rule ...v1.TopologySpreadConstraint) *fakeReplicaSet {
	return &fakeReplicaSet{now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), rule: rule}
}

func (w *fakeReplicaSet) node(zone string) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%03d", len(w.nodes))}}
	n.Labels = map[string]string{v1.LabelHostname: n.Name}
	if zone != "" {
		n.Labels[v1.LabelTopologyZone] = zone
	}
	w.nodes = append(w.nodes, n)
	return n
}

// pod makes a ready pod of some age.
func (w *fakeReplicaSet) pod(n *v1.Node, age time.Duration, uid string) *v1.Pod {
	w.made++
	at := metav1.NewTime(w.now.Add(-age))
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("web-%05d", w.made), Namespace: "shop", UID: types.UID(uid), CreationTimestamp: at,
			Labels: map[string]string{"app": "web", "pod-template-hash": "1"}, Annotations: map[string]string{},
		},
		Spec: v1.PodSpec{NodeName: n.Name, TopologySpreadConstraints: w.rule},
		Status: v1.PodStatus{Phase: v1.PodRunning, Conditions: []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue,
			LastTransitionTime: at}}},
	}
	return p
}

func (w *fakeReplicaSet) add(n *v1.Node, age time.Duration, uid string) *v1.Pod {
	p := w.pod(n, age, uid)
	w.pods = append(w.pods, p)
	return p
}

func (w *fakeReplicaSet) input() *Input {
	return &Input{Request: Spread, Pods: w.pods, Others: w.other, Nodes: w.nodes}
}

// converge decides and writes; it returns the number of writes.
func (w *fakeReplicaSet) converge(t require) int {
	t.Helper()
	d, err := Decide(w.input())
	if err != nil {
		t.Fatalf("deciding: %v", err)
	}
	apply(d.Writes)
	return len(d.Writes)
}

type require interface {
	Helper()
	Fatalf(string, ...any)
}

func apply(writes []Write) {
	for _, write := range writes {
		for key, value := range write.Annotations() {
			if value == nil {
				delete(write.Pod.Annotations, key)
			} else {
				write.Pod.Annotations[key] = *value
			}
		}
	}
}

// deletion is the order in which the controller of ReplicaSets deletes the pods now.
func (w *fakeReplicaSet) deletion() []*v1.Pod {
	on := map[string]int{}
	for _, p := range w.pods {
		on[p.Spec.NodeName]++
	}
	all := controller.ActivePodsWithRanks{Pods: slices.Clone(w.pods), Now: metav1.NewTime(w.now)}
	for _, p := range all.Pods {
		all.Rank = append(all.Rank, on[p.Spec.NodeName])
	}
	sort.Sort(all)
	return all.Pods
}

// down deletes n pods at once.
func (w *fakeReplicaSet) down(n int) {
	w.pods = w.deletion()[n:]
}

// skew is the skew over a key of so many of the pods, others included, over all nodes.
func (w *fakeReplicaSet) skew(key string, pods []*v1.Pod) int {
	in, count := map[string]string{}, map[string]int{}
	for _, n := range w.nodes {
		if value, has := n.Labels[key]; has {
			in[n.Name] = value
			count[value] += 0
		}
	}
	for _, p := range slices.Concat(pods, w.other) {
		if value, has := in[p.Spec.NodeName]; has {
			count[value]++
		}
	}
	least, most := 1<<30, 0
	for _, n := range count {
		least, most = min(least, n), max(most, n)
	}
	return max(0, most-least)
}

// best is the least skew that any n of the pods can have: all choices are tried.
func (w *fakeReplicaSet) best(key string, n int) int {
	least := 1 << 30
	for chosen := range 1 << len(w.pods) {
		var kept []*v1.Pod
		for i, p := range w.pods {
			if chosen>>i&1 == 1 {
				kept = append(kept, p)
			}
		}
		if len(kept) == n {
			least = min(least, w.skew(key, kept))
		}
	}
	return least
}

// greedy is the least skew for any number of pods, found by deleting from the fullest domain. That
// it is the least is checked against best.
func (w *fakeReplicaSet) greedy(key string) []int {
	pods, in := slices.Clone(w.pods), map[string]string{}
	for _, n := range w.nodes {
		in[n.Name] = n.Labels[key]
	}
	out := make([]int, len(pods)+1)
	for len(pods) > 0 {
		count := map[string]int{}
		for _, p := range slices.Concat(pods, w.other) {
			count[in[p.Spec.NodeName]]++
		}
		out[len(pods)] = w.skew(key, pods)
		fullest := 0
		for i, p := range pods {
			if count[in[p.Spec.NodeName]] > count[in[pods[fullest].Spec.NodeName]] {
				fullest = i
			}
		}
		pods = slices.Delete(pods, fullest, fullest+1)
	}
	out[0] = w.skew(key, nil)
	return out
}

// draw makes a random ReplicaSet with at most so many pods, as a scheduler might have left it, or not.
func draw(t *rapid.T, most int) *fakeReplicaSet {
	w := newFakeReplicaSet(zoneRule(rapid.Int32Range(1, 4).Draw(t, "maxSkew")))
	zones := rapid.IntRange(1, 4).Draw(t, "zones")
	for i := range rapid.IntRange(zones, 3*zones).Draw(t, "nodes") {
		w.node(string(rune('a' + i%zones)))
	}
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	level := r.IntN(2) == 0
	for i := range rapid.IntRange(1, most).Draw(t, "pods") {
		n := w.nodes[r.IntN(len(w.nodes))]
		if level {
			n = w.nodes[i%len(w.nodes)]
		}
		w.add(n, time.Duration(r.IntN(100_000))*time.Second, strconv.Itoa(r.IntN(1<<30)))
	}
	if r.IntN(4) == 0 {
		for range r.IntN(6) {
			w.other = append(w.other, w.pod(w.nodes[r.IntN(len(w.nodes))], time.Hour, "other"))
		}
	}
	return w
}

// Scaled down to any number at once, by the real order of the ReplicaSet controller, at any time: no
// skew above maxSkew that a better choice would have avoided. All choices are tried.
func TestNoChoiceIsMoreLevel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t, 9)
		w.converge(t)
		if again := w.converge(t); again > 0 {
			t.Fatalf("%d writes again", again)
		}
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 1_000_000).Draw(t, "later")) * time.Second)
		order, greedy := w.deletion(), w.greedy(v1.LabelTopologyZone)
		for n := range len(order) + 1 {
			best := w.best(v1.LabelTopologyZone, n)
			if greedy[n] != best {
				t.Fatalf("%d pods left: the best skew is %d, the greedy oracle says %d", n, best, greedy[n])
			}
			if skew, allowed := w.skew(v1.LabelTopologyZone, order[len(order)-n:]), max(best, int(w.rule[0].MaxSkew)); skew > allowed {
				t.Fatalf("%d pods left with skew %d, %d was possible", n, skew, allowed)
			}
		}
	})
}

// The same with larger sets, also scaled down one by one and in jumps, when the controller sorts anew.
func TestLevelAllTheWayDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t, 60)
		w.converge(t)
		greedy := w.greedy(v1.LabelTopologyZone)
		at := func(pods []*v1.Pod) {
			if skew, allowed := w.skew(v1.LabelTopologyZone, pods), max(greedy[len(pods)], int(w.rule[0].MaxSkew)); skew > allowed {
				t.Fatalf("%d pods left with skew %d, %d was possible", len(pods), skew, allowed)
			}
		}
		order := w.deletion()
		for n := range order {
			at(order[n:])
		}
		for len(w.pods) > 0 {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "later")) * time.Second)
			w.down(rapid.IntRange(1, min(7, len(w.pods))).Draw(t, "down"))
			at(w.pods)
			if writes := w.converge(t); writes > 0 {
				t.Fatalf("%d writes after a scale-down", writes)
			}
		}
	})
}

// Why the controller's own order among equal costs is not relied on: of 1,000 pods that started
// within ten minutes, nearly half could do without a cost by the order of the moment. But the same
// pods are far from level whenever their age doubles.
func TestTheOwnOrderDoesNotLast(t *testing.T) {
	w := newFakeReplicaSet(zoneRule(1))
	for i := range 1000 {
		w.node(string(rune('a' + i%3)))
	}
	r := rand.New(rand.NewPCG(1, 4))
	for _, n := range w.nodes {
		w.add(n, time.Duration(r.Int64N(int64(10*time.Minute))), strconv.Itoa(r.IntN(1<<30)))
	}
	began := w.now
	w.now = began.Add(24 * time.Hour)
	order := w.deletion()
	var kept, block []*v1.Pod // blocks of one pod per zone, from the last one
	for _, p := range slices.Backward(order) {
		block = append(block, p)
		if w.skew(v1.LabelTopologyZone, block) > 1 {
			block = block[:len(block)-1]
		} else if len(block) == 3 {
			kept, block = append(kept, block...), nil
		}
	}
	if len(kept) < 500 || len(kept) > 600 {
		t.Errorf("%d of 1,000 pods need no cost by the order of the moment", len(kept))
	}
	w.pods = kept
	worst := func() (skew int) {
		left := map[string]int{"a": len(kept) / 3, "b": len(kept) / 3, "c": len(kept) / 3}
		for _, p := range w.deletion() {
			i, _ := strconv.Atoi(p.Spec.NodeName[len("node-"):])
			left[string(rune('a'+i%3))]--
			skew = max(skew, max(left["a"], left["b"], left["c"])-min(left["a"], left["b"], left["c"]))
		}
		return skew
	}
	if skew := worst(); skew > 1 {
		t.Errorf("skew %d at first", skew)
	}
	later := 0
	for i := range 20 { // while the age of some of them is above 2^47 ns, 39 hours, and that of others is not
		w.now = began.Add(1<<47 - time.Duration(i)*30*time.Second)
		later = max(later, worst())
	}
	if t.Logf("of 1,000 pods %d need no cost by the order of the moment; later their skew is %d", len(kept), later); later < 5 {
		t.Errorf("later the skew is only %d", later)
	}
}
