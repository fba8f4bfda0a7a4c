package schedule

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/provisioning"
	"github.com/evenkeel/evenkeel/workloadspread"
)

const (
	unknown      = workloadspread.RoomUnknown
	onNode       = workloadspread.RoomOnNode
	byAutoscaler = workloadspread.RoomByAutoscaler
	none         = workloadspread.RoomNone
)

var noon = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// fixture is a Simulator at noon whose questions have all the time in the world.
type fixture struct {
	*Simulator
	t     testing.TB
	clock *clocktesting.FakeClock
	pods  int
}

func newFixture(t testing.TB, o Options) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: clocktesting.NewFakeClock(noon)}
	o.Clock, o.Timeout = f.clock, time.Hour
	var err error
	if f.Simulator, err = New(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return f
}

// node is a ready node of a pool with so many CPUs.
func node(name, pool string, cpu int64, change ...func(*v1.Node)) *v1.Node {
	allocatable := v1.ResourceList{v1.ResourceCPU: *resource.NewQuantity(cpu, resource.DecimalSI), v1.ResourcePods: resource.MustParse("110")}
	n := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1.LabelHostname: name, "pool": pool},
			CreationTimestamp: metav1.NewTime(noon.Add(-time.Hour))},
		Spec: v1.NodeSpec{ProviderID: "fake://" + name},
		Status: v1.NodeStatus{Allocatable: allocatable, Capacity: allocatable, Conditions: []v1.NodeCondition{
			{Type: v1.NodeReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon.Add(-time.Hour))}}},
	}
	for _, c := range change {
		c(n)
	}
	return n
}

