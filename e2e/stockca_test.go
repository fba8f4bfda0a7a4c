package e2e

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/autoscaler"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/process"
)

// groupAnnotation names the group of a node of the fake cloud.
const groupAnnotation = "fake.evenkeel.dev/node-group"

// A trial is a fleet, a demand that comes all at once, and a mishap.
type trial struct {
	name   string
	groups []group
	// mins are the minimums of groups that have one.
	mins map[string]int64
	// demands are one for each machine type.
	demands []demand
	boot    time.Duration
	// boots are those of machines that do not take boot.
	boots map[string]time.Duration
	// ready is how long nodes of machines are there before they are ready.
	ready map[string]time.Duration
	// late is how much later than its order the cloud lists a machine.
	late time.Duration
	// pinned are more pods of the first demand, for zone-b alone.
	pinned int32
	// stuck are pods of the first demand for which there will be no room.
	stuck int32
	// defaults are the default spread constraints of the scheduler's profile.
	defaults []v1.TopologySpreadConstraint
	// slow is by how much later each request of the sidecar reaches the API server.
	slow time.Duration
	// withoutCluster is a sidecar that has no access to the API server.
	withoutCluster bool
	// flags are further ones of the autoscaler.
	flags []string
	// refusing is a group of which the cloud has no machines for two minutes.
	refusing string
	// barren are groups that have got no nodes when all pods run.
	barren []string
	// dead are groups whose machines never become nodes.
	dead []string
	// outages are counted from the start of the cloud.
	outages []v1alpha1.Outage
	// provision is --max-node-provision-time, of both; 0 is the default.
	provision time.Duration
	// expanderAlone has evenkeel be the autoscaler's expander alone, in place of the sidecar.
	expanderAlone bool
	// replica adds a second one, which is asked when the first is gone.
	replica bool
	// faults are further ones of the cloud.
	faults v1alpha1.ScenarioFaults
	// sidecarFlags are further ones of the sidecar.
	sidecarFlags []string
	// prepare is called before the autoscaler starts.
	prepare func(ctx context.Context, t *testing.T, w *trialRun)
	// unheard is a mishap after which the autoscaler leaves a group alone where it balances by itself: it does not get the
	// answer to an increase of it.
	unheard bool
	// question is called before the sidecar, as expander, gets its first question.
	question func(w *trialRun)
	// mishap strikes when the demand has been made, or waits for something first.
	mishap func(ctx context.Context, t *testing.T, w *trialRun)
}

// A group begins with so many nodes, all of them full.
type group struct {
	name, machine string
	size, max     int64
}

// A demand is pods that fit only one type of machine, so many on a node.
type demand struct {
	machine string
	pods    int
	perNode int
	// spread has the pods spread over domains.
	spread []v1.TopologySpreadConstraint
	// pod changes the pods further; nil does not.
	pod func(*v1.PodTemplateSpec)
}

func (d demand) nodes() int64 { return int64((d.pods + d.perNode - 1) / d.perNode) }

// afterOrders is a mishap that strikes when so many orders for nodes have succeeded.
func afterOrders(n int, mishap func(ctx context.Context, t *testing.T, w *trialRun)) func(ctx context.Context, t *testing.T, w *trialRun) {
	return func(ctx context.Context, t *testing.T, w *trialRun) {
		t.Helper()
		if err := w.ordered.Until(ctx, func(calls []autoscaler.Call) bool { return len(autoscaler.Increases(calls)) >= n }); err != nil {
			t.Fatalf("waiting for %d orders: %v", n, err)
		}
		mishap(ctx, t, w)
	}
}

// whileOrdering is a mishap that strikes when the autoscaler has been answered, and a slow cloud has
// not answered the sidecar yet.
func whileOrdering(mishap func(ctx context.Context, t *testing.T, w *trialRun)) func(ctx context.Context, t *testing.T, w *trialRun) {
	return func(ctx context.Context, t *testing.T, w *trialRun) {
		t.Helper()
		if w.sidecar == nil {
			return
		}
		if err := w.asked.Until(ctx, func(calls []autoscaler.Call) bool { return len(autoscaler.Increases(calls)) > 0 }); err != nil {
			t.Fatalf("waiting for an answer: %v", err)
		}
		if n := len(autoscaler.Increases(w.ordered.Calls())); n > 0 {
			t.Fatalf("the cloud has answered %d orders before", n)
		}
		mishap(ctx, t, w)
	}
}

