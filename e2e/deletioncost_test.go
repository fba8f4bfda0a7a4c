package e2e

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/deletioncost"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
)

// Deployments over three zones, scaled down by the real ReplicaSet controller, with a controller
// that has no more rights than the manifests give it.
func TestDeletionCost(t *testing.T) {
	t.Parallel()
	ctx := t.Context() // each wait has a limit of its own
	w := newBalancerCluster(ctx, t)
	for i := range 6 {
		n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i),
			Labels: map[string]string{v1.LabelTopologyZone: string(rune('a' + i%3))}}}
		n.Status.Allocatable = v1.ResourceList{v1.ResourceCPU: resource.MustParse("100"), v1.ResourceMemory: resource.MustParse("100Gi"),
			v1.ResourcePods: resource.MustParse("300")}
		if err := w.plane.AddNodes(ctx, n); err != nil {
			t.Fatal(err)
		}
	}
	flags := append([]string{"--controllers=deletioncost"}, brief...)
	running := w.controller(t, flags...)
	scenes := map[string]func(context.Context, *testing.T){}
	for name, play := range map[string]func(context.Context, *testing.T, *leveled){
		"one-by-one": levelOneByOne,
		"jumps":      levelInJumps,
		"rollout":    levelAfterARollout,
		"not-asked":  notAsked,
		"namespace":  askedByTheNamespace,
		"foreign":    foreignCosts,
	} {
		scenes[name] = func(ctx context.Context, t *testing.T) { play(ctx, t, newLeveled(ctx, t, w, name)) }
	}
	together(ctx, t, scenes)
	t.Run("nodes-lost", func(t *testing.T) { levelAfterALoss(ctx, t, newLeveled(ctx, t, w, "nodes-lost")) })
	t.Run("killed", func(t *testing.T) {
		running.Kill()
		l := newLeveled(ctx, t, w, "killed")
		l.deploy(ctx, t, 9, "spread")
		l.runs(ctx, t, 9)
		w.controller(t, flags...)
		l.stands(ctx, t)
		for _, n := range []int32{6, 2} {
			l.scale(ctx, t, n)
			l.levelNow(ctx, t)
		}
	})
}

// leveled is a Deployment in a namespace of its own.
type leveled struct {
	*balancerCluster
	namespace string
	mark      controlplane.Mark
}

func newLeveled(ctx context.Context, t *testing.T, w *balancerCluster, namespace string) *leveled {
	t.Helper()
	if err := w.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		t.Fatal(err)
	}
	mark, err := w.plane.Mark()
	if err != nil {
		t.Fatal(err)
	}
	return &leveled{balancerCluster: w, namespace: namespace, mark: mark}
}

// deploy creates the Deployment, with an annotation if request is not empty.
func (l *leveled) deploy(ctx context.Context, t *testing.T, replicas int32, request string) {
	t.Helper()
	of := map[string]string{"app": "web"}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: "web"}}
	if request != "" {
		d.Annotations = map[string]string{deletioncost.Annotation: request}
	}
	d.Spec.Replicas, d.Spec.Selector = ptr.To(replicas), &metav1.LabelSelector{MatchLabels: of}
	d.Spec.Template.Labels = of
	d.Spec.Template.Spec.Containers = []v1.Container{{Name: "main", Image: "none"}}
	d.Spec.Template.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: v1.DoNotSchedule,
		LabelSelector: d.Spec.Selector, MatchLabelKeys: []string{"pod-template-hash"},
	}}
	if err := l.Create(ctx, d); err != nil {
		t.Fatal(err)
	}
}

