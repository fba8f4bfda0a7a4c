package deletioncost

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// zones makes a world with a node per zone and so many pods on it.
func zonesOf(rule v1.TopologySpreadConstraint, pods ...int) *fakeReplicaSet {
	w := newFakeReplicaSet(rule)
	for i, n := range pods {
		on := w.node(string(rune('a' + i)))
		for range n {
			w.add(on, time.Hour, strconv.Itoa(w.made))
		}
	}
	return w
}

// decide decides without writing.
func (w *fakeReplicaSet) decide(t *testing.T) Decision {
	t.Helper()
	d, err := Decide(w.input())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// costs are the costs of the pods of each zone, in order of the zones and from the pod that stays the longest.
func (w *fakeReplicaSet) costs() string {
	byNode := map[string][]int{}
	for _, p := range w.pods {
		n, _ := strconv.Atoi(p.Annotations[v1.PodDeletionCost])
		byNode[p.Spec.NodeName] = append(byNode[p.Spec.NodeName], n)
	}
	out := ""
	for _, n := range w.nodes {
		slices.Sort(byNode[n.Name])
		slices.Reverse(byNode[n.Name])
		out += fmt.Sprint(byNode[n.Name])
	}
	return out
}

func TestCostsFollowLevels(t *testing.T) {
	for _, tt := range []struct {
		name    string
		skew    int32
		pods    []int
		costs   string
		message string
	}{
		{"one pod per zone", 1, []int{1, 1, 1}, "[0][0][0]", "scaling down keeps the skew over topology.kubernetes.io/zone at 1 or less"},
		{"two pods per zone", 1, []int{2, 2, 2}, "[0 -1][0 -1][0 -1]",
			"scaling down could have led to a skew of 2 over topology.kubernetes.io/zone: 3 deletion costs keep it at 1 or less"},
		{"a remainder", 1, []int{3, 3, 2}, "[0 -1 -2][0 -1 -2][0 -1]",
			"scaling down could have led to a skew of 3 over topology.kubernetes.io/zone: 5 deletion costs keep it at 1 or less"},
		{"within maxSkew", 3, []int{3, 3, 3}, "[0 0 0][0 0 0][0 0 0]",
			"scaling down keeps the skew over topology.kubernetes.io/zone at 3 or less"},
		{"above maxSkew", 3, []int{4, 4, 4}, "[0 0 0 -1][0 0 0 -1][0 0 0 -1]",
			"scaling down could have led to a skew of 4 over topology.kubernetes.io/zone: 3 deletion costs keep it at 3 or less"},
		{"one zone", 1, []int{5}, "[0 0 0 0 0]", "scaling down keeps the skew over topology.kubernetes.io/zone at 0 or less"},
		{"not level", 1, []int{4, 1}, "[0 -1 -2 -3][0]",
			"scaling down could have led to a skew of 4 over topology.kubernetes.io/zone: 3 deletion costs keep it at 2 or less"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := zonesOf(zoneRule(tt.skew), tt.pods...)
			if got := w.decide(t); got.Message() != tt.message {
				t.Errorf("got %q, want %q", got.Message(), tt.message)
			}
			w.converge(t)
			if got := w.costs(); got != tt.costs {
				t.Errorf("got costs %s, want %s", got, tt.costs)
			}
		})
	}
}

// A set that is level needs a write for each pod but the lowest of each domain: nothing is relied on
// but costs, and one cost needs no write.
func TestWritesOfANewSet(t *testing.T) {
	for _, tt := range []struct{ pods, skew, writes int }{
		{3, 1, 0}, {6, 1, 3}, {9, 1, 6}, {30, 1, 27}, {30, 2, 24}, {30, 5, 15}, {30, 10, 0}, {1000, 1, 997}, {1000, 5, 985},
	} {
		w := zonesOf(zoneRule(int32(tt.skew)), (tt.pods+2)/3, (tt.pods+1)/3, tt.pods/3)
		if got := w.converge(t); got != tt.writes {
			t.Errorf("%d pods with maxSkew %d: %d writes, want %d", tt.pods, tt.skew, got, tt.writes)
		}
	}
}

