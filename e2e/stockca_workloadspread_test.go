package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/autoscaler"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/e2e/process"
)

const (
	// capacityLabel is on the nodes that are there from the beginning.
	capacityLabel = "capacity"
	onDemand      = "on-demand"
	// slowBoot is four times as long as pods wait by themselves.
	slowBoot = 40 * time.Second
)

// A tenant is a namespace with a Deployment that has a machine type of its own.
type tenant struct {
	machine string
	pods    int32
	// adaptive is of the WorkloadSpread that tries those machines first; nil means that there is none,
	// and that the pods run on them alone.
	adaptive *v1alpha1.AdaptiveSchedule
	// stay are the pods that run where they were created to run; -1 means that there are not nodes enough,
	// and that those for which they were ordered stay until they have come.
	stay int

	deployment *appsv1.Deployment
	lives      *lives
}

// movingOn is what a WorkloadSpread does with a pod without a node after ten seconds.
func movingOn(wait, simulate bool) *v1alpha1.AdaptiveSchedule {
	return &v1alpha1.AdaptiveSchedule{RescheduleCriticalSeconds: ptr.To[int32](10), WaitForAutoscaler: &wait,
		DisableSimulationSchedule: !simulate}
}

// A pod of a subset waits for the node that the autoscaler has ordered for it, and moves on if there
// will be none, whether pods say what is done about them or events and the status have to.
func TestStockAutoscalerKeepsPodsOfASubset(t *testing.T) {
	autoscaler.Binary(t)
	for name, flags := range map[string][]string{"conditions": {"--pod-provisioning-conditions"}, "events and status": nil} {
		t.Run(name, func(t *testing.T) { t.Parallel(); keepsPods(t, flags) })
	}
}

func keepsPods(t *testing.T, sidecarFlags []string) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	patient := movingOn(true, false)
	onTheWay := []*tenant{
		{machine: "patient", pods: 2, adaptive: patient, stay: 2},
		{machine: "simulated", pods: 2, adaptive: movingOn(true, true), stay: 2},
		{machine: "impatient", pods: 2, adaptive: movingOn(false, false)},
		{machine: "plain", pods: 2, stay: 2},
		{machine: "many", pods: 8, adaptive: patient, stay: -1}, // of six nodes
	}
	sold := &tenant{machine: "sold", pods: 2, adaptive: patient}
	lost := &tenant{machine: "lost", pods: 2, adaptive: movingOn(true, false)}
	lost.adaptive.AutoscalerTimeoutSeconds = ptr.To(int32(2 * slowBoot / time.Second))
	c := trial{
		groups: zones("many", 3, 0, 0), boot: slowBoot, sidecarFlags: sidecarFlags, dead: []string{"lost-a"},
		faults: v1alpha1.ScenarioFaults{StockOuts: []v1alpha1.StockOut{{Groups: []string{"sold-a"}}}},
	}
	for _, n := range append(onTheWay, lost, sold) {
		c.demands = append(c.demands, demand{machine: n.machine, perNode: 1})
		if n.machine != "many" {
			c.groups = append(c.groups, zones(n.machine, 3, 0)...)
		}
	}
	w := startTrial(ctx, t, c, true)
	there := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: onDemand, Labels: map[string]string{capacityLabel: onDemand}}}
	there.Status.Allocatable = v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("1000"), v1.ResourceMemory: resource.MustParse("1000Gi"), v1.ResourcePods: resource.MustParse("1000"),
	}
	if err := w.plane.AddNodes(ctx, there); err != nil {
		t.Fatal(err)
	}
	spreads := withSpreads(ctx, t, w)
	for _, n := range append(onTheWay, lost) {
		n.begin(ctx, t, w, spreads)
	}
	for _, n := range onTheWay {
		t.Run("nodes on the way for "+n.machine, func(t *testing.T) { n.end(ctx, t, w) })
	}
	t.Run("machines out of stock", func(t *testing.T) {
		sold.begin(ctx, t, w, spreads)
		sold.end(ctx, t, w)
	})
	// The autoscaler waits for them for a quarter of an hour.
	t.Run("machines that never join", func(t *testing.T) { lost.end(ctx, t, w) })
}

