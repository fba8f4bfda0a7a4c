package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/autoscaler"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/e2e/evenkeel"
	"github.com/evenkeel/evenkeel/nodegroupset"
)

// startTrial starts the cloud, fills the nodes it begins with, and starts the rest.
func startTrial(ctx context.Context, t *testing.T, c trial, balanced bool) *trialRun {
	t.Helper()
	var options controlplane.Options
	if len(c.defaults) > 0 {
		profile := c.profile(t)
		options.Args = map[controlplane.Program][]string{controlplane.Scheduler: {"--config=" + profile}}
		c.flags = append(slices.Clone(c.flags), "--scheduler-config-file="+profile)
	}
	w := &trialRun{trial: c, plane: controlplane.Start(t, options), workloads: map[string]*appsv1.Deployment{}}
	if c.provision > 0 {
		c.flags = append(slices.Clone(c.flags), "--max-node-provision-time="+c.provision.String())
	}
	cloud := evenkeel.StartFakeCloud(t, w.plane.Kubeconfig, c.write(t))
	w.cloud = time.Now()
	w.ordered = autoscaler.NewTap(t, cloud.Address)
	w.fill(ctx, t)
	if c.prepare != nil {
		c.prepare(ctx, t, w)
	}
	stock := autoscaler.Options{Kubeconfig: w.plane.Kubeconfig, Provider: w.ordered.Address, Args: c.flags}
	w.asked = w.ordered
	switch {
	case balanced && c.expanderAlone:
		w.startExpander(ctx, t, &stock)
	case balanced:
		w.startSidecar(t, &stock)
	}
	w.autoscaler = autoscaler.Start(t, stock)
	if err := w.loops(ctx, 2); err != nil {
		t.Fatalf("waiting for the autoscaler to look around: %v", err)
	}
	return w
}

// startSidecar starts the sidecar, and has the autoscaler ask it.
func (w *trialRun) startSidecar(t *testing.T, stock *autoscaler.Options) {
	t.Helper()
	o := evenkeel.SidecarOptions{Backend: w.ordered.Address, Record: filepath.Join(t.ArtifactDir(), "sidecar.jsonl")}
	if !w.withoutCluster {
		o.Kubeconfig = w.plane.Kubeconfig
	}
	if w.slow > 0 {
		o.Kubeconfig = w.slowRoad(t)
	}
	if w.provision > 0 {
		o.Args = []string{"--max-node-provision-time=" + w.provision.String()}
	}
	o.Args = append(o.Args, w.sidecarFlags...)
	s := evenkeel.StartSidecar(t, o)
	w.sidecar = s.Process
	w.asked = autoscaler.NewTap(t, s.Address)
	stock.Provider, stock.Expander, stock.ExpanderCA = w.asked.Address, s.Expander, s.CA
	if w.question != nil {
		stock.Expander = autoscaler.NewTunnel(t, s.Expander, func() { w.question(w) })
	}
}

// startExpander starts the expander with the rights that the manifests give it, and has the autoscaler ask it. The
// autoscaler calls its provider itself.
func (w *trialRun) startExpander(ctx context.Context, t *testing.T, stock *autoscaler.Options) {
	t.Helper()
	apply(ctx, t, w.plane, "../expander/rbac")
	kubeconfig := w.kubeconfig(t, func(c *clientcmdapi.Config) {
		for _, user := range c.AuthInfos {
			user.Impersonate = "system:serviceaccount:kube-system:evenkeel-expander"
			user.ImpersonateGroups = []string{"system:serviceaccounts", "system:authenticated"}
		}
	})
	e := evenkeel.StartExpander(t, evenkeel.ExpanderOptions{Kubeconfig: kubeconfig, Args: w.sidecarFlags})
	w.sidecar = e.Process
	stock.Expander, stock.ExpanderCA = e.Address, e.CA
	if w.replica {
		other := evenkeel.StartExpander(t, evenkeel.ExpanderOptions{Kubeconfig: kubeconfig, Args: w.sidecarFlags, Certificates: e.Home})
		stock.Expander = autoscaler.NewService(t, e.Address, other.Address)
	}
	if w.question != nil {
		stock.Expander = autoscaler.NewTunnel(t, e.Address, func() { w.question(w) })
	}
}