// A pod that comes or goes costs one write at most, at once or later.
func TestComingAndGoing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t, 40)
		allowed, writes := len(w.pods), w.converge(t)
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "churn"), 2))
		for range 60 {
			w.now = w.now.Add(time.Minute)
			if len(w.pods) == 0 || r.IntN(2) == 0 {
				w.add(w.nodes[r.IntN(len(w.nodes))], 0, strconv.Itoa(r.IntN(1<<30)))
			} else {
				i := r.IntN(len(w.pods))
				w.pods = slices.Delete(w.pods, i, i+1)
			}
			allowed++
			if writes += w.converge(t); writes > allowed {
				t.Fatalf("%d writes for %d pods that came or went", writes, allowed)
			}
		}
	})
}

// A pod that is replaced in its zone leaves the costs of the others as they are.
func TestAReplacementTakesTheLevel(t *testing.T) {
	w := zonesOf(zoneRule(1), 10, 10, 10)
	w.converge(t)
	want := w.costs()
	gone := w.pods[4]
	w.pods = slices.Delete(slices.Clone(w.pods), 4, 5)
	w.add(w.nodes[0], 0, "new")
	if n := w.converge(t); n > 1 {
		t.Errorf("%d writes", n)
	}
	if got := w.costs(); got != want || w.pods[len(w.pods)-1].Annotations[v1.PodDeletionCost] != gone.Annotations[v1.PodDeletionCost] {
		t.Errorf("got costs %s, want %s", got, want)
	}
}

func TestForeignCostsAreNeverWritten(t *testing.T) {
	for _, tt := range []struct {
		name, cost string
		writes     int
	}{
		{"kept for long", "1000", 5}, {"as nothing", "0", 6}, {"deleted first", "-1000", 5},
		{"with a level", "-1", 5}, {"beyond the levels", "-4", 5}, {"not a number", "many", 6},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := zonesOf(zoneRule(1), 3, 3, 3)
			w.pods[1].Annotations[v1.PodDeletionCost] = tt.cost
			d := w.decide(t)
			for _, write := range d.Writes {
				if write.Pod == w.pods[1] {
					t.Errorf("cost %d written over %s", write.Cost, tt.cost)
				}
			}
			if d.Foreign != 1 {
				t.Errorf("%d foreign costs, want 1", d.Foreign)
			}
			w.converge(t)
			if again := w.converge(t); again > 0 {
				t.Errorf("%d writes again", again)
			}
			order := w.deletion()
			for n := range order {
				if skew := w.skew(v1.LabelTopologyZone, order[n:]); skew > 2 {
					t.Errorf("skew %d with %d pods left", skew, len(order)-n)
				}
			}
			if len(Release(w.pods)) == 0 || slices.ContainsFunc(Release(w.pods), func(r Write) bool { return r.Pod == w.pods[1] }) {
				t.Errorf("released %v", Release(w.pods))
			}
		})
	}
}

// A cost of ours that somebody changes is theirs from then on.
func TestAChangedCostIsForeign(t *testing.T) {
	w := zonesOf(zoneRule(1), 2, 2, 2)
	w.converge(t)
	w.pods[1].Annotations[v1.PodDeletionCost] = "7"
	apply(Release(w.pods))
	if got := w.pods[1].Annotations[v1.PodDeletionCost]; got != "7" {
		t.Errorf("the cost is %q", got)
	}
	if got := w.costs(); got != "[7 0][0 0][0 0]" {
		t.Errorf("got costs %s", got)
	}
}

// Pods that would be deleted first whatever their costs do not count.
func TestOnlyReadyPodsCount(t *testing.T) {
	for name, change := range map[string]func(*v1.Pod){
		"no node":     func(p *v1.Pod) { p.Spec.NodeName = "" },
		"pending":     func(p *v1.Pod) { p.Status.Phase = v1.PodPending },
		"not ready":   func(p *v1.Pod) { p.Status.Conditions[0].Status = v1.ConditionFalse },
		"terminating": func(p *v1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Now()) },
		"failed":      func(p *v1.Pod) { p.Status.Phase = v1.PodFailed },
	} {
		t.Run(name, func(t *testing.T) {
			w := zonesOf(zoneRule(1), 3, 3, 3)
			change(w.pods[1])
			w.converge(t)
			if got := w.pods[1].Annotations; len(got) > 0 {
				t.Errorf("it has %v", got)
			}
			w.pods = slices.Delete(w.pods, 1, 2)
			if got := w.costs(); got != "[0 -1][0 -1 -2][0 -1 -2]" {
				t.Errorf("got costs %s", got)
			}
		})
	}
}