// withSpreads starts a controller with the rights and webhooks of the manifests.
func withSpreads(ctx context.Context, t *testing.T, w *trialRun) client.WithWatch {
	t.Helper()
	c := balancerClient(ctx, t, w.plane)
	address := process.FreeAddress(t)
	applyController(ctx, t, w.plane, "deploy", "https://"+address)
	evenkeel.StartController(t, evenkeel.ControllerOptions{Kubeconfig: w.plane.KubeconfigAs(t, controllerUser, "system:serviceaccounts",
		"system:authenticated"), Args: []string{
		"--controllers=workloadspread", "--webhook-address=" + address, "--webhook-host=" + process.Loopback, "--webhook-shutdown-delay=1s",
	}})
	until(ctx, t, "the configurations are complete", func() bool { return len(mutating(ctx, t, c).Rules) == 1 })
	return c
}

// begin creates the pods.
func (n *tenant) begin(ctx context.Context, t *testing.T, w *trialRun, c client.WithWatch) {
	t.Helper()
	if err := c.Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: n.machine}}); err != nil {
		t.Fatal(err)
	}
	n.deployment = deployment(n.machine, n.pods, *w.workloads[n.machine].Spec.Template.Spec.Containers[0].Resources.Requests.Cpu())
	n.deployment.Namespace = n.machine
	if n.adaptive != nil {
		n.deployment.Spec.Template.Spec.NodeSelector = nil
		n.spread(ctx, t, c)
	}
	n.lives = followLives(ctx, t, c, n.machine)
	if err := c.Create(ctx, n.deployment); err != nil {
		t.Fatal(err)
	}
}

// end waits until all pods run, and looks at where the first ones are.
func (n *tenant) end(ctx context.Context, t *testing.T, w *trialRun) {
	t.Helper()
	if n.deployment == nil {
		t.Fatal("it has not begun")
	}
	status := &n.deployment.Status
	err := w.plane.Until(ctx, n.deployment, func() bool { return status.ReadyReplicas == n.pods && status.Replicas == n.pods })
	said := w.saidAbout(ctx, t, n.machine)
	n.lives.tell(t, said)
	if err != nil {
		t.Fatal(err)
	}
	n.check(t, said)
}

// saidAbout are the reasons of the autoscaler's events about each pod of a namespace.
func (w *trialRun) saidAbout(ctx context.Context, t *testing.T, namespace string) map[types.UID][]string {
	t.Helper()
	var events v1.EventList
	if err := w.plane.Client.List(context.WithoutCancel(ctx), &events, client.InNamespace(namespace),
		client.MatchingFields{"source": "cluster-autoscaler"}); err != nil {
		t.Fatal(err)
	}
	said := map[types.UID][]string{}
	for _, e := range events.Items {
		uid := e.InvolvedObject.UID
		if !slices.Contains(said[uid], e.Reason) {
			said[uid] = append(said[uid], e.Reason)
		}
	}
	return said
}

// spread stores the WorkloadSpread, and waits until the API server asks about pods of the namespace.
func (n *tenant) spread(ctx context.Context, t *testing.T, c client.Client) {
	t.Helper()
	subset := func(name, key, value string) v1alpha1.WorkloadSubset {
		return v1alpha1.WorkloadSubset{Name: name, RequiredNodeSelector: &v1.NodeSelectorTerm{
			MatchExpressions: []v1.NodeSelectorRequirement{{Key: key, Operator: v1.NodeSelectorOpIn, Values: []string{value}}},
		}}
	}
	o := &v1alpha1.WorkloadSpread{ObjectMeta: metav1.ObjectMeta{Namespace: n.machine, Name: n.machine}}
	o.Spec = v1alpha1.WorkloadSpreadSpec{
		TargetRef: v1alpha1.WorkloadReference{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment", Name: n.machine},
		Subsets: []v1alpha1.WorkloadSubset{subset("spot", v1.LabelInstanceTypeStable, n.machine),
			subset(onDemand, capacityLabel, onDemand)},
		ScheduleStrategy: v1alpha1.WorkloadScheduleStrategy{Type: v1alpha1.ScheduleAdaptive, Adaptive: n.adaptive},
	}
	if err := c.Create(ctx, o); err != nil {
		t.Fatal(err)
	}
	until(ctx, t, "pods of "+n.machine+" are sent to the webhooks", func() bool {
		pod := webPod("probe", &metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "nobody", UID: "nobody",
			Controller: ptr.To(true)})
		pod.Namespace = n.machine
		err := c.Create(ctx, pod)
		if err == nil {
			_ = c.Delete(ctx, pod, client.GracePeriodSeconds(0))
		}
		return err != nil && strings.Contains(err.Error(), "create.pods.evenkeel.dev") // its owner is missing
	})
}