// pod is one of the pods of a workload with the rules of a subset, which selects the pool of its name.
func pod(id, subset string, change ...func(*v1.Pod)) *v1.Pod {
	p := &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", GenerateName: "web-", Labels: map[string]string{"app": "web"},
			Annotations: map[string]string{
				workloadspread.AnnotationSpread: workloadspread.Assignment{Name: "web", Subset: subset, ID: id}.String()}},
		Spec: v1.PodSpec{NodeSelector: map[string]string{"pool": subset}, Containers: []v1.Container{{
			Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1")}}}}},
	}
	for _, c := range change {
		c(p)
	}
	return p
}

// withoutEnd gives a pod rules that name more labels than are obeyed.
func withoutEnd(p *v1.Pod) {
	for i := range mostLabelKeys + 1 {
		p.Spec.NodeSelector[fmt.Sprint("key-", i)] = "x"
	}
}

// created is the pod as it exists once it was admitted.
func created(p *v1.Pod, name string) *v1.Pod {
	p = p.DeepCopy()
	p.Name, p.UID, p.CreationTimestamp = name, types.UID(name), metav1.NewTime(noon)
	return p
}

func bound(p *v1.Pod, to string) *v1.Pod {
	p = p.DeepCopy()
	p.Spec.NodeName = to
	return p
}

func subsets(id string, names ...string) []*v1.Pod {
	var pods []*v1.Pod
	for _, name := range names {
		pods = append(pods, pod(id, name))
	}
	return pods
}

func (f *fixture) nodes(all ...*v1.Node) {
	for _, n := range all {
		f.change(func(c *cluster) { c.setNode(n) })
	}
}

func (f *fixture) set(all ...*v1.Pod) {
	for _, p := range all {
		f.change(func(c *cluster) { c.setPod(p) })
	}
}

// ask asks about a new pod in subsets.
func (f *fixture) ask(names ...string) []workloadspread.Room {
	f.t.Helper()
	f.pods++
	return f.Room(f.t.Context(), subsets(fmt.Sprintf("ask-%d", f.pods), names...))
}

func (f *fixture) want(got []workloadspread.Room, want ...workloadspread.Room) {
	f.t.Helper()
	if !slices.Equal(got, want) {
		f.t.Fatalf("got %v, want %v", got, want)
	}
}

func TestRoomOfOneWorld(t *testing.T) {
	starting := func(since time.Duration, keys ...string) func(*v1.Node) {
		return func(n *v1.Node) {
			n.CreationTimestamp = metav1.NewTime(noon.Add(-since))
			n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = v1.ConditionFalse, n.CreationTimestamp
			for _, key := range keys {
				n.Spec.Taints = append(n.Spec.Taints, v1.Taint{Key: key, Effect: v1.TaintEffectNoSchedule})
			}
		}
	}
	failed := func(n *v1.Node) {
		starting(10*time.Minute, v1.TaintNodeNotReady)(n)
		n.Status.Conditions[0].LastTransitionTime = metav1.NewTime(noon.Add(-time.Minute))
	}
	labelled := func(key, value string) func(*v1.Node) { return func(n *v1.Node) { n.Labels[key] = value } }
	status := func(groups map[string]provisioning.Group) func(*cluster) {
		return func(c *cluster) { c.status = &provisioning.Status{Time: noon.Add(-time.Minute), Groups: groups} }
	}
	tests := map[string]struct {
		o      Options
		nodes  []*v1.Node
		change func(*cluster)
		pod    func(*v1.Pod)
		want   workloadspread.Room
	}{
		"a node with room":         {nodes: []*v1.Node{node("a", "spot", 1)}, want: onNode},
		"a node that is too small": {nodes: []*v1.Node{node("a", "spot", 0)}, want: none},
		"a node of another pool":   {nodes: []*v1.Node{node("a", "other", 4)}, want: none},
		"a node that is on its way": {nodes: []*v1.Node{node("a", "spot", 4,
			starting(time.Minute, v1.TaintNodeNotReady, v1.TaintNodeNetworkUnavailable))}, want: onNode},
		"a node that never became ready": {nodes: []*v1.Node{node("a", "spot", 4, starting(20*time.Minute, v1.TaintNodeNotReady))}, want: none},
		"a node that has failed":         {nodes: []*v1.Node{node("a", "spot", 4, failed)}, want: none},
		"a startup taint of a young node": {nodes: []*v1.Node{node("a", "spot", 4, starting(time.Minute, "node.cilium.io/agent-not-ready"))},
			want: onNode},
		"a startup taint that is named": {o: Options{StartupTaints: []string{"gpu-driver"}},
			nodes: []*v1.Node{node("a", "spot", 4, starting(time.Minute, "gpu-driver"))}, want: onNode},
		"a taint of a young node": {nodes: []*v1.Node{node("a", "spot", 4, starting(time.Minute, "dedicated"))}, want: none},
		"a cordoned node": {nodes: []*v1.Node{node("a", "spot", 4, func(n *v1.Node) {
			n.Spec.Unschedulable = true
			n.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}}
		})}, want: none},
		"a virtual node": {nodes: []*v1.Node{node("a", "spot", 0, labelled("type", "virtual-kubelet"))}, want: none},
		"a virtual node that is exempt": {o: Options{Unlimited: labels.SelectorFromSet(labels.Set{"type": "virtual-kubelet"})},
			nodes: []*v1.Node{node("a", "spot", 0, labelled("type", "virtual-kubelet"))}, want: onNode},
		"an exempt node of another pool": {o: Options{Unlimited: labels.Everything()}, nodes: []*v1.Node{node("a", "other", 0)}, want: none},
		"no autoscaler":                  {want: none},
		"a gated pod": {pod: func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "quota"}} },
			want: unknown},
		"a pod of another scheduler": {pod: func(p *v1.Pod) { p.Spec.SchedulerName = "volcano" }, want: unknown},
		"a pod that claims devices": {pod: func(p *v1.Pod) { p.Spec.ResourceClaims = []v1.PodResourceClaim{{Name: "gpu"}} },
			want: unknown},
		"a pod with rules without end":       {pod: withoutEnd, want: unknown},
		"a pod with a claim that is unknown": {pod: func(p *v1.Pod) { p.Spec.Volumes = claim("data") }, want: unknown},
		"a pod with a claim of its own": {pod: func(p *v1.Pod) {
			p.Spec.Volumes = []v1.Volume{{VolumeSource: v1.VolumeSource{Ephemeral: &v1.EphemeralVolumeSource{}}}}
		}, want: unknown},
		"nodes of Karpenter": {nodes: []*v1.Node{node("a", "other", 0, labelled("karpenter.sh/nodepool", "x"))},
			want: byAutoscaler},
		"an autoscaler that is said to run": {o: Options{Autoscaler: AutoscalerAlways}, want: byAutoscaler},
		"an autoscaler that is said not to": {o: Options{Autoscaler: AutoscalerNever}, change: status(map[string]provisioning.Group{"g": {}}),
			want: none},
		"an autoscaler whose status is fresh": {change: status(map[string]provisioning.Group{"g": {}}), want: byAutoscaler},
		"an autoscaler with no group left": {change: status(map[string]provisioning.Group{"g": {Paused: true}, "h": {Full: true}}),
			want: none},
		"an old status": {change: func(c *cluster) {
			c.status = &provisioning.Status{Time: noon.Add(-time.Hour), Groups: map[string]provisioning.Group{"g": {}}}
		}, want: none},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, test.o)
			f.nodes(test.nodes...)
			if test.change != nil {
				f.change(test.change)
			}
			p := pod("1", "spot")
			if test.pod != nil {
				test.pod(p)
			}
			f.want(f.Room(t.Context(), []*v1.Pod{p}), test.want)
		})
	}
}

