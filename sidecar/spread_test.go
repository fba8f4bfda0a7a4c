package sidecar_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/zonalshift"
)

// spreadOver gives pods hard spread constraints of their own, by topology key.
func spreadOver(pods []*v1.Pod, app string, skew int32, change func(*v1.TopologySpreadConstraint), keys ...string) []*v1.Pod {
	for _, pod := range pods {
		pod.Labels = map[string]string{"app": app}
		controller := true
		pod.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: app, UID: "rs-" + pod.UID[:1], Controller: &controller}}
		for _, key := range keys {
			c := v1.TopologySpreadConstraint{
				MaxSkew: skew, TopologyKey: key, WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{MatchLabels: pod.Labels},
			}
			if change != nil {
				change(&c)
			}
			pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
		}
	}
	return pods
}

func atLeast(domains int32) func(*v1.TopologySpreadConstraint) {
	return func(c *v1.TopologySpreadConstraint) { c.MinDomains = &domains }
}

const zone = v1.LabelTopologyZone

// spreadPods are pods with a zone spread of maxSkew 1, two per node.
func spreadPods(prefix string, n int) []*v1.Pod {
	return spreadOver(podsOf(prefix, n, 2), prefix, 1, nil, zone)
}

// noLaterThanAlone plays a world with the sidecar and with Cluster Autoscaler alone, both with its own
// balancing and without. Pods run as soon as with either, but for one loop per member.
func noLaterThanAlone(t *testing.T, s setup, until time.Duration) *outcome {
	t.Helper()
	with := newHarness(t, s).observe(until)
	grace := time.Duration(len(s.cloud.Groups)) * aLoop
	for _, balance := range []bool{true, false} {
		alone := s.alone(t)
		if !balance {
			alone = s.unbalanced(t)
		}
		o := alone.observe(until)
		t.Logf("alone, balancing %t: %s", balance, o)
		if o.running > 0 && (with.running == 0 || with.running > o.running+grace) {
			t.Errorf("later than Cluster Autoscaler alone (balancing %t): %s\nwith the sidecar: %s\n%s", balance, o, with, with.w.log())
		}
	}
	t.Logf("with the sidecar: %s", with)
	return with
}

// unbalanced is the same world with a Cluster Autoscaler alone that does not balance.
func (s setup) unbalanced(t testing.TB) *harness {
	t.Helper()
	w := newHarness(t, s)
	w.connect(s, always(autoscaler.Connection{Provider: w.cloud}))
	return w
}

// However pods are spread, they run as soon as with Cluster Autoscaler alone, and the zones end level: its next
// question is for the next zone, and waits for nobody.
func TestSpreadPods(t *testing.T) {
	limited := func(groups []fake.Group, id string, most int) []fake.Group {
		for i := range groups {
			if groups[i].ID == id {
				groups[i].MaxSize = most
			}
		}
		return groups
	}
	tests := map[string]struct {
		groups  []fake.Group
		pods    []*v1.Pod
		sizes   []int
		pending int
		// firstFit: kube-scheduler draws among nodes of one score. Where it draws the zone in common for a
		// pod that may also run in another, one that may not waits for another boot.
		firstFit bool
	}{
		"a full node per zone": {groups: zones(1, 1, 1), pods: spreadPods("p", 30), sizes: []int{6, 6, 6}},
		"empty zones":          {groups: zones(0, 0, 0), pods: spreadPods("p", 30), sizes: []int{5, 5, 5}},
		"maxSkew 2":            {groups: zones(1, 1, 1), pods: spreadOver(podsOf("p", 30, 2), "p", 2, nil, zone), sizes: []int{6, 6, 6}},
		"minDomains 3":         {groups: zones(1, 0, 0), pods: spreadOver(podsOf("p", 30, 2), "p", 1, atLeast(3), zone), sizes: []int{6, 5, 5}},
		"hostname spread":      {groups: zones(1, 1, 1), pods: spreadOver(podsOf("p", 12, 4), "p", 1, nil, v1.LabelHostname)},
		"zone and hostname":    {groups: zones(1, 1, 1), pods: spreadOver(podsOf("p", 12, 4), "p", 1, nil, zone, v1.LabelHostname)},
		"two workloads": {
			groups: zones(1, 1, 1),
			pods:   slices.Concat(spreadPods("p", 18), spreadOver(podsOf("q", 12, 2), "q", 2, nil, zone)),
		},
		"a zone at its maximum": {groups: limited(zones(1, 1, 1), "c", 3), pods: spreadPods("p", 30), sizes: []int{4, 4, 3}, pending: 16},
		"9 free and 1 pinned": {groups: zones(0, 0, 0), pods: slices.Concat(pinned(podsOf("b", 1, 1), "b"), podsOf("f", 9, 1)),
			sizes: []int{3, 3, 4}},
		"a zone in common": {
			groups: zones(0, 0, 0), sizes: []int{2, 2, 2}, firstFit: true,
			pods: slices.Concat(in(podsOf("l", 2, 1), "a", "b"), in(podsOf("r", 4, 1), "b", "c")),
		},
	}
	for name, tt := range tests {
		for i := range 4 {
			salvo, balance := i%2 == 1, i > 1
			t.Run(fmt.Sprintf("%s, --salvo-scale-up=%t, --balance-similar-node-groups=%t", name, salvo, balance), func(t *testing.T) {
				s := setup{cloud: fake.Config{Groups: tt.groups}, batches: []batch{{At: 3 * time.Second, Pods: tt.pods}}}
				s.ca.Salvo, s.ca.Balance, s.firstFit = salvo, balance, tt.firstFit
				o := noLaterThanAlone(t, s, 6*time.Minute)
				// With --salvo-scale-up Cluster Autoscaler alone orders nodes too many, too.
				exact := balance && !salvo && tt.sizes != nil
				if state := o.w.ca.State(); exact && fmt.Sprint(sorted(o.sizes)) != fmt.Sprint(sorted(tt.sizes)) || state.Pending != tt.pending {
					t.Errorf("%s, %d pods pending; want sizes %v, %d pending\n%s", o, state.Pending, tt.sizes, tt.pending, o.w.log())
				}
			})
		}
	}
}

