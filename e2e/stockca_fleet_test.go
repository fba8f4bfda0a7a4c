package e2e

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/e2e/autoscaler"
)

// mixedFor is 20 minutes in make nightly.
var mixedFor = flag.Duration("mixed-for", 4*time.Minute, "for how long TestStockAutoscalerOnAMixedFleet plays")

// The fleet: sets of four groups, each of a machine type of its own.
const (
	mixedSets  = 10
	mixedBoot  = 25 * time.Second
	mixedStart = 40 * time.Second // until the autoscaler has come to rest and the changes begin, about
)

// A fleet as they are, for four minutes or more: 40 groups in 10 sets, 23 deployments of all kinds that grow and
// shrink, two daemon sets, scale-down after 90 s, refusals, silent stock-outs, slow calls, an outage of the
// provider, and a zone that is not ready for a while; with the sidecar and, at the same time, without it. The
// autoscaler balances by itself on both sides, as the manifests have it.
func TestStockAutoscalerOnAMixedFleet(t *testing.T) {
	autoscaler.Binary(t)
	with, alone := make(chan *figures, 1), make(chan *figures, 1)
	t.Run("both", func(t *testing.T) {
		t.Run("with the sidecar", func(t *testing.T) { t.Parallel(); with <- playFleet(t, true) })
		t.Run("alone", func(t *testing.T) { t.Parallel(); alone <- playFleet(t, false) })
	})
	if t.Failed() {
		return
	}
	got, than := <-with, <-alone
	t.Logf("| figure | CA alone | with the sidecar |\n|---|---|---|\n%s", figureRows(than, got))
	got.notWorse(t, than)
}

// mixedFleet is the trial: a plain deployment for each set is its demand.
func mixedFleet(length time.Duration) trial {
	at := func(part float64) metav1.Duration {
		return metav1.Duration{Duration: mixedStart + time.Duration(part*float64(length))}
	}
	between := func(from, until float64) v1alpha1.FaultWindow {
		end := at(until)
		return v1alpha1.FaultWindow{From: at(from), Until: &end}
	}
	outage := v1alpha1.FaultWindow{From: at(.5), Until: &metav1.Duration{Duration: at(.5).Duration + 30*time.Second}}
	c := trial{
		name: "a mixed fleet", boot: mixedBoot, provision: 5 * time.Minute, prepare: prepareFleet,
		flags: []string{
			balancing, "--scan-interval=10s", "--v=1", "--scale-down-unneeded-time=90s", "--scale-down-delay-after-add=30s",
			"--scale-down-delay-after-delete=0s", "--scale-down-delay-after-failure=30s",
		},
		outages: []v1alpha1.Outage{{Zones: []string{"zone-c"}, FaultWindow: between(.65, .75)}},
		faults: v1alpha1.ScenarioFaults{
			StockOuts: []v1alpha1.StockOut{
				{Groups: []string{"m1-b", "m4-a", "m7-c"}, FaultWindow: between(.1, .3)},
				{Groups: []string{"m2-d", "m5-a"}, FaultWindow: between(.25, .45), Mode: v1alpha1.StockOutSilent},
			},
			Calls: []v1alpha1.CallFault{
				{Methods: []string{"IncreaseSize", "DeleteNodes"}, FaultWindow: between(.2, .6), Delay: &metav1.Duration{Duration: 2 * time.Second}},
				{FaultWindow: outage, Error: "Unavailable"},
			},
		},
	}
	for i := range mixedSets {
		machine := fmt.Sprint("m", i)
		c.groups = append(c.groups, zones(machine, 20, 1, 1, 1, 1)...)
		c.demands = append(c.demands, demand{machine: machine, perNode: 2})
	}
	return c
}

// A mixedKind is a deployment of other pods than plain ones.
type mixedKind struct {
	name string
	set  int
	pod  func(*v1.PodTemplateSpec)
}

func mixedKinds() []mixedKind {
	spread := func(how v1.UnsatisfiableConstraintAction) func(*v1.PodTemplateSpec) {
		return func(pod *v1.PodTemplateSpec) { spreadOverZones(pod, how) }
	}
	with := func(changes ...func(*v1.PodTemplateSpec)) func(*v1.PodTemplateSpec) {
		return func(pod *v1.PodTemplateSpec) {
			for _, change := range changes {
				change(pod)
			}
		}
	}
	return []mixedKind{
		{"apart-0", 0, onePerNode},
		{"apart-1", 1, with(onePerNode, inClass("high"))},
		{"hard-0", 2, spread(v1.DoNotSchedule)},
		{"hard-1", 3, spread(v1.DoNotSchedule)},
		{"hard-2", 4, with(spread(v1.DoNotSchedule), inClass("high"))},
		{"soft-0", 5, spread(v1.ScheduleAnyway)},
		{"soft-1", 6, spread(v1.ScheduleAnyway)},
		{"pinned-0", 2, inZone("zone-b")},
		{"pinned-1", 7, inZone("zone-c")},
		{"port", 8, hostPort},
		{"volume-b", 9, withVolume("zone-b")},
		{"volume-d", 3, withVolume("zone-d")},
		{"low", 6, with(onePerNode, inClass("low"))},
	}
}