func TestWhatTheConstraintsCount(t *testing.T) {
	t.Run("pods of another workload", func(t *testing.T) {
		w := zonesOf(zoneRule(1), 2, 2, 2)
		w.other = []*v1.Pod{w.pod(w.nodes[0], 0, "x"), w.pod(w.nodes[0], 0, "y")}
		w.converge(t)
		if got := w.costs(); got != "[-2 -3][0 -1][0 -1]" {
			t.Errorf("got costs %s", got)
		}
	})
	t.Run("matchLabelKeys leave them out", func(t *testing.T) {
		rule := zoneRule(1)
		rule.MatchLabelKeys = []string{"pod-template-hash"}
		w := zonesOf(rule, 2, 2, 2)
		other := w.pod(w.nodes[0], 0, "x")
		other.Labels["pod-template-hash"] = "2"
		w.other = []*v1.Pod{other}
		w.converge(t)
		if got := w.costs(); got != "[0 -1][0 -1][0 -1]" {
			t.Errorf("got costs %s", got)
		}
	})
	t.Run("nodes without the key", func(t *testing.T) {
		w := zonesOf(zoneRule(1), 2, 2, 2)
		delete(w.nodes[2].Labels, v1.LabelTopologyZone)
		w.converge(t)
		if got := w.costs(); got != "[0 -1][0 -1][0 0]" {
			t.Errorf("got costs %s", got)
		}
	})
	t.Run("nodes that the affinity or a taint leaves out", func(t *testing.T) {
		rule := zoneRule(1)
		rule.NodeTaintsPolicy = ptr.To(v1.NodeInclusionPolicyHonor)
		w := zonesOf(rule, 2, 2, 2)
		w.nodes[0].Spec.Taints = []v1.Taint{{Key: "k", Effect: v1.TaintEffectNoSchedule}}
		w.nodes[1].Labels["disk"], w.nodes[2].Labels["disk"] = "hdd", "ssd"
		for _, p := range w.pods {
			p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
		}
		if d := w.decide(t); d.Reason != Right {
			t.Errorf("%s: %s", d.Reason, d.Message())
		}
	})
	t.Run("an empty zone, and minDomains", func(t *testing.T) {
		w := zonesOf(zoneRule(2), 3, 3, 0)
		w.converge(t)
		if got := w.costs(); got != "[0 0 -1][0 0 -1][]" {
			t.Errorf("got costs %s", got)
		}
	})
	t.Run("a selector that cannot be parsed", func(t *testing.T) {
		rule := zoneRule(1)
		rule.LabelSelector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Like"}}}
		if _, err := Decide(zonesOf(rule, 2).input()); err == nil {
			t.Error("no error")
		}
	})
}

func TestWithoutConstraints(t *testing.T) {
	w := zonesOf(zoneRule(1), 2, 2, 2)
	w.converge(t)
	for _, p := range w.pods {
		p.Spec.TopologySpreadConstraints = nil
	}
	if d := w.decide(t); d.Reason != Unconstrained || len(d.Writes) != 3 {
		t.Errorf("%s: %d writes", d.Reason, len(d.Writes))
	}
	in := w.input()
	in.Request = Zone
	in.Others = []*v1.Pod{w.pod(w.nodes[0], 0, "x")}
	if d, err := Decide(in); err != nil || d.Reason != Right || d.Skew != 1 {
		t.Errorf("zone: %+v %v", d, err)
	}
}

func TestWorkloadSpreadsAreLeftAlone(t *testing.T) {
	w := zonesOf(zoneRule(1), 2, 2, 2)
	w.pods[3].Annotations["evenkeel.dev/workload-spread"] = `{"name":"web"}`
	if d := w.decide(t); d.Reason != WorkloadSpread || len(d.Writes) > 0 {
		t.Errorf("%+v", d)
	}
}