func claim(name string) []v1.Volume {
	return []v1.Volume{{Name: "v",
		VolumeSource: v1.VolumeSource{PersistentVolumeClaim: &v1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
}

// TestAHundredPodsAtOnceShareTheRoom: a pool with room for ten pods has room for ten of a hundred that are
// created at once, although none of them exists yet.
func TestAHundredPodsAtOnceShareTheRoom(t *testing.T) {
	f := newFixture(t, Options{})
	f.nodes(node("a", "spot", 4), node("b", "spot", 6), node("c", "demand", 200))
	first := 0
	for range 100 {
		rooms := f.ask("spot", "demand")
		if rooms[0] == onNode {
			first++
		}
		f.want(rooms[1:], onNode)
	}
	if first != 10 {
		t.Errorf("the first subset has room for %d pods, want 10", first)
	}
}

// TestRoomIsHeldInTheSubsetThatWasChosen: a subset may have room and be full by its maximum; then the
// other one is chosen, and room is held there.
func TestRoomIsHeldInTheSubsetThatWasChosen(t *testing.T) {
	f := newFixture(t, Options{})
	f.nodes(node("a", "spot", 100), node("b", "demand", 10))
	second := 0
	for i := range 100 {
		id := fmt.Sprint("id-", i)
		rooms := f.Room(t.Context(), subsets(id, "spot", "demand"))
		f.want(rooms[:1], onNode)
		if rooms[1] == onNode {
			second++
		}
		f.Decided(pod(id, "demand"), true)
	}
	if second != 10 {
		t.Errorf("the second subset has room for %d pods, want 10", second)
	}
}

func TestRoomIsHeldUntilThePodIsBoundGoneOrLate(t *testing.T) {
	f := newFixture(t, Options{})
	f.nodes(node("a", "spot", 1))
	admitted := pod("id-1", "spot")
	exists := created(admitted, "web-1")
	f.want(f.Room(t.Context(), []*v1.Pod{admitted}), onNode)
	f.want(f.Room(t.Context(), []*v1.Pod{admitted}), onNode) // the same pod again
	f.want(f.ask("spot"), none)
	f.clock.Step(HoldAdmitted + time.Second) // it was never created
	f.want(f.Room(t.Context(), []*v1.Pod{admitted}), onNode)
	f.set(exists)
	f.clock.Step(HoldAdmitted + time.Second)
	f.want(f.ask("spot"), none) // it exists, and comes first
	f.set(bound(exists, "a"))
	f.clock.Step(time.Hour)
	f.want(f.ask("spot"), none)
	f.changed(exists, true)
	f.want(f.ask("spot"), onNode)
}

// TestPendingPodsComeFirst: a pod that waits has a claim on the room that comes, unless it has held it for too long,
// has a lower priority, or waits for a gate.
func TestPendingPodsComeFirst(t *testing.T) {
	f := newFixture(t, Options{})
	waiting := created(pod("id-x", "spot"), "web-x")
	f.set(waiting)
	f.want(f.ask("spot"), none)
	f.nodes(node("a", "spot", 1))
	f.want(f.ask("spot"), none)
	high := pod("id-high", "spot", func(p *v1.Pod) { p.Spec.Priority = ptr.To[int32](10) })
	f.want(f.Room(t.Context(), []*v1.Pod{high}), onNode)
	f.Decided(high, false)
	f.want(f.ask("spot"), none)
	f.clock.Step(HoldPending + time.Second) // the scheduler would have bound it
	f.want(f.ask("spot"), onNode)

	gated := newFixture(t, Options{})
	gated.nodes(node("a", "spot", 1))
	gated.set(created(pod("id-x", "spot", func(p *v1.Pod) { p.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "quota"}} }), "web-x"))
	gated.want(gated.ask("spot"), onNode)

	endless := newFixture(t, Options{})
	endless.nodes(node("a", "spot", 1))
	attack := created(pod("id-x", "spot", withoutEnd), "web-x")
	endless.set(attack)
	endless.want(endless.ask("spot"), onNode)
	again := newFixture(t, Options{})
	again.nodes(node("a", "spot", 1))
	again.set(bound(attack, "a")) // there it only takes room
	again.want(again.ask("spot"), none)
	again.set(bound(attack, "a"))
	again.changed(attack, true)
	again.want(again.ask("spot"), onNode)

	nominated := newFixture(t, Options{})
	nominated.nodes(node("a", "spot", 1))
	nominated.set(created(pod("id-x", "spot", func(p *v1.Pod) { p.Status.NominatedNodeName = "a" }), "web-x"))
	nominated.want(nominated.ask("spot"), none)
}

func TestNodesComeAndGo(t *testing.T) {
	f := newFixture(t, Options{})
	f.nodes(node("a", "spot", 4))
	f.want(f.ask("spot"), onNode) // holds room on a
	f.changed(node("a", "spot", 4), true)
	f.want(f.ask("spot"), none)
	f.nodes(node("b", "spot", 2))
	f.want(f.ask("spot"), onNode) // the first pod looks again and takes half of b
	f.want(f.ask("spot"), none)
	f.nodes(node("b", "spot", 8)) // another b
	f.want(f.ask("spot"), onNode)
}

// TestVolumesSayWhereAPodCanGo: a volume in one zone is reached from there only.
func TestVolumesSayWhereAPodCanGo(t *testing.T) {
	f := newFixture(t, Options{})
	in := func(zone string) func(*v1.Node) { return func(n *v1.Node) { n.Labels[v1.LabelTopologyZone] = zone } }
	f.nodes(node("a", "spot", 4, in("z1")), node("b", "demand", 4, in("z2")))
	class := "disk"
	f.changed(&v1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: v1.PersistentVolumeSpec{StorageClassName: class,
		ClaimRef:               &v1.ObjectReference{Namespace: "shop", Name: "data", UID: "u"},
		PersistentVolumeSource: v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
		NodeAffinity: &v1.VolumeNodeAffinity{Required: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{{MatchExpressions: []v1.NodeSelectorRequirement{
			{Key: v1.LabelTopologyZone, Operator: v1.NodeSelectorOpIn, Values: []string{"z2"}}}}}}}},
		Status: v1.PersistentVolumeStatus{Phase: v1.VolumeBound}}, false)
	c := &v1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", UID: "u",
		Annotations: map[string]string{"pv.kubernetes.io/bind-completed": "yes"}},
		Spec: v1.PersistentVolumeClaimSpec{VolumeName: "pv", StorageClassName: &class}}
	f.changed(c, false)
	with := func(p *v1.Pod) { p.Spec.Volumes = claim("data") }
	pods := []*v1.Pod{pod("1", "spot", with), pod("1", "demand", with)}
	f.want(f.Room(t.Context(), pods), none, onNode)
	f.changed(c, true)
	f.want(f.Room(t.Context(), pods), unknown, unknown)
}