// zones returns a group in each of the zones a, b, c and so on.
func zones(machine string, maximum int64, sizes ...int64) []group {
	var out []group
	for i, size := range sizes {
		out = append(out, group{name: machine + "-" + string(rune('a'+i)), machine: machine, size: size, max: maximum})
	}
	return out
}

var trials = []trial{
	{
		name:    "three zones",
		groups:  zones("m", 20, 1, 3, 6),
		demands: []demand{{machine: "m", pods: 4, perNode: 1}},
	},
	{
		name:           "a sidecar without access to the API server",
		groups:         zones("m", 20, 1, 3, 6),
		demands:        []demand{{machine: "m", pods: 4, perNode: 1}},
		withoutCluster: true,
	},
	{
		name:    "an API server that takes 0.6 s for each request of the sidecar",
		groups:  zones("m", 40, 0, 0, 0),
		demands: []demand{{machine: "m", pods: 60, perNode: 2}},
		slow:    600 * time.Millisecond,
	},
	{
		name:    "scale from zero",
		groups:  zones("m", 20, 0, 0, 0),
		demands: []demand{{machine: "m", pods: 9, perNode: 1}},
	},
	{
		name:    "60 pods at once",
		groups:  zones("m", 40, 0, 0, 0),
		demands: []demand{{machine: "m", pods: 60, perNode: 2}},
		boot:    time.Minute,
	},
	{
		name:     "stock-out of one zone",
		groups:   zones("m", 40, 0, 0, 0),
		demands:  []demand{{machine: "m", pods: 30, perNode: 1}},
		refusing: "m-b",
	},
	{
		name:    "a group hits its max",
		groups:  []group{{"m-a", "m", 0, 2}, {"m-b", "m", 0, 20}, {"m-c", "m", 1, 20}},
		demands: []demand{{machine: "m", pods: 12, perNode: 1}},
	},
	{
		name:    "three sets at once",
		groups:  slices.Concat(zones("m", 20, 0, 0, 0), zones("r", 20, 1, 2, 0), zones("c", 20, 0, 3, 1)),
		demands: []demand{{machine: "m", pods: 9, perNode: 1}, {machine: "r", pods: 10, perNode: 2}, {machine: "c", pods: 7, perNode: 1}},
	},
	{
		name:    "a set of twelve",
		groups:  zones("m", 20, make([]int64, 12)...),
		demands: []demand{{machine: "m", pods: 30, perNode: 1}},
	},
	{
		name:    "the cloud takes 8 s for each increase",
		groups:  zones("m", 40, 0, 0, 0),
		demands: []demand{{machine: "m", pods: 30, perNode: 1}},
		faults: v1alpha1.ScenarioFaults{Calls: []v1alpha1.CallFault{{Methods: []string{"IncreaseSize"},
			Delay: &metav1.Duration{Duration: 8 * time.Second}}}},
	},
	{
		name:    "the autoscaler dies after the first grant",
		groups:  zones("m", 40, 0, 0, 0),
		demands: []demand{{machine: "m", pods: 30, perNode: 1}},
		boot:    10 * time.Second,
		mishap:  afterOrders(1, func(ctx context.Context, t *testing.T, w *trialRun) { restart(ctx, t, w.autoscaler) }),
	},
	{
		name:    "the autoscaler dies after the second grant",
		groups:  zones("m", 40, 0, 0, 0),
		demands: []demand{{machine: "m", pods: 30, perNode: 1}},
		boot:    10 * time.Second,
		mishap:  afterOrders(2, func(ctx context.Context, t *testing.T, w *trialRun) { restart(ctx, t, w.autoscaler) }),
	},
	{
		name:    "the sidecar dies after the first grant",
		groups:  zones("m", 40, 0, 0, 0),
		demands: []demand{{machine: "m", pods: 30, perNode: 1}},
		boot:    10 * time.Second,
		mishap:  afterOrders(1, func(ctx context.Context, t *testing.T, w *trialRun) { restart(ctx, t, w.sidecar) }),
	},
	{
		name:    "the sidecar dies while the cloud works on an order",
		groups:  zones("m", 40, 0, 0, 0),
		demands: []demand{{machine: "m", pods: 30, perNode: 1}},
		boot:    10 * time.Second,
		faults: v1alpha1.ScenarioFaults{Calls: []v1alpha1.CallFault{{Methods: []string{"IncreaseSize"},
			Delay: &metav1.Duration{Duration: 8 * time.Second}}}},
		mishap:  whileOrdering(func(ctx context.Context, t *testing.T, w *trialRun) { restart(ctx, t, w.sidecar) }),
		unheard: true,
	},
	{
		name:    "somebody deletes the journal after the first grant",
		groups:  zones("m", 40, 0, 0, 0),
		demands: []demand{{machine: "m", pods: 30, perNode: 1}},
		boot:    10 * time.Second,
		mishap: afterOrders(1, func(ctx context.Context, t *testing.T, w *trialRun) {
			t.Helper()
			journal := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "evenkeel-sidecar", Namespace: metav1.NamespaceSystem}}
			if err := w.plane.Client.Delete(ctx, journal); err != nil && w.sidecar != nil {
				t.Fatal(err)
			}
		}),
	},
	{
		name:    "both die after the first grant",
		groups:  zones("m", 40, 0, 0, 0),
		demands: []demand{{machine: "m", pods: 30, perNode: 1}},
		boot:    10 * time.Second,
		mishap:  afterOrders(1, func(ctx context.Context, t *testing.T, w *trialRun) { restart(ctx, t, w.sidecar, w.autoscaler) }),
	},
}