// Over zones first, and within a zone over nodes: neither gets more uneven than it must.
func TestZonesAndNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newFakeReplicaSet(hostRule(1), zoneRule(1))
		zones, per, pods := rapid.IntRange(1, 3).Draw(t, "zones"), rapid.IntRange(1, 4).Draw(t, "nodes"), rapid.IntRange(1, 40).Draw(t, "pods")
		for i := range zones * per {
			w.node(string(rune('a' + i%zones)))
		}
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
		for i := range pods {
			w.add(w.nodes[i%len(w.nodes)], time.Duration(r.IntN(100_000))*time.Second, strconv.Itoa(r.IntN(1<<30)))
		}
		w.converge(t)
		if again := w.converge(t); again > 0 {
			t.Fatalf("%d writes again", again)
		}
		order := w.deletion()
		for n := range order {
			if skew := w.skew(v1.LabelTopologyZone, order[n:]); skew > 1 {
				t.Fatalf("skew %d over zones with %d pods left", skew, len(order)-n)
			}
			if skew := w.skew(v1.LabelHostname, order[n:]); skew > 1 {
				t.Fatalf("skew %d over nodes with %d pods left", skew, len(order)-n)
			}
		}
	})
}

// A hard constraint over nodes comes before a soft one over zones, which decides where there is one pod per node.
func TestNodesFirst(t *testing.T) {
	host, soft := hostRule(1), zoneRule(1)
	host.WhenUnsatisfiable, soft.WhenUnsatisfiable = v1.DoNotSchedule, v1.ScheduleAnyway
	w := newFakeReplicaSet(host, soft)
	for i := range 12 {
		w.add(w.node(string(rune('a'+i%3))), time.Duration(i)*time.Hour, strconv.Itoa(i*7919%13))
	}
	if n := w.converge(t); n != 9 {
		t.Errorf("%d writes", n)
	}
	order := w.deletion()
	for n := range order {
		if skew := w.skew(v1.LabelTopologyZone, order[n:]); skew > 1 {
			t.Errorf("skew %d over zones with %d pods left", skew, len(order)-n)
		}
	}
}

// Same input, same answer, in whatever order the pods come; and nothing in it is changed.
func TestSameAnswer(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t, 30)
		in, copies := w.input(), []*v1.Pod{}
		for _, p := range w.pods {
			copies = append(copies, p.DeepCopy())
		}
		a, _ := Decide(in)
		if !reflect.DeepEqual(copies, w.pods) {
			t.Fatalf("the pods changed")
		}
		in.Pods = slices.Clone(in.Pods)
		slices.Reverse(in.Pods)
		if b, _ := Decide(in); !reflect.DeepEqual(a, b) {
			t.Fatalf("%v in one order, %v in the other", a, b)
		}
	})
}

// Of the pods of a zone, those on a cordoned node get the levels that go first, if they need a write anyway.
func TestCordonedNodesFirst(t *testing.T) {
	w := newFakeReplicaSet(zoneRule(1))
	cordoned, other, b := w.node("a"), w.node("a"), w.node("b")
	cordoned.Spec.Unschedulable = true
	doomed := w.add(cordoned, 3*time.Hour, "1")
	for _, n := range []*v1.Node{other, other, b, b, b} {
		w.add(n, time.Hour, strconv.Itoa(w.made))
	}
	w.pods[1].CreationTimestamp = metav1.NewTime(w.now.Add(-9 * time.Hour))
	w.converge(t)
	if got := doomed.Annotations[v1.PodDeletionCost]; got != "-2" {
		t.Errorf("the pod on the cordoned node has cost %q", got)
	}
}

func TestResolve(t *testing.T) {
	asks := func(value string) map[string]string { return map[string]string{Annotation: value} }
	for _, tt := range []struct {
		workload, namespace map[string]string
		cluster, want       Request
		err                 string
	}{
		{nil, nil, "", None, ""},
		{nil, nil, Spread, Spread, ""},
		{nil, asks("zone"), Spread, Zone, ""},
		{asks("none"), asks("zone"), Spread, None, ""},
		{asks("spread"), nil, None, Spread, ""},
		{asks("Spread"), asks("zone"), Spread, None,
			`annotation evenkeel.dev/deletion-cost of the workload: "Spread" is not one of spread, zone and none`},
		{nil, asks(""), Spread, None, `annotation evenkeel.dev/deletion-cost of its namespace: "" is not one of spread, zone and none`},
	} {
		got, err := Resolve(tt.workload, tt.namespace, tt.cluster)
		if got != tt.want || (err == nil) != (tt.err == "") || err != nil && err.Error() != tt.err {
			t.Errorf("%v, %v, %q: got %s, %v; want %s, %q", tt.workload, tt.namespace, tt.cluster, got, err, tt.want, tt.err)
		}
	}
}
