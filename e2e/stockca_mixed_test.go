package e2e

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/e2e/autoscaler"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// Fleets as they are: pods of several kinds, sets and troubles at a time. Pods run as soon as with the
// autoscaler alone.
func TestStockAutoscalerIsNotFasterAloneOnMixedFleets(t *testing.T) {
	autoscaler.Binary(t)
	for _, c := range slices.Concat(whileOthersBoot(), kindsTogether(), boundsAndFailures()) {
		t.Run(c.name, c.neverLater) // one at a time, so that both sides find the machine in the same state
	}
}

// onePerNode is an anti-affinity that lets no two of the pods share a node.
func onePerNode(pod *v1.PodTemplateSpec) {
	pod.Spec.Affinity = &v1.Affinity{PodAntiAffinity: &v1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{{
		TopologyKey: v1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: maps.Clone(pod.Labels)},
	}}}}
}

// whileOthersBoot are pods that lose three of their nodes before they run there, while those of another set are on
// their way.
func whileOthersBoot() []comparison {
	fleet := func(name string) comparison {
		return comparison{
			trial: trial{
				name: name, boot: 20 * time.Second, groups: slices.Concat(zones("l", 20, 0, 0, 0), zones("x", 20, 0, 0, 0)),
				demands: []demand{{machine: "l", pods: 6, perNode: 1, pod: onePerNode}, {machine: "x", pods: 6, perNode: 1}},
				// Time to take nodes away that are not ready yet.
				ready: map[string]time.Duration{"l": 5 * time.Second},
			},
			acts: func(ctx context.Context, t *testing.T, w *trialRun) []time.Duration {
				t.Helper()
				w.demand(ctx, t)
				w.lose(ctx, t, "l", 3)
				d := w.workloads["l"]
				return []time.Duration{w.within(ctx, t, w.began, func(ctx context.Context) error {
					return w.plane.Until(ctx, d, func() bool { return d.Status.ReadyReplicas == *d.Spec.Replicas })
				})}
			},
		}
	}
	dead, slow := fleet("nodes are lost while others never come"), fleet("nodes are lost while others take 2 min")
	dead.dead = []string{"x-a", "x-b", "x-c"}
	slow.boots = map[string]time.Duration{"x": 2 * time.Minute}
	return []comparison{dead, slow}
}

