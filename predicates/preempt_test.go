package predicates

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/feature"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"
	"k8s.io/utils/ptr"
)

// ranked is a pod of a priority that wants so much cpu and started so many minutes after the first.
func ranked(name string, priority int32, cpu string, minute int) *v1.Pod {
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": name[:1]},
			CreationTimestamp: metav1.Date(2026, 3, 1, 0, minute, 0, 0, time.UTC)},
		Spec: v1.PodSpec{Priority: &priority, Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{
			Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpu)},
		}}}},
	}
}

func budgetOver(app string, allowed int32) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: app},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}},
		Status:     policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: allowed},
	}
}

// TestPreemption: a pod that wants 2 of 4 cores finds room by these rules, in this order.
func TestPreemption(t *testing.T) {
	for name, c := range map[string]struct {
		nodes   [][]*v1.Pod
		closed  int // node, from 1
		budgets []*policyv1.PodDisruptionBudget
		never   bool
		profile string
		want    string // node, from 1, and victims
	}{
		"the least that makes room": {nodes: [][]*v1.Pod{{ranked("a1", 5, "1", 0), ranked("b1", 1, "1", 0), ranked("b2", 2, "2", 0)}},
			want: "1: b2"},
		"the more important is spared": {nodes: [][]*v1.Pod{{ranked("a1", 5, "1", 0), ranked("b1", 1, "2", 0), ranked("b2", 2, "1", 0)}},
			want: "1: b1"},
		"the older is spared":       {nodes: [][]*v1.Pod{{ranked("b1", 1, "2", 3), ranked("b2", 1, "2", 0)}}, want: "1: b1"},
		"none is of lower priority": {nodes: [][]*v1.Pod{{ranked("a1", 10, "4", 0)}}},
		"too few are":               {nodes: [][]*v1.Pod{{ranked("a1", 10, "3", 0), ranked("b1", 0, "1", 0)}}},
		"it never preempts":         {nodes: [][]*v1.Pod{{ranked("b1", 0, "4", 0)}}, never: true},
		"the node takes no pods":    {nodes: [][]*v1.Pod{{ranked("b1", 0, "4", 0)}}, closed: 1},
		"a profile without preemption": {nodes: [][]*v1.Pod{{ranked("b1", 0, "4", 0)}},
			profile: "{postFilter: {disabled: [{name: DefaultPreemption}]}, multiPoint: {disabled: [{name: DefaultPreemption}]}}"},

		"fewest violations of budgets": {
			nodes:   [][]*v1.Pod{{ranked("a1", 0, "4", 0)}, {ranked("b1", 5, "4", 0)}},
			budgets: []*policyv1.PodDisruptionBudget{budgetOver("a", 0), budgetOver("b", 1)}, want: "2: b1",
		},
		"budgets are violated where nothing else helps": {
			nodes: [][]*v1.Pod{{ranked("a1", 0, "4", 0)}}, budgets: []*policyv1.PodDisruptionBudget{budgetOver("a", 0)}, want: "1: a1, violating 1",
		},
		"a pod that a budget protects is spared": {
			nodes: [][]*v1.Pod{{ranked("a1", 0, "2", 0), ranked("b1", 5, "2", 0)}}, budgets: []*policyv1.PodDisruptionBudget{budgetOver("a", 0)},
			want: "1: b1",
		},
		"lowest of the highest priorities": {nodes: [][]*v1.Pod{{ranked("a1", 3, "4", 0)}, {ranked("b1", 2, "2", 0), ranked("b2", 2, "2", 0)}},
			want: "2: b2"},
		"smallest sum of priorities": {nodes: [][]*v1.Pod{{ranked("a1", 3, "3", 0), ranked("a2", 3, "1", 0)},
			{ranked("b1", 3, "1", 0), ranked("b2", 2, "3", 0)}}, want: "2: b2"},
		"fewest victims": {nodes: [][]*v1.Pod{{ranked("a1", 1, "1500m", 1), ranked("a2", 1, "1500m", 0), ranked("a3", 1, "1", 2)},
			{ranked("b1", 1, "4", 0)}}, want: "2: b1"},
		"latest start": {nodes: [][]*v1.Pod{{ranked("a1", 1, "4", 1)}, {ranked("b1", 1, "4", 2)}, {ranked("c1", 1, "4", 0)}}, want: "2: b1"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{}
			if c.profile != "" {
				o.Configuration = []byte("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles: [{plugins: " +
					c.profile + "}]\n")
			}
			checker, err := New(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			var nodes []Node
			for i, pods := range c.nodes {
				n := fourCores(fmt.Sprint("n", i+1))
				nodes = append(nodes, Node{Node: n, Pods: pods})
			}
			pod := ranked("x", 10, "2", 9)
			if c.never {
				pod.Spec.PreemptionPolicy = ptr.To(v1.PreemptNever)
			}
			found, err := checker.Preemptor().Find(nodes, func(i int) bool { return i+1 != c.closed }, pod, c.budgets)
			if err != nil {
				t.Fatal(err)
			}
			if got := found.text(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	checker, err := New(t.Context(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := checker.Preemptor().Find([]Node{{}}, nil, ranked("x", 1, "1", 0), nil); !errors.Is(err, ErrNilObject) {
		t.Errorf("a nil node: %v", err)
	}
}

func fourCores(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: v1.NodeStatus{
		Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"),
			v1.ResourcePods: resource.MustParse("110")},
	}}
}

func (a *Preemption) text() string {
	if a == nil {
		return ""
	}
	var names []string
	for _, victim := range a.Victims {
		names = append(names, victim.Name)
	}
	text := fmt.Sprintf("%d: %s", a.Node+1, strings.Join(names, " "))
	if a.Violations > 0 {
		text += fmt.Sprintf(", violating %d", a.Violations)
	}
	return text
}

// TestPreemptionIsThatOfTheScheduler compares with the plugin's own evaluator, which chooses at random
// among the best.
func TestPreemptionIsThatOfTheScheduler(t *testing.T) {
	checker, err := New(t.Context(), Options{Objects: owners()})
	if err != nil {
		t.Fatal(err)
	}
	o := newNaive(t, owners()...)
	plugin, err := defaultpreemption.New(t.Context(), &config.DefaultPreemptionArgs{MinCandidateNodesPercentage: 10,
		MinCandidateNodesAbsolute: 100}, o.fw, feature.Features{})
	if err != nil {
		t.Fatal(err)
	}
	preemptor, found := checker.Preemptor(), 0
	for seed := range uint64(600) {
		d := newDice(seed)
		w := d.population()
		minutes := d.Perm(1000)
		for i := range w {
			for range d.IntN(4) {
				w[i].Pods = append(w[i].Pods, d.scheduled())
			}
			for _, p := range w[i].Pods {
				p.Spec.NodeName, p.Spec.Priority = w[i].Node.Name, ptr.To(int32(d.IntN(4)-1))
				p.Status.StartTime = &metav1.Time{Time: time.Date(2026, 3, 1, 0, minutes[0], 0, 0, time.UTC)}
				minutes = minutes[1:]
			}
		}
		budgets := []*policyv1.PodDisruptionBudget{budgetOver("web", int32(d.IntN(2))), budgetOver("db", int32(d.IntN(2)))}
		pod := d.scheduled()
		pod.Name, pod.Spec.Priority = fmt.Sprint("preemptor-", seed), ptr.To(int32(d.IntN(4)))
		closed := d.IntN(2 * len(w))
		want, fits := o.preempted(t, plugin, w, closed, pod, budgets)
		if fits {
			continue // it is not asked then
		}
		got, err := preemptor.Find(w, func(i int) bool { return i != closed }, pod, budgets)
		if err != nil {
			t.Fatal(err)
		}
		if (got == nil) != (len(want) == 0) {
			t.Fatalf("seed %d: got %s, the scheduler has %d candidates", seed, got.text(), len(want))
		}
		if got == nil {
			continue
		}
		found++
		asOurs := func(c preemption.Candidate) *Preemption {
			at := slices.IndexFunc(w, func(n Node) bool { return n.Node.Name == c.Name() })
			return &Preemption{Node: at, Victims: c.Victims().Pods, Violations: int(c.Victims().NumPDBViolations)}
		}
		if !slices.ContainsFunc(want, func(c preemption.Candidate) bool { return asOurs(c).text() == got.text() }) {
			t.Fatalf("seed %d: %s is not a candidate of the scheduler", seed, got.text())
		}
		if best := asOurs(plugin.Evaluator.SelectCandidate(o.ctx, want)); best.compare(got) != 0 {
			t.Fatalf("seed %d: got %s, the scheduler %s", seed, got.text(), best.text())
		}
	}
	if found < 100 {
		t.Errorf("only %d pods preempt", found)
	}
}

// preempted are the candidates of the scheduler, or that the pod fits on a node as it is.
func (o *naive) preempted(t *testing.T, plugin *defaultpreemption.DefaultPreemption, w naiveCluster, closed int, pod *v1.Pod,
	budgets []*policyv1.PodDisruptionBudget) (candidates []preemption.Candidate, fits bool) {
	t.Helper()
	snap := o.show(w)
	state := framework.NewCycleState()
	only, status, _ := o.fw.RunPreFilterPlugins(o.ctx, state, pod)
	if !status.IsSuccess() {
		return nil, false
	}
	var nodes []fwk.NodeInfo
	for i, n := range w {
		info, err := snap.Get(n.Node.Name)
		if err != nil {
			t.Fatal(err)
		}
		if i != closed && o.fw.RunFilterPlugins(o.ctx, state, pod, info).IsSuccess() {
			return nil, true
		}
		if i != closed && (only.AllNodes() || only.NodeNames.Has(n.Node.Name)) {
			nodes = append(nodes, info)
		}
	}
	if len(nodes) == 0 {
		return nil, false
	}
	candidates, _, err := plugin.Evaluator.DryRunPreemption(o.ctx, state, pod, nodes, budgets, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	return candidates, false
}