// TestAnAutoscalerWithKnownGroups: what a group can still bring counts, and what it has ordered.
func TestAnAutoscalerWithKnownGroups(t *testing.T) {
	f := newFixture(t, Options{})
	groupOf := func(id string, target, most int, cpu int64, instances ...string) *group {
		return &group{id: id, target: target, max: most, instances: instances, template: cloudprovider.Template{Node: node("t", id, cpu)}}
	}
	know := func(all ...*group) { f.change(func(c *cluster) { c.setGroups(all) }) }
	know(groupOf("spot", 0, 3, 4), groupOf("demand", 0, 3, 0))
	f.want(f.ask("spot", "demand", "other"), byAutoscaler, none, none)
	know(groupOf("spot", 3, 3, 4), groupOf("demand", 0, 3, 0)) // three nodes of four pods are ordered
	for range 12 {
		f.want(f.ask("spot"), onNode)
	}
	f.want(f.ask("spot"), none)
	f.clock.Step(2 * time.Second)
	f.nodes(node("a", "spot", 4)) // one of them registers, with an ID that its instance has
	know(groupOf("spot", 3, 3, 4, "fake://a"), groupOf("demand", 0, 3, 0))
	f.want(f.ask("spot"), none)
	f.clock.Step(cloudprovider.DefaultMaxNodeProvisionTime) // the others never come
	know(groupOf("spot", 3, 3, 4, "fake://a"))
	for range 4 {
		f.want(f.ask("spot"), onNode)
	}
	f.want(f.ask("spot"), none)

	know(groupOf("spot", 1, 3, 4, "fake://a"))
	f.want(f.ask("spot"), byAutoscaler)
	f.change(func(c *cluster) {
		c.status = &provisioning.Status{Time: f.clock.Now(), Groups: map[string]provisioning.Group{"spot": {Paused: true}}}
	})
	f.want(f.ask("spot"), none)
	know(&group{id: "mystery", max: 3})
	f.want(f.ask("other"), unknown) // it may be the one
}

