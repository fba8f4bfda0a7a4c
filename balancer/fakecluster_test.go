package balancer

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/podhealth"
)

const (
	timeout = 5 * time.Minute
	stable  = 5 * time.Minute
)

var noon = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// fakeCluster is a cluster that runs of every target as much as it is able to, at once.
type fakeCluster struct {
	in    Input
	sizes []int32
	able  []int32
	pods  [][]podhealth.Pod
	// writes counts the sizes written.
	writes int
	// forgetful worlds have a new controller for every pass: it knows what the API server stores,
	// and nothing else.
	forgetful bool
}

// targetOf makes a target with a Deployment of its name; negative bounds are none.
func targetOf(name string, low, high int32) v1alpha1.BalancerTarget {
	t := v1alpha1.BalancerTarget{Name: name, ScaleTargetRef: v1alpha1.ScaleTargetReference{Kind: "Deployment", Name: name}}
	if low >= 0 {
		t.MinReplicas = &low
	}
	if high >= 0 {
		t.MaxReplicas = &high
	}
	return t
}

func priority(names ...string) v1alpha1.BalancerPolicy {
	return v1alpha1.BalancerPolicy{PolicyName: v1alpha1.PriorityPolicyName, Priorities: &v1alpha1.PriorityPolicy{TargetOrder: names}}
}

func proportional(rates map[string]int32) v1alpha1.BalancerPolicy {
	return v1alpha1.BalancerPolicy{PolicyName: v1alpha1.ProportionalPolicyName,
		Proportions: &v1alpha1.ProportionalPolicy{TargetProportions: rates}}
}

func withFallback(p v1alpha1.BalancerPolicy) v1alpha1.BalancerPolicy {
	p.Fallback = &v1alpha1.Fallback{StartupTimeout: metav1.Duration{Duration: timeout}, StabilizationTime: metav1.Duration{Duration: stable}}
	return p
}

func specOf(replicas int32, policy v1alpha1.BalancerPolicy, targets ...v1alpha1.BalancerTarget) v1alpha1.BalancerSpec {
	return v1alpha1.BalancerSpec{
		Replicas: &replicas,
		Targets:  targets,
		Selector: v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"app": "web"}},
		Policy:   policy,
	}
}

// newFakeCluster has targets of the sizes given, able to run anything.
func newFakeCluster(spec v1alpha1.BalancerSpec, sizes ...int32) *fakeCluster {
	w := &fakeCluster{in: Input{Key: "shop/web", Generation: 1, Spec: spec, Now: noon}, sizes: sizes,
		pods: make([][]podhealth.Pod, len(sizes))}
	for range sizes {
		w.able = append(w.able, 1<<30)
	}
	w.run()
	return w
}

// run brings the pods to the sizes: those that do not run leave first, and as many run as the
// target is able to.
func (w *fakeCluster) run() {
	for i, size := range w.sizes {
		pods := w.pods[i]
		for len(pods) < int(size) {
			pods = append(pods, podhealth.Pod{Created: w.in.Now, Phase: v1.PodPending})
		}
		pods = pods[:size]
		running := min(int(size), int(w.able[i]))
		for j := range pods {
			if j < running {
				pods[j].Phase, pods[j].Ready, pods[j].WasReady = v1.PodRunning, true, true
			} else {
				pods[j].Phase, pods[j].Ready, pods[j].WasReady = v1.PodPending, false, false
			}
		}
		w.pods[i] = pods
	}
}

// observe fills in what a driver finds.
func (w *fakeCluster) observe() {
	w.in.Targets = nil
	w.in.Pods = 0
	for i, t := range w.in.Spec.Targets {
		w.in.Targets = append(w.in.Targets, TargetObservation{Name: t.Name, Replicas: w.sizes[i], Pods: w.pods[i]})
		w.in.Pods += int32(len(w.pods[i]))
	}
}

// pass makes one decision and carries it out.
func (w *fakeCluster) pass() (Decision, error) {
	w.observe()
	d, err := Decide(w.in)
	if err != nil {
		return d, err
	}
	w.apply(d)
	if w.forgetful {
		return d, w.restart()
	}
	return d, nil
}

func (w *fakeCluster) apply(d Decision) {
	for _, write := range d.Writes {
		for i, t := range w.in.Spec.Targets {
			if t.Name == write.Target {
				w.sizes[i] = write.To
				w.writes++
			}
		}
	}
	w.in.Status = d.Status
	if d.Adopt != nil {
		w.in.Spec.Replicas = d.Adopt
	}
}

func (w *fakeCluster) restart() error {
	stored, err := json.Marshal(w.in.Status)
	if err != nil {
		return err
	}
	w.in.Status = v1alpha1.BalancerStatus{}
	return json.Unmarshal(stored, &w.in.Status)
}

// converge makes decisions as long as they write anything, the pods starting at once.
func (w *fakeCluster) converge() error {
	for range 1000 {
		d, err := w.pass()
		if err != nil {
			return err
		}
		w.run()
		if len(d.Writes) == 0 {
			return nil
		}
	}
	return fmt.Errorf("no end of writes: %v", w.sizes)
}

// wait lets time pass, then settles.
func (w *fakeCluster) wait(d time.Duration) error {
	w.in.Now = w.in.Now.Add(d)
	w.run()
	return w.converge()
}

// must stops a test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// randomSpec draws a valid spec of up to k targets.
func randomSpec(r *rand.Rand, k int) v1alpha1.BalancerSpec {
	var targets []v1alpha1.BalancerTarget
	rates := map[string]int32{}
	var names []string
	for i := range 1 + r.IntN(k) {
		name := string(rune('a' + i))
		low, high := int32(-1), int32(-1)
		if r.IntN(3) == 0 {
			low = r.Int32N(6)
		}
		if r.IntN(3) == 0 {
			high = max(low, 0) + r.Int32N(20)
		}
		targets = append(targets, targetOf(name, low, high))
		if i == 0 || r.IntN(6) > 0 {
			rates[name] = r.Int32N(10)
			names = append(names, name)
		}
	}
	policy := proportional(rates)
	if r.IntN(2) == 0 {
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		policy = priority(names...)
	}
	policy.Rounding = []v1alpha1.Rounding{"", v1alpha1.RoundWebster, v1alpha1.RoundDHondt}[r.IntN(3)]
	policy.MinMode = []v1alpha1.MinMode{"", v1alpha1.MinAdditive}[r.IntN(2)]
	policy.TieBreak = []v1alpha1.TieBreak{"", v1alpha1.TieByHash}[r.IntN(2)]
	if r.IntN(2) == 0 {
		policy.Rebalance = new(false)
	}
	return specOf(r.Int32N(41), withFallback(policy), targets...)
}
