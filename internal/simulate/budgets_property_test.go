package simulate

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"
)

// TestBudgetStatus: what the controller of budgets counts, for four replicas of which three are ready.
func TestBudgetStatus(t *testing.T) {
	number, percent := intstr.FromInt32, intstr.FromString
	for name, c := range map[string]struct {
		least, most              *intstr.IntOrString
		change                   func([]*pod)
		desired, healthy, allows int
	}{
		"a minimum":                  {least: new(number(2)), desired: 2, healthy: 3, allows: 1},
		"a minimum above all":        {least: new(number(9)), desired: 9, healthy: 3},
		"a percentage is rounded up": {least: new(percent("60%")), desired: 3, healthy: 3},
		"a maximum":                  {most: new(number(2)), desired: 2, healthy: 3, allows: 1},
		"a maximum of none":          {most: new(number(0)), desired: 4, healthy: 3},
		"a percentage of it as well": {most: new(percent("30%")), desired: 2, healthy: 3, allows: 1},
		"a maximum above all":        {most: new(number(9)), healthy: 3, allows: 3},
		"no bound":                   {healthy: 3, allows: 3},
		"pods without a controller": {most: new(number(1)), change: func(all []*pod) { all[0].object.OwnerReferences = nil }, desired: 2,
			healthy: 3, allows: 1},
		"none has a controller":       {most: new(number(1)), change: unowned, healthy: 3},
		"none has, but for a minimum": {least: new(number(1)), change: unowned, desired: 1, healthy: 3, allows: 2},
		"one that is being deleted": {most: new(number(1)), change: func(all []*pod) { all[0].object.DeletionTimestamp = new(metav1.Now()) },
			desired: 2, healthy: 2},
		"one on a node that is down":    {most: new(number(2)), change: func(all []*pod) { all[0].node.downSince = epoch }, desired: 2},
		"one that has no node any more": {most: new(number(2)), change: func(all []*pod) { all[0].node = nil }, desired: 2, healthy: 2},
	} {
		b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "b"}}
		b.Spec = policyv1.PodDisruptionBudgetSpec{MinAvailable: c.least, MaxUnavailable: c.most, Selector: &metav1.LabelSelector{}}
		cluster := budgeted(4, b)
		cluster.pods[3].object.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}}
		if c.change != nil {
			c.change(cluster.pods)
		}
		cluster.countBudgets()
		if got := cluster.budgets[0]; got.desired != c.desired || got.healthy != c.healthy || got.allowed() != c.allows {
			t.Errorf("%s: desired %d, healthy %d, allows %d; want %d, %d, %d", name, got.desired, got.healthy, got.allowed(), c.desired, c.healthy,
				c.allows)
		}
	}
}

func unowned(all []*pod) {
	for _, p := range all {
		p.object.OwnerReferences = nil
	}
}

// budgeted is a cluster with pods on one node.
func budgeted(pods int, budgets ...*policyv1.PodDisruptionBudget) *cluster {
	clock := newClock()
	c := newCluster(newHistory(clock, nil))
	c.budgets = newBudgets(budgets)
	c.nodes = []*node{{object: &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, ready: true}}
	for i := range pods {
		isController := true
		c.add(&pod{node: c.nodes[0], object: &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: fmt.Sprint("p", i), Labels: map[string]string{"number": fmt.Sprint(i)},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web", Controller: &isController}},
		}}})
	}
	return c
}

// TestEvictionsKeepBudgets: no eviction takes a ready pod that its budget needs, what is left is held back
// by a budget, and pods that are not ready go as their policy says.
func TestEvictionsKeepBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var budgets []*policyv1.PodDisruptionBudget
		for i := range rapid.IntRange(0, 2).Draw(t, "budgets") {
			b := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("b", i)}}
			b.Spec.MinAvailable = new(intstr.FromInt32(rapid.Int32Range(0, 4).Draw(t, "minimum")))
			b.Spec.Selector = &metav1.LabelSelector{}
			if number := rapid.IntRange(-1, 3).Draw(t, "of"); number >= 0 {
				b.Spec.Selector.MatchLabels = map[string]string{"number": fmt.Sprint(number)}
			}
			b.Spec.UnhealthyPodEvictionPolicy = rapid.SampledFrom([]*policyv1.UnhealthyPodEvictionPolicyType{nil, new(policyv1.IfHealthyBudget),
				new(policyv1.AlwaysAllow)}).Draw(t, "policy")
			budgets = append(budgets, b)
		}
		c := budgeted(4, budgets...)
		for _, p := range c.pods {
			if rapid.IntRange(0, 2).Draw(t, "not ready") == 0 {
				p.object.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionFalse}}
			}
		}
		c.countBudgets()
		before := map[*budget]int{}
		for _, b := range c.budgets {
			before[b] = b.healthy
		}
		evicted, held := c.evict(c.nodes[0])
		left := c.nodes[0].pods
		if evicted+len(left) != 4 || (held == "") != (len(left) == 0) {
			t.Fatalf("%d of 4 pods evicted, %d left: %q", evicted, len(left), held)
		}
		c.countBudgets()
		for _, b := range c.budgets {
			if b.healthy < before[b] && b.healthy < b.desired {
				t.Fatalf("%s has %d ready pods, had %d and needs %d", b.Name, b.healthy, before[b], b.desired)
			}
		}
		for _, p := range left {
			if p.notEvictable() == "" {
				t.Fatalf("%s could go", p.object.Name)
			}
		}
	})
}

// TestScaleDownRespectsBudgets: whatever happens, evictions by scale-down do not take ready pods that a
// budget needs.
func TestScaleDownRespectsBudgets(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		setup := randomSetup(t)
		setup.Cloud.Outages = nil // they ask nobody
		for i := range setup.Workloads {
			setup.Workloads[i].Pod.Spec.Priority = nil // so nor does preemption
		}
		type status struct{ pods, arrived, healthy int }
		before := map[*budget]status{}
		play(t, setup, func(s *simulation) {
			s.cluster.countBudgets()
			for _, b := range s.cluster.budgets {
				is, was := status{b.pods, len(s.history.pods), b.healthy}, before[b]
				scaled := is.pods != was.pods || is.arrived != was.arrived // one workload may have lost as many as another got
				if !scaled && is.healthy < was.healthy && b.healthy < b.desired {
					t.Fatalf("+%s: %s has %d ready pods, had %d and needs %d", s.elapsed(), b.Name, b.healthy, was.healthy, b.desired)
				}
				before[b] = is
			}
		})
	})
}
