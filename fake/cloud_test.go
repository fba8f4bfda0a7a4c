package fake_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
)

var epoch = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// template is a node of 4 cores and 16 GiB in a zone.
func template(zone string) cloudprovider.Template {
	resources := v1.ResourceList{
		v1.ResourceCPU:    resource.MustParse("4"),
		v1.ResourceMemory: resource.MustParse("16Gi"),
		v1.ResourcePods:   resource.MustParse("110"),
	}
	return cloudprovider.Template{Node: &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
		Status:     v1.NodeStatus{Capacity: resources},
	}}
}

// abc is three groups in the zones a, b and c, with the sizes given and a
// maximum of 10; nodes are there at once.
func abc(a, b, c int) fake.Config {
	return fake.Config{Groups: []fake.Group{
		{ID: "a", MaxSize: 10, Size: a, Template: template("a")},
		{ID: "b", MaxSize: 10, Size: b, Template: template("b")},
		{ID: "c", MaxSize: 10, Size: c, Template: template("c")},
	}}
}

func start(t *testing.T, config fake.Config) (*fake.Cloud, *clocktesting.FakeClock) {
	t.Helper()
	clock := clocktesting.NewFakeClock(epoch)
	cloud, err := fake.New(config, clock)
	if err != nil {
		t.Fatal(err)
	}
	return cloud, clock
}