// TestGroupsOfACloudAreRead: the fake cloud says what it has.
func TestGroupsOfACloudAreRead(t *testing.T) {
	like := node("t", "spot", 4)
	like.Status.Capacity[v1.ResourceMemory] = resource.MustParse("4Gi")
	cloud, err := fake.New(fake.Config{Groups: []fake.Group{{ID: "spot", MaxSize: 5, Template: cloudprovider.Template{Node: like}}}},
		clocktesting.NewFakeClock(noon))
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.IncreaseSize(t.Context(), "spot", 2); err != nil {
		t.Fatal(err)
	}
	groups, err := readGroups(t.Context(), cloud)
	if err != nil {
		t.Fatal(err)
	}
	if len(groups) != 1 || groups[0].id != "spot" || groups[0].target != 2 || groups[0].max != 5 ||
		groups[0].template.Node.Labels["pool"] != "spot" {
		t.Errorf("%+v", groups)
	}
}

// TestAQuestionThatComesLateIsUnknown: nothing depends on what is not known in time.
func TestAQuestionThatComesLateIsUnknown(t *testing.T) {
	f := newFixture(t, Options{})
	f.nodes(node("a", "spot", 4))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f.want(f.Room(ctx, subsets("1", "spot", "demand")), unknown, unknown)
	f.turn <- struct{}{} // another one's turn
	f.o.Timeout = time.Millisecond
	f.want(f.ask("spot"), unknown)
	<-f.turn
	f.o.Timeout = time.Hour
	f.want(f.ask("spot"), onNode)
}