// lives are those of the pods of a namespace.
type lives struct {
	began time.Time
	mu    sync.Mutex
	of    map[types.UID]*life
	order []types.UID
}

// A life is when what happened to a pod; zero if it did not.
type life struct {
	name, node         string
	created, ran, gone time.Time
}

// followLives follows a namespace until the test ends.
func followLives(ctx context.Context, t *testing.T, c client.WithWatch, namespace string) *lives {
	t.Helper()
	l := &lives{began: time.Now(), of: map[types.UID]*life{}}
	followAll(ctx, t, c, namespace, &v1.PodList{}, func(e watch.Event) {
		if pod, ok := e.Object.(*v1.Pod); ok && metav1.GetControllerOf(pod) != nil {
			l.see(pod, time.Now())
		}
	})
	return l
}

func (l *lives) see(pod *v1.Pod, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.of[pod.UID]
	if p == nil {
		p = &life{name: pod.Name, created: now}
		l.of[pod.UID] = p
		l.order = append(l.order, pod.UID)
	}
	p.node = pod.Spec.NodeName
	if pod.DeletionTimestamp != nil && p.gone.IsZero() {
		p.gone = now
	}
	if runs(pod) && p.ran.IsZero() {
		p.ran = now
	}
}

// tell prints what happened when, and what the autoscaler said.
func (l *lives) tell(t *testing.T, said map[types.UID][]string) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var text []string
	for _, uid := range l.order {
		p := l.of[uid]
		one := fmt.Sprintf("%s +%.1fs", p.name, p.created.Sub(l.began).Seconds())
		if !p.ran.IsZero() {
			one += fmt.Sprintf(", ran on %s +%.1fs", p.node, p.ran.Sub(l.began).Seconds())
		}
		if !p.gone.IsZero() {
			one += fmt.Sprintf(", deleted +%.1fs", p.gone.Sub(l.began).Seconds())
		}
		text = append(text, fmt.Sprint(one, " ", said[uid]))
	}
	t.Logf("\n%s", strings.Join(text, "\n"))
}

// check compares what happened with what should: the pods that stay run on the machines that they were
// created for, and each of the others was deleted for one that runs elsewhere.
func (n *tenant) check(t *testing.T, said map[types.UID][]string) {
	t.Helper()
	n.lives.mu.Lock()
	defer n.lives.mu.Unlock()
	var stayed, elsewhere, deleted, kept int
	var came time.Time // the first node, if there is one
	for _, p := range n.lives.of {
		if !p.ran.IsZero() && p.node != onDemand && (came.IsZero() || p.ran.Before(came)) {
			came = p.ran
		}
	}
	for _, uid := range n.lives.order {
		p := n.lives.of[uid]
		ordered, refused := slices.Contains(said[uid], "TriggeredScaleUp"), slices.Contains(said[uid], "NotTriggerScaleUp")
		switch {
		case !p.gone.IsZero():
			deleted++
			if n.stay < 0 && ordered && p.gone.Before(came) {
				t.Errorf("pod %s was deleted %s before the first of its nodes came", p.name, came.Sub(p.gone))
			}
		case p.node == onDemand:
			elsewhere++
		default:
			stayed++
			if ordered && refused {
				kept++
			}
		}
	}
	want := n.stay
	if want < 0 {
		want = stayed
		if kept == 0 {
			t.Error("no pod was refused while its nodes were on the way")
		}
	}
	if moved := int(n.pods) - want; stayed != want || elsewhere != moved || deleted != moved {
		t.Errorf("%d pods stayed, %d run elsewhere and %d were deleted, want %d, %d and %d", stayed, elsewhere, deleted, want, moved, moved)
	}
}
