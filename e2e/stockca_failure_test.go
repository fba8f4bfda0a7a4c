package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/autoscaler"
)

// A wave is more pods of the first demand, in a deployment of its own: some time after the cloud has
// started, whether the wave before runs or not, or when that runs.
type wave struct {
	pods  int32
	after time.Duration // the start of the cloud; 0 is when the pods before run
	// settled waits for the pods before, too.
	settled bool
}

// patience is how long the pods of a wave are waited for, beside the time in which machines boot.
const patience = 3 * time.Minute

// balancing is the autoscaler's flag.
const balancing = "--balance-similar-node-groups=true"

// A comparison is a trial that is played with the sidecar and, at the same time, without it: waves of pods or, without
// any, its demands. The autoscaler balances by itself on both sides, as the manifests have it.
type comparison struct {
	trial
	waves []wave
	// acts are played in place of them, and return how long what they wait for took.
	acts func(ctx context.Context, t *testing.T, w *trialRun) []time.Duration
	// check looks at what the sidecar has made of it; nil if the sizes are a matter of luck.
	check func(ctx context.Context, t *testing.T, w *trialRun)
}

var failures = []comparison{
	{
		trial: trial{
			name: "a zone whose machines never become nodes", groups: zones("m", 20, 0, 0, 0),
			demands: []demand{{machine: "m", pods: 0, perNode: 1}},
			boot:    5 * time.Second, dead: []string{"m-b"}, provision: time.Minute,
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
	for _, c := range failures {
		t.Run(c.name, c.neverLater)
	}
}

// neverLater plays the trial with the sidecar and, at the same time, without it.
func (c *comparison) neverLater(t *testing.T) {
	with, alone := make(chan *ending, 1), make(chan *ending, 1)
	t.Run("both", func(t *testing.T) {
		t.Run("with the sidecar", func(t *testing.T) { t.Parallel(); with <- c.play(t, true) })
		t.Run("alone", func(t *testing.T) { t.Parallel(); alone <- c.play(t, false) })
	})
	if len(with) == 0 || len(alone) == 0 {
		return // one has not come to an end
	}
	got, than := <-with, <-alone
	t.Logf("| %s | %s | %s | %s |", c.name, c.boot, than, got)
	c.notLater(t, got, than)
	if n := got.ordered["m-b"]; c.check == nil && len(c.waves) > 0 && n > than.ordered["m-b"] {
		t.Errorf("%d nodes were ordered in the zone that fails, without the sidecar %d", n, than.ordered["m-b"])
	}
}

// notLater fails the test if what was waited for took longer with the sidecar than without.
func (c *comparison) notLater(t *testing.T, got, than *ending) {
	t.Helper()
	// One loop per member, of a second and as long again on a busy machine.
	grace := 5*time.Second + time.Duration(len(c.groups))*2*time.Second
	for i := range got.took {
		if got.took[i] == never || got.took[i] > than.took[i]+grace {
			t.Errorf("wave %d runs after %s, without the sidecar after %s", i+1, got.took[i], than.took[i])
		}
	}
}

// An ending is the result of one side of a comparison.
type ending struct {
	took    []time.Duration // by wave that is waited for
	ordered map[string]int64
	sizes   []int64 // that were ordered in the end, in the order of the groups
}

func (e *ending) String() string {
	return fmt.Sprintf("%s, %s, %d ordered", joined(e.took, " and "), joined(e.sizes, "/"), e.total())
}

// total is how many nodes were ordered.
func (e *ending) total() (sum int64) {
	for _, n := range e.ordered {
		sum += n
	}
	return sum
}

func joined[T any](all []T, by string) string {
	var out []string
	for _, one := range all {
		out = append(out, fmt.Sprint(one))
	}
	return strings.ReplaceAll(strings.Join(out, by), never.String(), "never")
}

// play plays one side of the comparison.
func (c *comparison) play(t *testing.T, balanced bool) *ending {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	one := c.trial
	one.flags = append([]string{balancing}, one.flags...) // those of the trial win
	w := startTrial(ctx, t, one, balanced)
	if c.pinned > 0 {
		w.pin(ctx, t, c.pinned, "zone-b")
	}
	out := &ending{}
	switch {
	case c.acts != nil:
		w.began = time.Now()
		out.took = c.acts(ctx, t, w)
	case len(c.waves) > 0:
		out.took = w.playWaves(ctx, t, c.waves)
	case balanced:
		w.play(ctx, t)
		out.took = []time.Duration{w.ran.Sub(w.began).Round(time.Second)}
	default:
		w.demand(ctx, t)
		out.took = []time.Duration{w.within(ctx, t, w.began, w.run)}
	}
	w.tell(ctx, t)
	if balanced && c.check != nil {
		c.check(ctx, t, w)
	}
	out.ordered = w.ordered64()
	for _, g := range w.groups {
		out.sizes = append(out.sizes, w.targets()[g.name])
	}
	return out
}

// playWaves returns how long each of the waves that are waited for took.
func (w *trialRun) playWaves(ctx context.Context, t *testing.T, waves []wave) []time.Duration {
	t.Helper()
	w.began = time.Now()
	var took []time.Duration
	var waiting []*appsv1.Deployment
	for i, wave := range waves {
		if err := waitUntil(ctx, w.cloud.Add(wave.after)); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		waiting = append(waiting, w.more(ctx, t, fmt.Sprint("wave-", i), wave.pods, nil))
		if i+1 < len(waves) && waves[i+1].after > 0 && !waves[i+1].settled {
			continue
		}
		took = append(took, w.within(ctx, t, began, func(ctx context.Context) error {
			for _, d := range waiting {
				if err := w.plane.Until(ctx, d, func() bool { return d.Status.ReadyReplicas == *d.Spec.Replicas }); err != nil {
					return err
				}
			}
			return nil
		}))
		waiting = nil
	}
	return took
}

// within is how long it took since something began until pods ran; never if patience was exhausted.
func (w *trialRun) within(ctx context.Context, t *testing.T, began time.Time, run func(context.Context) error) time.Duration {
	t.Helper()
	patient, cancel := context.WithTimeout(ctx, patience+2*w.boot)
	defer cancel()
	err := run(patient)
	switch {
	case err == nil:
		return time.Since(began).Round(time.Second)
	case patient.Err() == nil || ctx.Err() != nil:
		t.Fatal(err)
	}
	return never
}

// more adds pods that are like those of the first demand, but for a change; nil for none.
func (w *trialRun) more(ctx context.Context, t *testing.T, name string, pods int32, change func(*v1.PodTemplateSpec)) *appsv1.Deployment {
	t.Helper()
	d := w.workloads[w.demands[0].machine].DeepCopy()
	d.ObjectMeta = metav1.ObjectMeta{Name: name, Namespace: d.Namespace}
	d.Status = appsv1.DeploymentStatus{}
	d.Spec.Replicas = &pods
	d.Spec.Selector.MatchLabels = map[string]string{"app": name}
	d.Spec.Template.Labels = d.Spec.Selector.MatchLabels
	if change != nil {
		change(&d.Spec.Template)
	}
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
func (w *trialRun) ordered64() map[string]int64 {
	out := map[string]int64{}
	for _, c := range autoscaler.Increases(w.ordered.Calls()) {
		out[c.Group] += int64(c.Delta)
	}
	return out
}
