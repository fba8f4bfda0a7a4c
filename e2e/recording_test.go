package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/configs/scenarios"
	"github.com/evenkeel/evenkeel/e2e/autoscaler"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/internal/document"
	"github.com/evenkeel/evenkeel/internal/simulate"
)

var recordTo = flag.String("record-scenarios", "", "the folder to which TestRecordScenarios writes what a real Cluster Autoscaler does")

// A recording is a scenario and what happened when it was played with a real Cluster Autoscaler.
type recording struct {
	Scenario v1alpha1.Scenario `json:"scenario"`
	// Runs are by mode.
	Runs map[simulate.Mode]*recordedRun `json:"runs"`
}

// recordedRun is one run. Times are seconds since the cloud started, which is the scenario's time zero.
type recordedRun struct {
	// Started is when Cluster Autoscaler did, once all pods of the start were there, and Ended when
	// nothing had happened for a while.
	Started int             `json:"started"`
	Ended   int             `json:"ended"`
	Calls   []recordedCall  `json:"calls"`
	States  []recordedState `json:"states"`
}

// recordedCall is a call to the cloud that changes a size.
type recordedCall struct {
	At     int    `json:"at"`
	Method string `json:"method"`
	Group  string `json:"group"`
	Nodes  int    `json:"nodes"`
	Failed bool   `json:"failed,omitempty"`
}

// recordedState is the number of nodes of each group that has some, and of the pods that run and
// that do not.
type recordedState struct {
	At      int            `json:"at"`
	Nodes   map[string]int `json:"nodes"`
	Running int            `json:"running"`
	Waiting int            `json:"waiting"`
}

// TestRecordScenarios plays scenarios in all modes for which there is a binary, in real time, and writes what happened.
// Runs that are in the folder are not played again: delete those that should be recorded anew.
func TestRecordScenarios(t *testing.T) {
	if *recordTo == "" {
		t.Skip("-record-scenarios is not set: it names the folder to write to")
	}
	binaries := map[simulate.Mode]string{
		simulate.Stock: autoscaler.Binary(t), simulate.Sidecar: autoscaler.Binary(t), simulate.Linked: os.Getenv(linkedVariable),
	}
	var writing sync.Mutex
	for _, s := range recordedScenarios(t) {
		path := filepath.Join(*recordTo, s.Name+".json")
		there := readRecording(t, path)
		for _, mode := range simulate.Modes() {
			if binaries[mode] == "" || there.Runs[mode] != nil {
				continue
			}
			t.Run(s.Name+"/"+string(mode), func(t *testing.T) {
				t.Parallel()
				run := playLive(t, s, mode, binaries[mode])
				writing.Lock()
				defer writing.Unlock()
				addRun(t, path, s, mode, run)
			})
		}
	}
}

// addRun writes a run beside those of other modes of the same scenario.
func addRun(t *testing.T, path string, s *v1alpha1.Scenario, mode simulate.Mode, run *recordedRun) {
	t.Helper()
	all := readRecording(t, path)
	all.Scenario, all.Runs[mode] = *s, run
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil { // testdata
		t.Fatal(err)
	}
}

// readRecording reads what is there; nothing, if there is no such file.
func readRecording(t *testing.T, path string) recording {
	t.Helper()
	all := recording{Runs: map[simulate.Mode]*recordedRun{}}
	if text, err := os.ReadFile(path); err == nil {
		if err := json.Unmarshal(text, &all); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
	}
	return all
}

// realRun is a scenario that is being played.
type realRun struct {
	scenario *v1alpha1.Scenario
	setup    *simulate.Setup
	plane    *controlplane.ControlPlane
	tap      *autoscaler.Tap
	began    time.Time
	started  time.Time
	states   []recordedState
	fresh    time.Time // when a state or a size changed last
}

// playLive plays a scenario to its end.
func playLive(t *testing.T, s *v1alpha1.Scenario, mode simulate.Mode, binary string) *recordedRun {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	text, err := yaml.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "scenario.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	l := &realRun{scenario: s, setup: setupOf(t, text), plane: controlplane.Start(t, controlplane.Options{})}
	cloud := evenkeel.StartFakeCloud(t, l.plane.Kubeconfig, file)
	l.began = time.Now()
	l.tap = autoscaler.NewTap(t, cloud.Address)
	workloads := l.arrive(ctx, t)
	l.start(t, mode, binary)
	l.started = time.Now()
	l.goOn(ctx, t, workloads)
	return l.result()
}

func setupOf(t *testing.T, text []byte) *simulate.Setup {
	t.Helper()
	docs, err := document.Read("scenario", bytes.NewReader(text), document.Options{Kinds: simulate.Kinds()})
	if err != nil {
		t.Fatal(err)
	}
	setup, err := simulate.Load(&docs[0], simulate.Files{Open: func(name string) (io.ReadCloser, error) { return scenarios.Files.Open(name) }})
	if err != nil {
		t.Fatal(err)
	}
	return setup
}