// show prints a group: target size, instances by state (Creating, Running,
// Deleting, Failed), ready and registered nodes.
func show(t *testing.T, cloud *fake.Cloud, id string) string {
	t.Helper()
	ctx := context.Background()
	target, err := cloud.TargetSize(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	instances, err := cloud.Nodes(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	var states strings.Builder
	for _, in := range instances {
		switch {
		case in.Error != nil:
			states.WriteString("F")
		default:
			states.WriteString(in.State.String()[:1])
		}
	}
	ready, registered := 0, 0
	for _, node := range cloud.RegisteredNodes() {
		if strings.HasPrefix(node.Name, id+"-") {
			registered++
			if isReady(node) {
				ready++
			}
		}
	}
	return fmt.Sprintf("%d %s %d/%d", target, states.String(), ready, registered)
}

func isReady(node *v1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == v1.NodeReady {
			return condition.Status == v1.ConditionTrue && len(node.Spec.Taints) == 0
		}
	}
	return false
}

// A step is something done at an instant after the start, the error it answers,
// and how group a looks then.
type step struct {
	at   time.Duration
	do   func(*fake.Cloud) error
	err  error
	want string
}

func increase(id string, delta int) func(*fake.Cloud) error {
	return func(c *fake.Cloud) error { return c.IncreaseSize(context.Background(), id, delta) }
}

func decrease(id string, delta int) func(*fake.Cloud) error {
	return func(c *fake.Cloud) error { return c.DecreaseTargetSize(context.Background(), id, delta) }
}

// remove deletes nodes by their names, as fake nodes.
func remove(id string, names ...string) func(*fake.Cloud) error {
	return func(c *fake.Cloud) error {
		var nodes []*v1.Node
		for _, name := range names {
			nodes = append(nodes, cloudprovider.FakeNode("fake://"+id+"/"+name, cloudprovider.FakeNodeUnregistered))
		}
		return c.DeleteNodes(context.Background(), id, nodes)
	}
}

// play runs the steps twice: stopping only where the table says, and asking the
// cloud every second, which must not make a difference.
func play(t *testing.T, config fake.Config, steps []step) {
	t.Helper()
	for _, tick := range []time.Duration{0, time.Second} {
		cloud, clock := start(t, config)
		for i, s := range steps {
			for tick > 0 && clock.Now().Add(tick).Before(epoch.Add(s.at)) {
				clock.Step(tick)
				show(t, cloud, "a")
			}
			clock.SetTime(epoch.Add(s.at))
			if s.do != nil {
				if err := s.do(cloud); !errors.Is(err, s.err) || (err == nil) != (s.err == nil) {
					t.Errorf("step %d at %v: error %v, want %v", i, s.at, err, s.err)
				}
			}
			if got := show(t, cloud, "a"); got != s.want {
				t.Errorf("step %d at %v (tick %v): group is %q, want %q", i, s.at, tick, got, s.want)
			}
		}
	}
}

func TestLifeOfNodes(t *testing.T) {
	slow := func(group *fake.Group) {
		group.BootTime, group.RegistrationDelay = 30*time.Second, 10*time.Second
		group.ReadyDelay, group.TerminationTime = 20*time.Second, 15*time.Second
	}
	for _, test := range []struct {
		name   string
		change func(*fake.Group)
		steps  []step
	}{
		{"at once", func(*fake.Group) {}, []step{
			{0, nil, nil, "1 R 1/1"},
			{0, increase("a", 2), nil, "3 RRR 3/3"},
			{0, remove("a", "a-0002"), nil, "2 RR 2/2"},
			{0, increase("a", 1), nil, "3 RRR 3/3"},
		}},
		{"nodes of the start are ready", slow, []step{{0, nil, nil, "1 R 1/1"}}},
		{"listed late", func(g *fake.Group) { slow(g); g.ListDelay = 50 * time.Second }, []step{
			{0, nil, nil, "1 R 1/1"},
			{5 * time.Second, increase("a", 2), nil, "3 R 1/1"},
			{45 * time.Second, nil, nil, "3 R 1/3"},
			{55 * time.Second, nil, nil, "3 RRR 1/3"},
		}},
		{"boot, register, ready", slow, []step{
			{5 * time.Second, increase("a", 2), nil, "3 RCC 1/1"},
			{34 * time.Second, nil, nil, "3 RCC 1/1"},
			{35 * time.Second, nil, nil, "3 RRR 1/1"},
			{44 * time.Second, nil, nil, "3 RRR 1/1"},
			{45 * time.Second, nil, nil, "3 RRR 1/3"},
			{64 * time.Second, nil, nil, "3 RRR 1/3"},
			{65 * time.Second, nil, nil, "3 RRR 3/3"},
		}},
		{"deletion takes its time, the target size does not", slow, []step{
			{0, remove("a", "a-0001"), nil, "0 D 1/1"},
			{14 * time.Second, nil, nil, "0 D 1/1"},
			{15 * time.Second, nil, nil, "0  0/0"},
		}},
		{"deleted while booting: never registers", slow, []step{
			{0, increase("a", 1), nil, "2 RC 1/1"},
			{29 * time.Second, remove("a", "a-0002"), nil, "1 RD 1/1"},
			{43 * time.Second, nil, nil, "1 RD 1/1"},
			{44 * time.Second, nil, nil, "1 R 1/1"},
		}},
		{"deleting again changes nothing", slow, []step{
			{0, increase("a", 1), nil, "2 RC 1/1"},
			{1 * time.Second, remove("a", "a-0001"), nil, "1 DC 1/1"},
			{2 * time.Second, remove("a", "a-0001", "a-0001"), nil, "1 DC 1/1"},
			{16 * time.Second, remove("a", "a-0001"), cloudprovider.ErrNotInGroup, "1 C 0/0"},
		}},
		{"foreign nodes: nothing is deleted", slow, []step{
			{0, remove("a", "a-0001", "a-0099"), cloudprovider.ErrNotInGroup, "1 R 1/1"},
		}},
		{"bounds", func(g *fake.Group) { g.MinSize, g.MaxSize = 1, 3 }, []step{
			{0, increase("a", 3), cloudprovider.ErrAboveMax, "1 R 1/1"},
			{0, increase("a", 1<<62), cloudprovider.ErrAboveMax, "1 R 1/1"},
			{0, increase("a", 0), cloudprovider.ErrInvalidDelta, "1 R 1/1"},
			{0, increase("a", -1), cloudprovider.ErrInvalidDelta, "1 R 1/1"},
			{0, remove("a", "a-0001"), cloudprovider.ErrBelowMin, "1 R 1/1"},
			{0, decrease("a", -1), cloudprovider.ErrInvalidDelta, "1 R 1/1"},
			{0, decrease("a", 0), cloudprovider.ErrInvalidDelta, "1 R 1/1"},
			{0, decrease("a", 1), cloudprovider.ErrInvalidDelta, "1 R 1/1"},
			{0, decrease("a", -1<<63), cloudprovider.ErrInvalidDelta, "1 R 1/1"},
			{0, increase("a", 2), nil, "3 RRR 3/3"},
		}},
		{"above its maximum", func(g *fake.Group) { g.MaxSize, g.Size = 1, 3 }, []step{
			{0, increase("a", 1), cloudprovider.ErrAboveMax, "3 RRR 3/3"},
			{0, remove("a", "a-0003"), nil, "2 RR 2/2"},
		}},
		{"below its minimum", func(g *fake.Group) { g.MinSize = 4 }, []step{
			{0, increase("a", 1), nil, "2 RR 2/2"},
			{0, remove("a", "a-0002"), cloudprovider.ErrBelowMin, "2 RR 2/2"},
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			config := abc(1, 0, 0)
			test.change(&config.Groups[0])
			play(t, config, test.steps)
		})
	}
}

func TestUnknownGroup(t *testing.T) {
	cloud, _ := start(t, abc(1, 1, 1))
	if err := increase("d", 1)(cloud); !errors.Is(err, cloudprovider.ErrNotFound) {
		t.Errorf("increase of an unknown group: %v", err)
	}
}

func TestNodesLookLikeTheTemplate(t *testing.T) {
	config := abc(2, 0, 0)
	config.Groups[0].ReadyDelay = time.Minute
	cloud, clock := start(t, config)
	clock.Step(time.Hour)
	if err := increase("a", 1)(cloud); err != nil {
		t.Fatal(err)
	}
	nodes := cloud.RegisteredNodes()
	if len(nodes) != 3 {
		t.Fatalf("%d nodes, want 3", len(nodes))
	}
	for i, name := range []string{"a-0001", "a-0002", "a-0003"} {
		node := nodes[i]
		if node.Name != name || node.Labels[v1.LabelHostname] != name || node.Spec.ProviderID != "fake://a/"+name {
			t.Errorf("node %d is %s, hostname %s, provider id %s", i, node.Name, node.Labels[v1.LabelHostname], node.Spec.ProviderID)
		}
		if node.Labels[v1.LabelTopologyZone] != "a" || node.Status.Allocatable.Cpu().Value() != 4 {
			t.Errorf("node %s has not the template's labels and resources: %v", name, node)
		}
	}
	fresh := nodes[2]
	if want := []v1.Taint{{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule}}; fmt.Sprint(fresh.Spec.Taints) != fmt.Sprint(want) {
		t.Errorf("taints of a node that is not ready: %v", fresh.Spec.Taints)
	}
	if !fresh.CreationTimestamp.Equal(&metav1.Time{Time: epoch.Add(time.Hour)}) {
		t.Errorf("created %v, want the time of registration", fresh.CreationTimestamp)
	}
}

func TestNodesGivenStayAsTheyAre(t *testing.T) {
	config := abc(0, 0, 0)
	given := template("a").Node
	given.Name, given.Labels[v1.LabelHostname] = "ip-10-0-0-1", "elsewhere"
	given.Spec.Taints = []v1.Taint{{Key: v1.TaintNodeNotReady, Effect: v1.TaintEffectNoSchedule}}
	other := template("a").Node
	other.Name, other.Spec.ProviderID = "a-0001", "aws:///a/i-1"
	config.Groups[0].Nodes, config.Groups[0].Size = []*v1.Node{given, other}, 3
	cloud, _ := start(t, config)

	var names []string
	for _, node := range cloud.RegisteredNodes() {
		names = append(names, node.Name+"="+node.Spec.ProviderID)
	}
	want := "ip-10-0-0-1=aws://a/ip-10-0-0-1 a-0001=aws:///a/i-1 a-0002=aws://a/a-0002" // as a cloud has one form of ids
	if got := strings.Join(names, " "); got != want {
		t.Errorf("nodes are %s, want %s", got, want)
	}
	node := cloud.RegisteredNodes()[0]
	if node.Labels[v1.LabelHostname] != "elsewhere" || len(node.Spec.Taints) != 1 {
		t.Errorf("the given node was changed: %v", node)
	}
	for _, asked := range []*v1.Node{
		{ObjectMeta: metav1.ObjectMeta{Name: "ip-10-0-0-1"}},
		{ObjectMeta: metav1.ObjectMeta{Name: "whatever"}, Spec: v1.NodeSpec{ProviderID: "aws:///a/i-1"}},
	} {
		if id, ok, err := cloud.NodeGroupForNode(context.Background(), asked); id != "a" || !ok || err != nil {
			t.Errorf("group of %v is %q %v %v, want a", asked, id, ok, err)
		}
	}
	if err := cloud.DeleteNodes(context.Background(), "a", []*v1.Node{node}); err != nil {
		t.Fatal(err)
	}
	if got := show(t, cloud, "a"); !strings.HasPrefix(got, "2 RR") {
		t.Errorf("after deletion of a given node: %s", got)
	}
}