// lose makes the first nodes of a machine unschedulable before they are ready.
func (w *trialRun) lose(ctx context.Context, t *testing.T, machine string, nodes int) {
	t.Helper()
	lost := map[string]bool{}
	waitForNodes(ctx, t, w.plane, func(all nodeSet) bool {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			n := all[name]
			if n.Labels[v1.LabelInstanceTypeStable] != machine || lost[name] || len(lost) == nodes {
				continue
			}
			if err := w.plane.Client.Patch(ctx, n.DeepCopy(),
				client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"unschedulable":true}}`))); err != nil {
				t.Fatal(err)
			}
			lost[name] = true
		}
		return len(lost) == nodes
	})
}

// kindsTogether are pods of any zone, of one, and spread over all, that come at once.
func kindsTogether() []comparison {
	fleet := func(name string, boot time.Duration, free, pinned, spread int32) comparison {
		return comparison{
			trial: trial{name: name, boot: boot, groups: zones("m", 40, 1, 1, 1), demands: []demand{{machine: "m", pods: int(free), perNode: 1}}},
			acts: func(ctx context.Context, t *testing.T, w *trialRun) []time.Duration {
				t.Helper()
				w.pin(ctx, t, pinned, "zone-b")
				w.add(ctx, t, "spread", spread, func(pod *v1.PodTemplateSpec) { spreadOverZones(pod, v1.DoNotSchedule) })
				w.demand(ctx, t)
				return []time.Duration{w.within(ctx, t, w.began, w.run)}
			},
		}
	}
	return []comparison{
		fleet("12 free 6 pinned 18 spread with boots of 20 s", 20*time.Second, 12, 6, 18),
		fleet("12 free 6 pinned 18 spread with boots of 60 s", time.Minute, 12, 6, 18),
		fleet("8 pinned 18 spread with boots of 20 s", 20*time.Second, 0, 8, 18),
		fleet("8 pinned 18 spread with boots of 60 s", time.Minute, 0, 8, 18),
	}
}

// boundsAndFailures are all zones that turn unready for a while, long after their nodes have joined, a daemon set
// of one zone, and a bound that the autoscaler alone knows.
func boundsAndFailures() []comparison {
	fleet := func(name string, pods int) trial {
		return trial{name: name, boot: 20 * time.Second, groups: zones("m", 20, 0, 0, 0),
			demands: []demand{{machine: "m", pods: pods, perNode: 1}}}
	}
	unready := fleet("all zones turn unready for 50 s", 9)
	unready.provision = 90 * time.Second
	heavy := fleet("18 pods and a daemon set of zone b", 18)
	heavy.demands[0].perNode = 2
	heavy.prepare = func(ctx context.Context, t *testing.T, w *trialRun) {
		t.Helper()
		if err := w.plane.Client.Create(ctx, daemonSet("agent", resource.MustParse("1"),
			map[string]string{v1.LabelTopologyZone: "zone-b"})); err != nil {
			t.Fatal(err)
		}
	}
	bounded := fleet("12 spread pods and at most 10 more nodes", 12)
	bounded.groups, bounded.demands[0].spread = zones("m", 20, 1, 1, 1), []v1.TopologySpreadConstraint{over(v1.LabelTopologyZone, 1)}
	bounded.stuck, bounded.flags = 2, []string{"--max-nodes-total=13"}
	return []comparison{
		{trial: unready, acts: duringSilence},
		{trial: heavy, check: atMost(9)}, // none in zone b
		{trial: bounded, check: atMost(10)},
	}
}

// duringSilence are pods that come while no kubelet has been heard for a while, longer after the last order than nodes
// may take to become ready, and more when these run. The cloud itself is well.
func duringSilence(ctx context.Context, t *testing.T, w *trialRun) []time.Duration {
	t.Helper()
	w.demand(ctx, t)
	took := []time.Duration{w.within(ctx, t, w.began, w.run)}
	if err := waitUntil(ctx, w.began.Add(w.provision)); err != nil {
		t.Fatal(err)
	}
	if err := w.plane.Process(controlplane.Kwok).Pause(); err != nil {
		t.Fatal(err)
	}
	waitForNodes(ctx, t, w.plane, func(all nodeSet) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(all)), func(n *v1.Node) bool {
			return slices.ContainsFunc(n.Status.Conditions, func(c v1.NodeCondition) bool {
				return c.Type == v1.NodeReady &&
					c.Status == v1.ConditionTrue
			})
		})
	})
	unready := time.Now()
	if err := waitUntil(ctx, unready.Add(25*time.Second)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	during := w.more(ctx, t, "during", 15, nil)
	if err := waitUntil(ctx, unready.Add(50*time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := w.plane.Process(controlplane.Kwok).Resume(); err != nil {
		t.Fatal(err)
	}
	allRun := func(d *appsv1.Deployment) func(context.Context) error {
		return func(ctx context.Context) error {
			return w.plane.Until(ctx, d, func() bool { return d.Status.ReadyReplicas == *d.Spec.Replicas })
		}
	}
	took = append(took, w.within(ctx, t, began, allRun(during)))
	began = time.Now()
	return append(took, w.within(ctx, t, began, allRun(w.more(ctx, t, "after", 6, nil))))
}

// atMost bounds what is ordered in all.
func atMost(nodes int64) func(context.Context, *testing.T, *trialRun) {
	return func(_ context.Context, t *testing.T, w *trialRun) {
		t.Helper()
		ordered := int64(0)
		for _, n := range w.ordered64() {
			ordered += n
		}
		if ordered > nodes {
			t.Errorf("%d nodes were ordered, want at most %d", ordered, nodes)
		}
	}
}

// daemonSet has a pod on each node with these labels.
func daemonSet(name string, cpu resource.Quantity, nodes map[string]string) *appsv1.DaemonSet {
	pods := deployment(name, 0, cpu).Spec
	pods.Template.Spec.NodeSelector = nodes
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceDefault},
		Spec:       appsv1.DaemonSetSpec{Selector: pods.Selector, Template: pods.Template},
	}
}