// arrive creates what is there at the start, and waits until each pod has a node or is known to find none.
func (l *realRun) arrive(ctx context.Context, t *testing.T) []*appsv1.Deployment {
	t.Helper()
	for _, d := range l.setup.DaemonSets {
		d = d.DeepCopy()
		d.Spec.Selector = &metav1.LabelSelector{MatchLabels: d.Spec.Template.Labels}
		d.Spec.Template.Spec = runnable(d.Spec.Template.Spec)
		l.create(ctx, t, d.Name, func() error { return l.plane.Client.Create(ctx, d) })
	}
	existing := 0
	for i := range l.setup.Cloud.Groups {
		existing += l.setup.Cloud.Groups[i].Size
	}
	l.until(ctx, t, "the nodes to serve", func(nodes []v1.Node, _ []v1.Pod) bool {
		return len(nodes) == existing && !slices.ContainsFunc(nodes, func(n v1.Node) bool { return len(n.Spec.Taints) > 0 && !l.tainted() })
	})
	var out []*appsv1.Deployment
	want := 0
	for i := range l.setup.Workloads {
		d := deploymentOf(&l.setup.Workloads[i])
		out = append(out, d)
		want += int(*d.Spec.Replicas)
		l.create(ctx, t, d.Name, func() error { return l.plane.Client.Create(ctx, d) })
	}
	l.until(ctx, t, "the pods of the start", func(_ []v1.Node, pods []v1.Pod) bool {
		seen := 0
		for i := range pods {
			if isUnschedulable(&pods[i]) || isRunning(&pods[i]) {
				seen++
			}
		}
		return seen == want
	})
	return out
}

func (l *realRun) tainted() bool {
	return slices.ContainsFunc(l.scenario.Spec.Machines, func(m v1alpha1.ScenarioMachine) bool { return len(m.Taints) > 0 })
}

func (l *realRun) create(ctx context.Context, t *testing.T, name string, create func() error) {
	t.Helper()
	done := func(context.Context) (bool, error) { return create() == nil, nil }
	if err := wait.PollUntilContextTimeout(ctx, time.Second, 30*time.Second, true, done); err != nil {
		t.Fatalf("creating %s: %v", name, create())
	}
}

// until waits for nodes, and pods that are not of daemon sets.
func (l *realRun) until(ctx context.Context, t *testing.T, what string, wanted func([]v1.Node, []v1.Pod) bool) {
	t.Helper()
	err := wait.PollUntilContextTimeout(ctx, time.Second, 3*time.Minute, true, func(ctx context.Context) (bool, error) {
		nodes, pods, err := l.list(ctx)
		return err == nil && wanted(nodes, pods), nil
	})
	if err != nil {
		t.Fatalf("waiting for %s: %v", what, err)
	}
}

func (l *realRun) list(ctx context.Context) ([]v1.Node, []v1.Pod, error) {
	var nodes v1.NodeList
	var pods v1.PodList
	if err := l.plane.Client.List(ctx, &nodes); err != nil {
		return nil, nil, err
	}
	if err := l.plane.Client.List(ctx, &pods); err != nil {
		return nil, nil, err
	}
	return nodes.Items, slices.DeleteFunc(pods.Items, func(p v1.Pod) bool {
		owner := metav1.GetControllerOfNoCopy(&p)
		return p.DeletionTimestamp != nil || owner != nil && owner.Kind == "DaemonSet"
	}), nil
}

func isUnschedulable(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
	})
}

func isRunning(p *v1.Pod) bool { return p.Spec.NodeName != "" && p.Status.Phase == v1.PodRunning }

// deploymentOf has the replicas of the start, if the workload is there then.
func deploymentOf(w *simulate.Workload) *appsv1.Deployment {
	replicas := int32(0)
	if len(w.Steps) > 0 && w.Steps[0].At == 0 {
		replicas = int32(w.Steps[0].Replicas)
	}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: w.Name, Namespace: w.Namespace},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": w.Name}},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: maps.Clone(w.Pod.Labels), Annotations: w.Pod.Annotations}, Spec: runnable(w.Pod.Spec),
			},
		},
	}
}

// runnable adds what an API server requires: images, and limits of devices.
func runnable(spec v1.PodSpec) v1.PodSpec {
	spec = *spec.DeepCopy()
	for i := range spec.Containers {
		c := &spec.Containers[i]
		c.Image = "none"
		for name, quantity := range c.Resources.Requests {
			if !strings.Contains(string(name), "/") {
				continue
			}
			if c.Resources.Limits == nil {
				c.Resources.Limits = v1.ResourceList{}
			}
			c.Resources.Limits[name] = quantity
		}
	}
	return spec
}