// restart kills processes, all of them before the first is started again. A sidecar that the run
// does not have is left out.
func restart(ctx context.Context, t *testing.T, processes ...*process.Process) {
	t.Helper()
	processes = slices.DeleteFunc(processes, func(p *process.Process) bool { return p == nil })
	for _, p := range processes {
		p.Kill()
	}
	for _, p := range processes {
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if err := p.Await(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// With the sidecar beside it an unmodified autoscaler fills its sets as one
// exact split would have done, and orders no node twice.
func TestStockAutoscalerBalances(t *testing.T) {
	autoscaler.Binary(t)
	for _, c := range trials {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
			defer cancel()
			w := startTrial(ctx, t, c, true)
			w.play(ctx, t)
			w.check(ctx, t)
		})
	}
}

// Without the sidecar it orders all nodes of one group. That is what the others
// are measured against, and it shows that the test sees what happens.
func TestStockAutoscalerAloneDoesNotBalance(t *testing.T) {
	autoscaler.Binary(t)
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	c := trial{groups: zones("m", 20, 0, 0, 0), demands: []demand{{machine: "m", pods: 9, perNode: 1}}}
	w := startTrial(ctx, t, c, false)
	w.play(ctx, t)
	w.tell(ctx, t)
	sizes := slices.Sorted(maps.Values(w.sizes(ctx, t)))
	if want := []int64{0, 0, 9}; !slices.Equal(sizes, want) {
		t.Errorf("sizes are %v, want %v", sizes, want)
	}
}

// A trialRun is everything that runs in one trial.
type trialRun struct {
	trial
	plane      *controlplane.ControlPlane
	autoscaler *process.Process
	sidecar    *process.Process // or the expander
	asked      *autoscaler.Tap  // what the autoscaler asks its provider
	ordered    *autoscaler.Tap  // what the cloud is asked
	workloads  map[string]*appsv1.Deployment
	began      time.Time
	ran        time.Time // when all pods ran
	cloud      time.Time // when it started
}

// never is longer than any test.
const never = 24 * time.Hour