// 300 pods in twelve sets: each set ends level.
func TestSpreadPodsOfTwelveSets(t *testing.T) {
	var s setup
	var pods []*v1.Pod
	for i := range 12 {
		set := string(rune('c' + i))
		for _, g := range zones(0, 0, 0) {
			g.Template.Node.Labels[v1.LabelInstanceTypeStable] = set
			g.Template.Node.Status.Allocatable[v1.ResourceMemory] = *resource.NewQuantity(int64(16+8*i)<<30, resource.BinarySI)
			g.ID = set + "-" + g.ID
			s.cloud.Groups = append(s.cloud.Groups, g)
		}
		for _, pod := range spreadPods(set, 25) {
			pod.Spec.NodeSelector = map[string]string{v1.LabelInstanceTypeStable: set}
			pods = append(pods, pod)
		}
	}
	s.batches = []batch{{At: 3 * time.Second, Pods: pods}}
	for _, salvo := range []bool{false, true} {
		t.Run(fmt.Sprintf("--salvo-scale-up=%t", salvo), func(t *testing.T) {
			s.ca.Salvo, s.ca.Balance = salvo, true
			o := noLaterThanAlone(t, s, 3*time.Minute)
			for i := range 12 {
				if sizes := sorted(o.sizes[3*i : 3*i+3]); !slices.Equal(sizes, []int{4, 4, 5}) {
					t.Errorf("sizes %v of set %d, want 4, 4 and 5", sizes, i)
				}
			}
		})
	}
}

// A zone that is shifted away gets no node for pods with a spread either, and a policy holds for them.
func TestSpreadPodsBesideOtherRules(t *testing.T) {
	s := setup{cloud: fake.Config{Groups: zones(0, 0, 0)}, batches: []batch{{At: 3 * time.Second, Pods: spreadPods("p", 28)}}}
	w := newHarness(t, s)
	w.front.Shift("a file", []zonalshift.Mark{shifted("a", 0, 0)}, nil)
	if o := w.observe(3 * time.Minute); o.running == 0 || !slices.Equal(sorted(o.sizes), []int{0, 7, 7}) || o.sizes[0] > 0 {
		t.Errorf("with a shifted zone %s\n%s", o, w.log())
	}
	s.sidecar = underPolicies(spotAfterBase())
	s.cloud.Groups = bought(0, 0, 0, 0)
	w = newHarness(t, s)
	if o := w.observe(10 * time.Minute); o.running == 0 || total(o.sizes) > 18 {
		t.Errorf("with a policy %s\n%s", o, w.log())
	}
}

// in lets pods run in some zones only.
func in(pods []*v1.Pod, zones ...string) []*v1.Pod {
	for _, pod := range pods {
		pod.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{
			NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{{Key: zone, Operator: v1.NodeSelectorOpIn,
				Values: zones}}}},
		}}}
	}
	return pods
}

// pinned has pods run in one zone only.
func pinned(pods []*v1.Pod, in string) []*v1.Pod {
	for _, pod := range pods {
		pod.Spec.NodeSelector = map[string]string{zone: in}
	}
	return pods
}