// start starts the autoscaler of a mode, and what belongs to it.
func (l *realRun) start(t *testing.T, mode simulate.Mode, binary string) {
	t.Helper()
	o := &l.scenario.Spec.Options
	stock := autoscaler.Options{Kubeconfig: l.plane.Kubeconfig, Provider: l.tap.Address, Args: l.flags(t, mode)}
	if mode == simulate.Sidecar {
		flags := append(l.sharedFlags(t, o), fmt.Sprint("--balance-similar-node-groups=", balanced(o)))
		s := evenkeel.StartSidecar(t, evenkeel.SidecarOptions{Backend: l.tap.Address, Kubeconfig: l.plane.Kubeconfig, Args: flags})
		stock.Provider, stock.Expander, stock.ExpanderCA = s.Address, s.Expander, s.CA
	}
	stock.Binary = binary
	autoscaler.Start(t, stock)
}

// flags are those of Cluster Autoscaler.
func (l *realRun) flags(t *testing.T, mode simulate.Mode) []string {
	t.Helper()
	o := &l.scenario.Spec.Options
	scan := simulate.DefaultScanInterval
	if o.ScanInterval != nil {
		scan = o.ScanInterval.Duration
	}
	out := []string{
		fmt.Sprint("--scan-interval=", scan), fmt.Sprint("--balance-similar-node-groups=", balanced(o)),
		fmt.Sprint("--salvo-scale-up=", o.SalvoScaleUp),
		fmt.Sprint("--scale-down-enabled=", o.ScaleDownEnabled), "--v=2",
	}
	if o.MaxNodesPerScaleup > 0 {
		out = append(out, fmt.Sprint("--max-nodes-per-scaleup=", o.MaxNodesPerScaleup))
	}
	for name, d := range map[string]*metav1.Duration{
		"--scale-down-unneeded-time": o.ScaleDownUnneededTime, "--scale-down-unready-time": o.ScaleDownUnreadyTime,
		"--scale-down-delay-after-add": o.ScaleDownDelayAfterAdd,
	} {
		if d != nil {
			out = append(out, name+"="+d.Duration.String())
		}
	}
	for name, n := range map[string]*int32{
		"--max-scale-down-parallelism": o.MaxScaleDownParallelism, "--max-drain-parallelism": o.MaxDrainParallelism,
	} {
		if n != nil {
			out = append(out, fmt.Sprint(name, "=", *n))
		}
	}
	foreign := map[simulate.Mode][]string{
		simulate.Stock:   {"--max-balance-deferral", "--node-group-policies"},
		simulate.Sidecar: {"--max-balance-deferral", "--node-group-policies", "--expander", "--balancing"}, // it has them
	}[mode]
	shared := slices.DeleteFunc(l.sharedFlags(t, o), func(flag string) bool {
		return slices.ContainsFunc(foreign, func(prefix string) bool { return strings.HasPrefix(flag, prefix) })
	})
	return append(out, shared...)
}

// balanced says whether what is needed is split over similar node groups.
func balanced(o *v1alpha1.ScenarioOptions) bool {
	return o.BalanceSimilarNodeGroups == nil || *o.BalanceSimilarNodeGroups
}

// sharedFlags are those that Cluster Autoscaler and the sidecar or the linked build have by one name.
func (l *realRun) sharedFlags(t *testing.T, o *v1alpha1.ScenarioOptions) []string {
	t.Helper()
	var out []string
	for name, d := range map[string]*metav1.Duration{
		"--initial-node-group-backoff-duration": o.InitialNodeGroupBackoffDuration,
		"--max-node-group-backoff-duration":     o.MaxNodeGroupBackoffDuration,
		"--node-group-backoff-reset-timeout":    o.NodeGroupBackoffResetTimeout, "--max-node-provision-time": o.MaxNodeProvisionTime,
		"--max-balance-deferral": o.MaxBalanceDeferral,
	} {
		if d != nil {
			out = append(out, name+"="+d.Duration.String())
		}
	}
	if o.MaxNodesTotal > 0 {
		out = append(out, fmt.Sprint("--max-nodes-total=", o.MaxNodesTotal))
	}
	for name, value := range map[string]string{"--cores-total": o.CoresTotal, "--memory-total": o.MemoryTotal, "--expander": o.Expander} {
		if value != "" {
			out = append(out, name+"="+value)
		}
	}
	for _, label := range o.BalancingIgnoreLabels {
		out = append(out, "--balancing-ignore-label="+label)
	}
	if len(l.scenario.Spec.Policies) > 0 {
		text, err := json.Marshal(v1alpha1.NodeGroupPolicies{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.KindNodeGroupPolicies},
			Spec:     v1alpha1.NodeGroupPoliciesSpec{Sets: l.scenario.Spec.Policies},
		})
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "policies.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		out = append(out, "--node-group-policies="+file)
	}
	return out
}