// profile writes a configuration of the scheduler with the default constraints. The scheduler runs
// where its kubeconfig is.
func (c trial) profile(t *testing.T) string {
	t.Helper()
	text, err := json.Marshal(map[string]any{ // JSON is YAML
		"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
		"clientConnection": map[string]any{"kubeconfig": "kubeconfig", "qps": 1000, "burst": 1000},
		"leaderElection":   map[string]any{"leaderElect": false},
		"profiles": []any{map[string]any{"pluginConfig": []any{map[string]any{"name": "PodTopologySpread", "args": map[string]any{
			"defaultingType": "List", "defaultConstraints": c.defaults,
		}}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scheduler.yaml")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// slowRoad returns a kubeconfig that leads to the API server on a slow road.
func (w *trialRun) slowRoad(t *testing.T) string {
	t.Helper()
	return w.kubeconfig(t, func(config *clientcmdapi.Config) {
		for _, c := range config.Clusters {
			server, err := url.Parse(c.Server)
			if err != nil {
				t.Fatal(err)
			}
			server.Host = autoscaler.NewSlowRoad(t, server.Host, w.slow)
			c.Server = server.String()
		}
	})
}

// kubeconfig returns a changed copy of the one that leads to the API server.
func (w *trialRun) kubeconfig(t *testing.T, change func(*clientcmdapi.Config)) string {
	t.Helper()
	config, err := clientcmd.LoadFromFile(w.plane.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	change(config)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// write writes the cloud as a scenario file.
func (c trial) write(t *testing.T) string {
	t.Helper()
	s := v1alpha1.Scenario{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: "Scenario"},
		ObjectMeta: metav1.ObjectMeta{Name: "stock-autoscaler"},
	}
	for i, d := range c.demands {
		s.Spec.Machines = append(s.Spec.Machines, v1alpha1.ScenarioMachine{Name: d.machine, Resources: v1.ResourceList{
			v1.ResourceCPU: *resource.NewQuantity(int64(2+i), resource.DecimalSI), v1.ResourceMemory: resource.MustParse("8Gi"),
		}})
	}
	for _, g := range c.groups {
		registration, boot := time.Duration(0), c.boot
		if other, ok := c.boots[g.machine]; ok {
			boot = other
		}
		if slices.Contains(c.dead, g.name) {
			registration = never
		}
		s.Spec.NodeGroups = append(s.Spec.NodeGroups, v1alpha1.ScenarioNodeGroup{
			Name: g.name, Machine: g.machine, Zone: "zone-" + g.name[len(g.name)-1:],
			Size: int32(g.size), Min: int32(c.mins[g.name]), Max: ptr.To(int32(g.max)),
			NodeTimes: v1alpha1.NodeTimes{
				BootTime: &metav1.Duration{Duration: boot}, RegistrationDelay: &metav1.Duration{Duration: registration},
				ReadyDelay: &metav1.Duration{Duration: c.ready[g.machine]},
				ListDelay:  &metav1.Duration{Duration: c.late},
			},
		})
	}
	s.Spec.Faults = c.faults
	s.Spec.Faults.Outages = append(s.Spec.Faults.Outages, c.outages...)
	if c.refusing != "" {
		until := metav1.Duration{Duration: 2 * time.Minute}
		s.Spec.Faults.StockOuts = []v1alpha1.StockOut{{Groups: []string{c.refusing}, FaultWindow: v1alpha1.FaultWindow{Until: &until}}}
	}
	data, err := json.Marshal(s) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "fleet.yaml")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// fill puts pods on all nodes that are there, for which nobody need scale up.
func (w *trialRun) fill(ctx context.Context, t *testing.T) {
	t.Helper()
	for i, d := range w.demands {
		nodes := 0
		for _, g := range w.groups {
			if g.machine == d.machine {
				nodes += int(g.size)
			}
		}
		// A little is left, as on real nodes; what more pods could share is not.
		cpu := resource.NewMilliQuantity(int64(1000*(2+i)/d.perNode)-100, resource.DecimalSI)
		workload := deployment(d.machine, int32(nodes*d.perNode), *cpu)
		for _, c := range d.spread {
			c.LabelSelector = workload.Spec.Selector
			workload.Spec.Template.Spec.TopologySpreadConstraints = append(workload.Spec.Template.Spec.TopologySpreadConstraints, c)
		}
		if d.pod != nil {
			d.pod(&workload.Spec.Template)
		}
		if err := w.plane.Client.Create(ctx, workload); err != nil {
			t.Fatal(err)
		}
		w.workloads[d.machine] = workload
	}
	if err := w.run(ctx); err != nil {
		t.Fatal(err)
	}
}

// pin adds pods, one on a node, that run in one zone alone.
func (w *trialRun) pin(ctx context.Context, t *testing.T, pods int32, zone string) {
	t.Helper()
	w.add(ctx, t, w.demands[0].machine+"-"+zone, pods, inZone(zone))
}

// add is more, and run waits for these pods, too.
func (w *trialRun) add(ctx context.Context, t *testing.T, name string, pods int32, change func(*v1.PodTemplateSpec)) {
	t.Helper()
	w.workloads[name] = w.more(ctx, t, name, pods, change)
}

// inZone pins pods to a zone.
func inZone(zone string) func(*v1.PodTemplateSpec) {
	return func(pod *v1.PodTemplateSpec) { pod.Spec.NodeSelector[v1.LabelTopologyZone] = zone }
}

func deployment(machine string, replicas int32, cpu resource.Quantity) *appsv1.Deployment {
	labels := map[string]string{"app": machine}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: machine, Namespace: metav1.NamespaceDefault},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: v1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: v1.PodSpec{
					NodeSelector: map[string]string{v1.LabelInstanceTypeStable: machine},
					Containers: []v1.Container{{Name: "main", Image: "none", Resources: v1.ResourceRequirements{
						Requests: v1.ResourceList{v1.ResourceCPU: cpu},
					}}},
				},
			},
		},
	}
}

// run waits until all pods run that can.
func (w *trialRun) run(ctx context.Context) error {
	for _, d := range w.workloads {
		if err := w.plane.Until(ctx, d, func() bool {
			stuck := int32(0)
			if !w.began.IsZero() && d.Name == w.demands[0].machine {
				stuck = w.stuck
			}
			return d.Status.ObservedGeneration == d.Generation && d.Status.ReadyReplicas >= *d.Spec.Replicas-stuck
		}); err != nil {
			return err
		}
	}
	return nil
}

// loops waits until the autoscaler has begun so many more loops.
func (w *trialRun) loops(ctx context.Context, more int) error {
	before := autoscaler.Refreshes(w.asked.Calls())
	return w.asked.Until(ctx, func(calls []autoscaler.Call) bool { return autoscaler.Refreshes(calls) >= before+more })
}

// demand makes the demands, upon which the mishap strikes.
func (w *trialRun) demand(ctx context.Context, t *testing.T) {
	t.Helper()
	w.began = time.Now()
	for _, d := range w.demands {
		workload := w.workloads[d.machine]
		*workload.Spec.Replicas += int32(d.pods)
		if err := w.plane.Client.Update(ctx, workload); err != nil {
			t.Fatal(err)
		}
	}
	if w.mishap != nil {
		w.mishap(ctx, t, w)
	}
}

// play makes the demands and waits until they are met and the autoscaler at rest.
func (w *trialRun) play(ctx context.Context, t *testing.T) {
	t.Helper()
	w.demand(ctx, t)
	if err := w.run(ctx); err != nil {
		w.tell(context.WithoutCancel(ctx), t)
		t.Fatal(err)
	}
	w.ran = time.Now()
	if err := w.loops(ctx, 3); err != nil {
		t.Fatalf("waiting for the autoscaler to come to rest: %v", err)
	}
}

// sizes counts the nodes of each group.
func (w *trialRun) sizes(ctx context.Context, t *testing.T) map[string]int64 {
	t.Helper()
	var nodes v1.NodeList
	if err := w.plane.Client.List(ctx, &nodes); err != nil {
		t.Fatal(err)
	}
	sizes := map[string]int64{}
	for _, g := range w.groups {
		sizes[g.name] = 0
	}
	for _, n := range nodes.Items {
		sizes[n.Annotations[groupAnnotation]]++
	}
	return sizes
}

// tell prints the result.
func (w *trialRun) tell(ctx context.Context, t *testing.T) {
	t.Helper()
	sizes := w.sizes(ctx, t)
	var before, after, orders []string
	for _, g := range w.groups {
		before, after = append(before, fmt.Sprint(g.size)), append(after, fmt.Sprint(sizes[g.name]))
	}
	for _, c := range autoscaler.Increases(w.ordered.Calls()) {
		orders = append(orders, fmt.Sprintf("%s%+d after %.1fs", c.Group, c.Delta, c.At.Sub(w.began).Seconds()))
	}
	t.Logf("%s -> %s in %.0fs, %d loops with increases; ordered: %s", strings.Join(before, "/"), strings.Join(after, "/"),
		time.Since(w.began).Seconds(), autoscaler.Growing(w.asked.Calls()), strings.Join(orders, ", "))
}

// check compares with one exact split of each set.
func (w *trialRun) check(ctx context.Context, t *testing.T) {
	t.Helper()
	w.tell(ctx, t)
	targets := w.targets()
	for _, d := range w.demands {
		var got []int64
		for _, g := range w.groups {
			if g.machine == d.machine {
				got = append(got, targets[g.name])
			}
		}
		if want := w.splits(t, d); !slices.ContainsFunc(want, func(s []int64) bool { return slices.Equal(s, got) }) {
			t.Errorf("ordered were sizes %v of machine %s for %d more nodes, want one of %v", got, d.machine, d.nodes(), want)
		}
	}
	if sizes := w.sizes(ctx, t); !maps.Equal(targets, sizes) {
		t.Errorf("there are %v nodes, and ordered were %v", sizes, targets)
	}
	// One for each member that grows. Twice that where the autoscaler looked while
	// the scheduler was still finding out which pods have no place.
	if got, most := autoscaler.Growing(w.asked.Calls()), 2*len(w.groups); got > most {
		t.Errorf("%d loops had increases, want at most %d", got, most)
	}
}

// targets are the sizes that the cloud was asked for. A node that was ordered
// twice is in there twice.
func (w *trialRun) targets() map[string]int64 {
	targets := map[string]int64{}
	for _, g := range w.groups {
		targets[g.name] = g.size
	}
	for _, c := range w.ordered.Calls() {
		if c.OK {
			targets[c.Group] += int64(c.Delta) // zero, of no group, for calls that change no size
		}
	}
	delete(targets, "")
	return targets
}

// splits are the exact splits of the nodes that a demand needs. Which group is
// first among equals is the sidecar's choice.
func (w *trialRun) splits(t *testing.T, d demand) [][]int64 {
	t.Helper()
	var groups []nodegroupset.Group
	for _, g := range w.groups {
		if g.machine != d.machine {
			continue
		}
		if g.name == w.refusing || slices.Contains(w.barren, g.name) {
			g.max = g.size
		}
		groups = append(groups, nodegroupset.Group{Name: g.name, Size: g.size, Max: g.max})
	}
	var out [][]int64
	for _, chosen := range groups {
		result, err := nodegroupset.Split(nodegroupset.SplitRequest{Nodes: d.nodes(), Chosen: chosen.Name, Groups: groups})
		if err != nil || result.Unplaced > 0 {
			t.Fatalf("the trial has no answer: %v %+v", err, result)
		}
		var sizes []int64
		for _, g := range result.Groups {
			sizes = append(sizes, g.NewSize)
		}
		out = append(out, sizes)
	}
	return out
}
