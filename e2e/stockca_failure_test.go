package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/autoscaler"
)

// A wave is more pods of the first demand, in a deployment of its own: some time after the cloud has
// started, whether the wave before runs or not, or when that runs.
type wave struct {
	pods  int32
	after time.Duration // the start of the cloud; 0 is when the pods before run
}

// patience is how long the pods of a wave are waited for, beside the time in which machines boot.
const patience = 3 * time.Minute

// A failure is a trial in which a zone fails while waves of pods come. The same happens to an
// autoscaler that balances by itself, at the same time.
type failure struct {
	trial
	waves []wave
}

var failures = []failure{
	{
		trial: trial{
			name: "a zone whose machines never become nodes", groups: zones("m", 20, 0, 0, 0), demands: []demand{{machine: "m", pods: 0, perNode: 1}},
			boot: 5 * time.Second, dead: []string{"m-b"}, provision: time.Minute,
		},
		waves: []wave{{pods: 9}, {pods: 9}},
	},
	{
		trial: trial{
			name: "a zone whose nodes turn unready", groups: zones("m", 20, 0, 0, 0), demands: []demand{{machine: "m", pods: 0, perNode: 1}},
			boot: 20 * time.Second, provision: 2 * time.Minute,
			outages: []v1alpha1.Outage{{
				Zones: []string{"zone-b"}, Mode: v1alpha1.OutageUnready,
				FaultWindow: v1alpha1.FaultWindow{From: metav1.Duration{Duration: 60 * time.Second}},
			}},
		},
		waves: []wave{{pods: 15, after: 50 * time.Second}, {pods: 9, after: 90 * time.Second}, {pods: 3}},
	},
}

// A zone that fails holds no pod up for longer with the sidecar than without, and is not filled and
// emptied over and over.
func TestStockAutoscalerGivesUpAZone(t *testing.T) {
	autoscaler.Binary(t)
	for _, f := range failures {
		t.Run(f.name, f.neverLater)
	}
}

// neverLater plays the failure with the sidecar and, at the same time, without it.
func (f *failure) neverLater(t *testing.T) {
	with, alone := make(chan *ending, 1), make(chan *ending, 1)
	t.Run("both", func(t *testing.T) {
		t.Run("with the sidecar", func(t *testing.T) { t.Parallel(); with <- f.play(t, true) })
		t.Run("alone", func(t *testing.T) { t.Parallel(); alone <- f.play(t, false) })
	})
	if t.Failed() {
		return
	}
	got, than := <-with, <-alone
	t.Logf("with the sidecar %s", got)
	t.Logf("alone %s", than)
	// One loop per member, as long as it takes on a busy machine.
	const grace = 20 * time.Second
	for i := range got.took {
		if got.took[i] > than.took[i]+grace {
			t.Errorf("wave %d runs after %s, without the sidecar after %s", i+1, got.took[i], than.took[i])
		}
	}
	if n := got.ordered["m-b"]; n > than.ordered["m-b"] {
		t.Errorf("%d nodes were ordered in the zone that fails, without the sidecar %d", n, than.ordered["m-b"])
	}
}

// An ending is the result of a failure.
type ending struct {
	took    []time.Duration // by wave that is waited for; patience where it never ran
	ordered map[string]int64
	sizes   map[string]int64 // that were ordered in the end
}

func (e *ending) String() string {
	return fmt.Sprintf("the waves run after %v; ordered %v; sizes %v", e.took, e.ordered, e.sizes)
}

func (f *failure) play(t *testing.T, balanced bool) *ending {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 12*time.Minute)
	defer cancel()
	c := f.trial
	if !balanced {
		c.flags = append(c.flags, "--balance-similar-node-groups=true")
	}
	w := newWorld(ctx, t, c, balanced)
	out := &ending{}
	w.began = time.Now()
	var waiting []*appsv1.Deployment
	for i, wave := range f.waves {
		if err := waitUntil(ctx, w.cloud.Add(wave.after)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		waiting = append(waiting, w.more(ctx, t, fmt.Sprint("wave-", i), wave.pods))
		if i+1 < len(f.waves) && f.waves[i+1].after > 0 {
			continue
		}
		within, cancel := context.WithTimeout(ctx, patience+2*f.boot)
		for _, d := range waiting {
			if err := w.plane.Until(within, d, func() bool { return d.Status.ReadyReplicas == *d.Spec.Replicas }); err != nil && within.Err() == nil {
				t.Fatal(err)
			}
		}
		cancel()
		waiting = nil
		out.took = append(out.took, time.Since(began).Round(time.Second))
	}
	w.tell(ctx, t)
	out.ordered, out.sizes = w.ordered64(), w.targets()
	return out
}

// more adds pods that are like those of the first demand.
func (w *world) more(ctx context.Context, t *testing.T, name string, pods int32) *appsv1.Deployment {
	t.Helper()
	d := w.workloads[w.demands[0].machine].DeepCopy()
	d.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: d.Namespace}
	d.Status = appsv1.DeploymentStatus{}
	d.Spec.Replicas = &pods
	d.Spec.Selector.MatchLabels = map[string]string{"app": name}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	if err := w.plane.Client.Create(ctx, d); err != nil {
		t.Fatal(err)
	}
	return d
}

// waitUntil waits for a moment.
func waitUntil(ctx context.Context, at time.Time) error {
	moment, cancel := context.WithDeadline(ctx, at)
	defer cancel()
	<-moment.Done()
	return ctx.Err()
}

// ordered64 is how many nodes were ordered, by group.
func (w *world) ordered64() map[string]int64 {
	out := map[string]int64{}
	for _, c := range autoscaler.Increases(w.ordered.Calls()) {
		out[c.Group] += int64(c.Delta)
	}
	return out
}