// longest is how long scenarios last that end when nothing happens any more.
const longest = 6 * time.Minute

// goOn carries out the steps of the workloads at their times, and watches until the end.
func (l *realRun) goOn(ctx context.Context, t *testing.T, workloads []*appsv1.Deployment) {
	t.Helper()
	end := l.began.Add(l.setup.Duration)
	last := l.lastEvent()
	l.fresh = time.Now()
	done, asked := make([]int, len(workloads)), 0
	for now := range ticks(ctx) {
		for i := range l.setup.Workloads {
			steps := l.setup.Workloads[i].Steps
			for done[i] < len(steps) && !now.Before(l.began.Add(steps[done[i]].At)) {
				l.scale(ctx, t, workloads[i], int32(steps[done[i]].Replicas))
				done[i]++
			}
		}
		l.look(ctx, now)
		if n := len(l.calls()); n > asked {
			asked, l.fresh = n, now
		}
		quiet := max(30*time.Second, 3*l.setup.ScanInterval)
		if now.After(end) || l.setup.Duration == longest && now.After(l.began.Add(last+quiet)) && now.Sub(l.fresh) > quiet {
			return
		}
	}
	t.Fatal(context.Cause(ctx))
}

func (l *realRun) scale(ctx context.Context, t *testing.T, d *appsv1.Deployment, replicas int32) {
	t.Helper()
	if *d.Spec.Replicas == replicas {
		return
	}
	if err := l.plane.Client.Get(ctx, client.ObjectKeyFromObject(d), d); err != nil {
		t.Fatal(err)
	}
	*d.Spec.Replicas = replicas
	if err := l.plane.Client.Update(ctx, d); err != nil {
		t.Fatal(err)
	}
	l.fresh = time.Now()
}

// lastEvent is when the last thing happens that the scenario says.
func (l *realRun) lastEvent() time.Duration {
	var last time.Duration
	for i := range l.setup.Workloads {
		for _, step := range l.setup.Workloads[i].Steps {
			last = max(last, step.At)
		}
	}
	faults := l.setup.Cloud
	see := func(w *v1alpha1.FaultWindow) {
		last = max(last, w.From.Duration, ptr.Deref(w.Until, metav1.Duration{}).Duration)
	}
	for i := range faults.Outages {
		see(&faults.Outages[i].FaultWindow)
	}
	for i := range faults.StockOuts {
		see(&faults.StockOuts[i].FaultWindow)
	}
	for i := range faults.Calls {
		see(&faults.Calls[i].FaultWindow)
	}
	return last
}

func ticks(ctx context.Context) func(func(time.Time) bool) {
	return func(yield func(time.Time) bool) {
		ticker := clock.RealClock{}.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case now := <-ticker.C():
				if !yield(now) {
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}
}

// look adds a state if it has changed.
func (l *realRun) look(ctx context.Context, now time.Time) {
	nodes, pods, err := l.list(ctx)
	if err != nil {
		return // the next one will do
	}
	state := recordedState{At: l.elapsed(now), Nodes: map[string]int{}}
	for i := range nodes {
		state.Nodes[nodes[i].Annotations[groupAnnotation]]++
	}
	for i := range pods {
		if isRunning(&pods[i]) {
			state.Running++
		} else {
			state.Waiting++
		}
	}
	if n := len(l.states); n > 0 {
		if before := l.states[n-1]; maps.Equal(before.Nodes, state.Nodes) && before.Running == state.Running && before.Waiting == state.Waiting {
			return
		}
	}
	l.states, l.fresh = append(l.states, state), now
}

func (l *realRun) elapsed(at time.Time) int { return int(at.Sub(l.began).Seconds()) }

// result is what the cloud was asked for, and the states.
func (l *realRun) result() *recordedRun {
	return &recordedRun{Started: l.elapsed(l.started), Ended: l.elapsed(time.Now()), States: l.states, Calls: l.calls()}
}

// calls are those that change sizes.
func (l *realRun) calls() []recordedCall {
	out := []recordedCall{}
	for _, c := range l.tap.Calls() {
		switch c.Method {
		case autoscaler.IncreaseSize, autoscaler.DecreaseTargetSize, autoscaler.DeleteNodes:
			out = append(out, recordedCall{
				At: l.elapsed(c.At), Method: strings.TrimPrefix(c.Method, "NodeGroup"), Group: c.Group,
				Nodes: max(c.Delta, -c.Delta, c.Nodes), Failed: !c.OK,
			})
		}
	}
	return out
}