func (l *leveled) change(ctx context.Context, t *testing.T, how func(*appsv1.Deployment)) {
	t.Helper()
	var d appsv1.Deployment
	if err := l.Get(ctx, client.ObjectKey{Namespace: l.namespace, Name: "web"}, &d); err != nil {
		t.Fatal(err)
	}
	before := d.DeepCopy()
	how(&d)
	if err := l.Patch(ctx, &d, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// scale changes the number of replicas and waits until so many run, and no other pods are left.
func (l *leveled) scale(ctx context.Context, t *testing.T, replicas int32) {
	t.Helper()
	l.change(ctx, t, func(d *appsv1.Deployment) { d.Spec.Replicas = &replicas })
	l.runs(ctx, t, int(replicas))
}

func (l *leveled) pods(ctx context.Context, t *testing.T) []*v1.Pod {
	t.Helper()
	var list v1.PodList
	if err := l.List(ctx, &list, client.InNamespace(l.namespace)); err != nil {
		t.Fatal(err)
	}
	var out []*v1.Pod
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

func (l *leveled) runs(ctx context.Context, t *testing.T, replicas int) {
	t.Helper()
	until(ctx, t, fmt.Sprintf("%s: %d pods run", l.namespace, replicas), func() bool {
		pods := l.pods(ctx, t)
		ready := 0
		for _, p := range pods {
			for _, c := range p.Status.Conditions {
				if c.Type == v1.PodReady && c.Status == v1.ConditionTrue && p.DeletionTimestamp == nil && p.Spec.NodeName != "" {
					ready++
				}
			}
		}
		return ready == replicas && len(pods) == replicas
	})
}

func (l *leveled) nodes(ctx context.Context, t *testing.T) []*v1.Node {
	t.Helper()
	var list v1.NodeList
	if err := l.List(ctx, &list); err != nil {
		t.Fatal(err)
	}
	var out []*v1.Node
	for i := range list.Items {
		out = append(out, &list.Items[i])
	}
	return out
}

// stands waits until the pods, which are of one ReplicaSet, have the costs that they need.
func (l *leveled) stands(ctx context.Context, t *testing.T) {
	t.Helper()
	until(ctx, t, l.namespace+": the costs stand", func() bool {
		d, err := deletioncost.Decide(&deletioncost.Input{Request: deletioncost.Spread, Pods: l.pods(ctx, t), Nodes: l.nodes(ctx, t)})
		return err == nil && len(d.Writes) == 0
	})
}

// skew is the difference between the zones with the most and the fewest pods.
func (l *leveled) skew(ctx context.Context, t *testing.T) int {
	t.Helper()
	zone, pods := map[string]string{}, map[string]int{}
	for _, n := range l.nodes(ctx, t) {
		zone[n.Name] = n.Labels[v1.LabelTopologyZone]
		pods[zone[n.Name]] += 0
	}
	for _, p := range l.pods(ctx, t) {
		pods[zone[p.Spec.NodeName]]++
	}
	least, most := 1<<30, 0
	for _, n := range pods {
		least, most = min(least, n), max(most, n)
	}
	return most - least
}

func (l *leveled) levelNow(ctx context.Context, t *testing.T) {
	t.Helper()
	if skew := l.skew(ctx, t); skew > 1 {
		t.Errorf("%s: skew %d with %d pods left", l.namespace, skew, len(l.pods(ctx, t)))
	}
}

// writes is how often the controller has written pods of the namespace since it was last asked.
func (l *leveled) writes(t *testing.T) (n int) {
	t.Helper()
	since := l.mark
	var err error
	if l.mark, err = l.plane.Mark(); err != nil {
		t.Fatal(err)
	}
	writes, err := l.plane.Writes(controllerUser, since)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range writes {
		if w.Namespace == l.namespace && w.Resource == "pods" {
			n++
		}
	}
	return n
}

// From 30 to 1, one by one: level at every number, all costs written before.
func levelOneByOne(ctx context.Context, t *testing.T, l *leveled) {
	l.deploy(ctx, t, 30, "spread")
	l.runs(ctx, t, 30)
	l.stands(ctx, t)
	first := l.writes(t)
	t.Logf("30 new pods: %d writes, %d per 1,000 pods", first, first*1000/30)
	if first > 30 {
		t.Errorf("%d writes for 30 pods", first)
	}
	for n := int32(29); n > 0; n-- {
		l.scale(ctx, t, n)
		l.levelNow(ctx, t)
	}
	if n := l.writes(t); n > 0 {
		t.Errorf("%d writes while it was scaled down", n)
	}
}

// In jumps, and up again, as an autoscaler of pods would.
func levelInJumps(ctx context.Context, t *testing.T, l *leveled) {
	l.deploy(ctx, t, 30, "spread")
	l.runs(ctx, t, 30)
	l.stands(ctx, t)
	l.writes(t)
	made, changed := 0, 0
	for _, n := range []int32{22, 13, 30, 4, 30, 17, 3, 31, 1} {
		before := len(l.pods(ctx, t))
		l.scale(ctx, t, n)
		l.levelNow(ctx, t)
		made += max(0, int(n)-before)
		changed += max(int(n)-before, before-int(n))
		l.stands(ctx, t)
	}
	n := l.writes(t)
	t.Logf("%d new pods: %d writes, %d per 1,000 pods", made, n, n*1000/made)
	if n > changed {
		t.Errorf("%d writes for %d pods that came or went", n, changed)
	}
}

// The pods of the new revision have costs of their own.
func levelAfterARollout(ctx context.Context, t *testing.T, l *leveled) {
	l.deploy(ctx, t, 18, "spread")
	l.runs(ctx, t, 18)
	l.stands(ctx, t)
	old := l.pods(ctx, t)[0].Labels["pod-template-hash"]
	l.change(ctx, t, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "another" })
	until(ctx, t, "the new revision runs", func() bool {
		for _, p := range l.pods(ctx, t) {
			if p.Labels["pod-template-hash"] == old {
				return false
			}
		}
		return true
	})
	l.runs(ctx, t, 18)
	l.stands(ctx, t)
	for _, n := range []int32{16, 10, 7, 5, 2} {
		l.scale(ctx, t, n)
		l.levelNow(ctx, t)
	}
	t.Logf("36 pods of two revisions: %d writes", l.writes(t))
}

// Without a request nothing is written; the ReplicaSet controller's own order is shown.
func notAsked(ctx context.Context, t *testing.T, l *leveled) {
	l.deploy(ctx, t, 30, "")
	l.runs(ctx, t, 30)
	worst := 0
	for n := int32(27); n > 0; n -= 3 {
		l.scale(ctx, t, n)
		worst = max(worst, l.skew(ctx, t))
	}
	t.Logf("without deletion costs: skew %d", worst)
	if n := l.writes(t); n > 0 {
		t.Errorf("%d writes", n)
	}
}

// A namespace asks, its workload does not want it, and then does: costs come and go.
func askedByTheNamespace(ctx context.Context, t *testing.T, l *leveled) {
	l.deploy(ctx, t, 9, "none")
	var ns v1.Namespace
	if err := l.Get(ctx, client.ObjectKey{Name: l.namespace}, &ns); err != nil {
		t.Fatal(err)
	}
	ns.Annotations = map[string]string{deletioncost.Annotation: "spread"}
	if err := l.Update(ctx, &ns); err != nil {
		t.Fatal(err)
	}
	l.runs(ctx, t, 9)
	l.change(ctx, t, func(d *appsv1.Deployment) { delete(d.Annotations, deletioncost.Annotation) })
	l.stands(ctx, t)
	if n := l.writes(t); n != 6 {
		t.Errorf("%d writes, want 6", n)
	}
	l.change(ctx, t, func(d *appsv1.Deployment) { d.Annotations = map[string]string{deletioncost.Annotation: "Spread"} })
	until(ctx, t, "the costs are removed", func() bool {
		for _, p := range l.pods(ctx, t) {
			if p.Annotations[v1.PodDeletionCost] != "" || p.Annotations[deletioncost.AnnotationWritten] != "" {
				return false
			}
		}
		return true
	})
	announced(ctx, t, l, "InvalidRequest")
}

func announced(ctx context.Context, t *testing.T, l *leveled, reason string) {
	t.Helper()
	until(ctx, t, "there is an event "+reason, func() bool {
		var list v1.EventList
		if err := l.List(ctx, &list, client.InNamespace(l.namespace)); err != nil {
			t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.InvolvedObject.Kind == "Deployment" {
				return true
			}
		}
		return false
	})
}

// What somebody else writes stays.
func foreignCosts(ctx context.Context, t *testing.T, l *leveled) {
	l.deploy(ctx, t, 9, "spread")
	l.runs(ctx, t, 9)
	l.stands(ctx, t)
	announced(ctx, t, l, "DeletionCosts")
	precious := l.pods(ctx, t)[4]
	before := precious.DeepCopy()
	if precious.Annotations == nil {
		precious.Annotations = map[string]string{}
	}
	precious.Annotations[v1.PodDeletionCost] = "77"
	if err := l.Patch(ctx, precious, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	l.stands(ctx, t)
	for _, n := range []int32{7, 4, 1} {
		l.scale(ctx, t, n)
		l.levelNow(ctx, t)
	}
	if left := l.pods(ctx, t); left[0].Name != precious.Name || left[0].Annotations[v1.PodDeletionCost] != "77" {
		t.Errorf("left is %s with cost %s, want %s with 77", left[0].Name, left[0].Annotations[v1.PodDeletionCost], precious.Name)
	}
}

// A node vanishes with its pods; others run instead of them.
func levelAfterALoss(ctx context.Context, t *testing.T, l *leveled) {
	l.deploy(ctx, t, 15, "spread")
	l.runs(ctx, t, 15)
	l.stands(ctx, t)
	var lost v1.Node
	if err := l.Get(ctx, client.ObjectKey{Name: "node-1"}, &lost); err != nil {
		t.Fatal(err)
	}
	if err := l.Delete(ctx, &lost); err != nil {
		t.Fatal(err)
	}
	for _, p := range l.pods(ctx, t) { // the garbage collector of pods does that after a minute
		if p.Spec.NodeName == lost.Name {
			if err := l.Delete(ctx, p, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.runs(ctx, t, 15)
	l.stands(ctx, t)
	for _, n := range []int32{14, 11, 8, 7, 2} {
		l.scale(ctx, t, n)
		l.levelNow(ctx, t)
	}
}