func spreadOverZones(pod *v1.PodTemplateSpec, how v1.UnsatisfiableConstraintAction) {
	pod.Spec.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: v1.LabelTopologyZone, WhenUnsatisfiable: how,
		LabelSelector: &metav1.LabelSelector{MatchLabels: maps.Clone(pod.Labels)},
	}}
}

func inClass(class string) func(*v1.PodTemplateSpec) {
	return func(pod *v1.PodTemplateSpec) { pod.Spec.PriorityClassName = class }
}

func hostPort(pod *v1.PodTemplateSpec) {
	pod.Spec.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}}
}

// withVolume mounts the claim of a zone, which prepareFleet binds.
func withVolume(zone string) func(*v1.PodTemplateSpec) {
	return func(pod *v1.PodTemplateSpec) {
		pod.Spec.Volumes = []v1.Volume{{Name: "data",
			VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: zone}}}}
	}
}

// prepareFleet adds what is there beside plain deployments, all of them without pods.
func prepareFleet(ctx context.Context, t *testing.T, w *trialRun) {
	t.Helper()
	objects := []client.Object{
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 1000},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low"}, Value: -5},
		daemonSet("agent", resource.MustParse("50m"), nil),
		daemonSet("logs", resource.MustParse("40m"), map[string]string{v1.LabelTopologyZone: "zone-b"}),
	}
	for _, zone := range []string{"zone-b", "zone-d"} {
		size := v1.ResourceList{v1.ResourceStorage: resource.MustParse("1Gi")}
		modes, class := []v1.PersistentVolumeAccessMode{v1.ReadWriteMany}, ""
		objects = append(objects, &v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: zone}, Spec: v1.PersistentVolumeSpec{
			Capacity: size, AccessModes: modes, PersistentVolumeSource: v1.PersistentVolumeSource{HostPath: &v1.HostPathVolumeSource{Path: "/data"}},
			NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{
				MatchExpressions: []v1.NodeSelectorRequirement{{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{zone}}},
			}}}},
		}}, &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: zone, Namespace: metav1.NamespaceDefault},
			Spec: v1.PersistentVolumeClaimSpec{
				AccessModes: modes, Resources: v1.VolumeResourceRequirements{Requests: size}, StorageClassName: &class, VolumeName: zone,
			}})
	}
	for _, k := range mixedKinds() {
		machine := w.demands[k.set].machine
		d := deployment(k.name, 0, *resource.NewMilliQuantity(int64(500*(2+k.set)-100), resource.DecimalSI))
		d.Spec.Template.Spec.NodeSelector[v1.LabelInstanceTypeStable] = machine
		k.pod(&d.Spec.Template)
		w.workloads[k.name] = d
		objects = append(objects, d)
	}
	for _, o := range objects {
		if err := w.plane.Client.Create(ctx, o); err != nil {
			t.Fatalf("creating %T %s: %v", o, o.GetName(), err)
		}
	}
}

// A replicasAt is what a deployment asks for from a time on.
type replicasAt struct {
	at       time.Duration
	workload string
	replicas int32
}

// mixedChanges are the same in every run: each deployment grows or shrinks about every 90 seconds, but in the last
// minute, so that what is asked for can be done.
func mixedChanges(workloads map[string]*appsv1.Deployment, length time.Duration) []replicasAt {
	random := rand.New(rand.NewPCG(40, 23))
	upTo := func(d time.Duration) time.Duration { return time.Duration(random.Int64N(int64(d))) }
	var out []replicasAt
	for _, name := range slices.Sorted(maps.Keys(workloads)) {
		least, most := *workloads[name].Spec.Replicas, int32(14)
		for at := upTo(80 * time.Second); at < length-time.Minute; at += 30*time.Second + upTo(2*time.Minute) {
			out = append(out, replicasAt{at: at, workload: name, replicas: least + random.Int32N(most)})
		}
	}
	slices.SortStableFunc(out, func(a, b replicasAt) int { return int(a.at - b.at) })
	return out
}

// playFleet plays one side, and returns what was measured from the first change on.
func playFleet(t *testing.T, balanced bool) *figures {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), *mixedFor+10*time.Minute)
	defer cancel()
	w := startTrial(ctx, t, mixedFleet(*mixedFor), balanced)
	if err := waitUntil(ctx, w.cloud.Add(mixedStart)); err != nil {
		t.Fatal(err)
	}
	f := newFigures(w)
	changes := mixedChanges(w.workloads, *mixedFor)
	for now := range ticks(ctx) {
		since := now.Sub(f.began)
		if since > *mixedFor {
			break
		}
		for len(changes) > 0 && changes[0].at <= since {
			next := changes[0]
			changes = changes[1:]
			patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, next.replicas))
			if err := w.plane.Client.Patch(ctx, w.workloads[next.workload], patch); err != nil {
				t.Fatal(err)
			}
		}
		f.look(ctx, now)
	}
	f.end(t)
	return f
}
