package e2e

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"
	"k8s.io/klog/v2/ktesting"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/e2e/controlplane"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/fakecloud"
	"github.com/evenkeel/evenkeel/internal/serving"
)

// A fake cloud serves its protocol, and its nodes live in a real control plane
// with kwok.
func TestFakeCloud(t *testing.T) {
	t.Parallel()
	plane := controlplane.Start(t, controlplane.Options{Args: map[controlplane.Program][]string{
		controlplane.Kwok: {"--manage-all-nodes=false", "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake"}, // as it is installed
	}})
	together(t.Context(), t, in(plane, map[string]func(context.Context, *testing.T, *controlplane.ControlPlane){
		"growing": testGrowing,
		"outage":  testOutage,
	}))
	t.Run("API server restarts", func(t *testing.T) { testRestart(t, plane) })
}

// Ordered nodes boot, become ready when their time has come, run pods, and go
// when they are deleted.
func testGrowing(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	const boot, delay = 2 * time.Second, 4 * time.Second
	groups := []string{"zone-a", "zone-b", "zone-c"}
	c := serveFake(ctx, t, plane, fake.Config{Groups: []fake.Group{fakeGroup("zone-a", boot, 0), fakeGroup("zone-b", boot, delay),
		fakeGroup("zone-c", boot, 0)}})
	stranger := node("stranger", "a", "1", "1Gi", "10", func(n *v1.Node) { n.Spec.Unschedulable = true })
	if err := plane.Client.Create(ctx, stranger); err != nil {
		t.Fatal(err)
	}

	ordered := time.Now()
	for _, group := range groups {
		if err := c.provider.IncreaseSize(ctx, group, 2); err != nil {
			t.Fatal(err)
		}
	}
	late := []string{"zone-b-0001", "zone-b-0002"}
	all := append([]string{"zone-a-0001", "zone-a-0002", "zone-c-0001", "zone-c-0002"}, late...)
	nodes := waitForNodes(ctx, t, plane, func(nodes nodeSet) bool { return nodes.have(all...) })
	if took := time.Since(ordered); took < boot {
		t.Errorf("the nodes were there after %v, booting takes %v", took, boot)
	}
	if time.Since(ordered) < boot+delay && nodes.ready(late[:1]...) {
		t.Error("a node is ready at once")
	}
	waitForNodes(ctx, t, plane, func(nodes nodeSet) bool { return nodes.ready(late...) })
	if took := time.Since(ordered); took < boot+delay {
		t.Errorf("the nodes were ready after %v, which takes %v", took, boot+delay)
	} else {
		t.Logf("the nodes were ready %v after their time", took-boot-delay)
	}
	nodes = waitForNodes(ctx, t, plane, func(nodes nodeSet) bool { return nodes.ready(all...) && nodes.untainted(all...) })
	want := nodes["zone-a-0001"]
	if want.Spec.ProviderID != "fake://zone-a/zone-a-0001" || want.Labels[v1.LabelTopologyZone] != "zone-a" ||
		want.Status.Allocatable.Cpu().String() != "4" {
		t.Errorf("the node is not as the cloud says: %v", want)
	}

	// kwok forgets a pod that is bound before its cache knows that the node is its own.
	until(ctx, t, "kwok plays the nodes of zone-b", func() bool {
		return !slices.ContainsFunc(late, func(name string) bool {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: name}}
			err := plane.Client.Get(ctx, client.ObjectKeyFromObject(lease), lease)
			return err != nil || ptr.Deref(lease.Spec.HolderIdentity, "evenkeel-fake-cloud") == "evenkeel-fake-cloud"
		})
	})
	p := pod(selecting(v1.LabelTopologyZone, "zone-b"))
	if err := plane.Client.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	if err := plane.Until(ctx, p, func() bool { return p.Status.Phase == v1.PodRunning }); err != nil {
		t.Fatalf("%v; it is on node %q: %+v", err, p.Spec.NodeName, p.Status)
	}
	t.Logf("a pod ran on %s after %v", p.Spec.NodeName, time.Since(ordered))

	if err := c.provider.DeleteNodes(ctx, "zone-a", []*v1.Node{nodes["zone-a-0001"]}); err != nil {
		t.Fatal(err)
	}
	waitForNodes(ctx, t, plane, func(nodes nodeSet) bool { return !nodes.have("zone-a-0001") })
	if err := plane.Client.Delete(ctx, nodes["zone-a-0002"]); err != nil {
		t.Fatal(err)
	}
	waitForNodes(ctx, t, plane, func(now nodeSet) bool {
		return now.have("zone-a-0002") && now["zone-a-0002"].UID != nodes["zone-a-0002"].UID && now.ready("zone-a-0002")
	})
	c.stop()
	nodes = waitForNodes(ctx, t, plane, func(nodes nodeSet) bool {
		return !slices.ContainsFunc(all, func(name string) bool { return nodes.have(name) })
	})
	if !nodes.have("stranger") || nodes["stranger"].UID != stranger.UID {
		t.Error("a node of somebody else was touched")
	}
}

// In an outage nodes do not answer, whatever kwok says, and the control plane
// notices. Afterwards they do.
func testOutage(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	down := v1alpha1.FaultWindow{From: metav1.Duration{Duration: 5 * time.Second}, Until: &metav1.Duration{Duration: 45 * time.Second}}
	dark, bright := fakeGroup("dark", 0, 0), fakeGroup("bright", 0, 0)
	dark.Size, bright.Size = 2, 1
	c := serveFake(ctx, t, plane, fake.Config{
		Groups:  []fake.Group{dark, bright},
		Outages: []v1alpha1.Outage{{Zones: []string{"dark"}, FaultWindow: down}},
	})
	unreachable := func(nodes nodeSet) bool {
		return nodes.have("dark-0001", "dark-0002") && !nodes.ready("dark-0001") && !nodes.ready("dark-0002") &&
			nodes.tainted("dark-0001", v1.TaintNodeUnreachable) && nodes.tainted("dark-0002", v1.TaintNodeUnreachable)
	}
	waitForNodes(ctx, t, plane, unreachable)
	nodes := waitForNodes(ctx, t, plane, func(nodes nodeSet) bool { return nodes.ready("dark-0001", "dark-0002") })
	if took := time.Since(c.started); took < down.Until.Duration {
		t.Errorf("the nodes were back after %v, the outage ends after %v", took, down.Until.Duration)
	}
	if !nodes.ready("bright-0001") {
		t.Error("the outage hit a zone that is not down")
	}
	waitForNodes(ctx, t, plane, func(nodes nodeSet) bool { return nodes.untainted("dark-0001", "dark-0002") })
}

// While the API server is away the cloud goes on, and its nodes are there when
// it is back.
func testRestart(t *testing.T, plane *controlplane.ControlPlane) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
	defer cancel()
	group := fakeGroup("restart", 0, 0)
	group.Size = 1
	c := serveFake(ctx, t, plane, fake.Config{Groups: []fake.Group{group}})
	waitForNodes(ctx, t, plane, func(nodes nodeSet) bool { return nodes.ready("restart-0001") })
	if err := plane.Process(controlplane.APIServer).Stop(); err != nil {
		t.Fatal(err)
	}
	if err := c.provider.IncreaseSize(ctx, "restart", 1); err != nil {
		t.Errorf("without an API server: %v", err)
	}
	if err := plane.Process(controlplane.APIServer).Launch(ctx); err != nil {
		t.Fatal(err)
	}
	waitForNodes(ctx, t, plane, func(nodes nodeSet) bool { return nodes.ready("restart-0001", "restart-0002") })
}

// A servedCloud is a fake cloud that serves, with its nodes in a control plane.
type servedCloud struct {
	provider cloudprovider.Provider
	started  time.Time
	stop     func()
}

func serveFake(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, config fake.Config) *servedCloud {
	t.Helper()
	logger := ktesting.NewLogger(t, ktesting.NewConfig(ktesting.Verbosity(2)))
	ctx, cancel := context.WithCancel(klog.NewContext(ctx, logger))
	cloud, err := fake.New(config, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	keeper := fakecloud.NewKeeper(kubernetes.NewForConfigOrDie(plane.Config), cloud, config.Groups[0].ID,
		fakecloud.KeeperOptions{DeleteOnExit: true})
	server, err := serving.Listen(ctx, "127.0.0.1:0", serving.Options{})
	if err != nil {
		t.Fatal(err)
	}
	fakecloud.Watch(cloud, keeper.Changed, logger)
	externalgrpc.NewServer(cloud).Register(server)
	conn, err := serving.Dial(server.Address(), serving.Files{}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() { keeper.Run(ctx) })
	running.Go(func() {
		if err := server.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	stop := sync.OnceFunc(func() {
		_ = conn.Close()
		cancel()
		running.Wait()
	})
	t.Cleanup(stop)
	return &servedCloud{provider: externalgrpc.NewClient(conn), started: started, stop: stop}
}

func fakeGroup(zone string, boot, ready time.Duration) fake.Group {
	return fake.Group{
		ID: zone, MaxSize: 1000, BootTime: boot, ReadyDelay: ready,
		Template: cloudprovider.Template{Node: &v1.Node{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone}},
			Status: v1.NodeStatus{Capacity: v1.ResourceList{
				v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"), v1.ResourcePods: resource.MustParse("110"),
			}},
		}},
	}
}

// nodeSet is the nodes of a cluster by name.
type nodeSet map[string]*v1.Node

func (c nodeSet) have(names ...string) bool {
	return !slices.ContainsFunc(names, func(name string) bool { return c[name] == nil })
}

// ready reports whether all of them are.
func (c nodeSet) ready(names ...string) bool {
	return c.have(names...) && !slices.ContainsFunc(names, func(name string) bool {
		return !slices.ContainsFunc(c[name].Status.Conditions, func(c v1.NodeCondition) bool {
			return c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
		})
	})
}

func (c nodeSet) untainted(names ...string) bool {
	return c.have(names...) && !slices.ContainsFunc(names, func(name string) bool { return len(c[name].Spec.Taints) > 0 })
}

func (c nodeSet) tainted(name, key string) bool {
	return c.have(name) && slices.ContainsFunc(c[name].Spec.Taints, func(t v1.Taint) bool { return t.Key == key })
}

// waitForNodes reads all nodes again and again until they are as wanted.
func waitForNodes(ctx context.Context, t *testing.T, plane *controlplane.ControlPlane, wanted func(nodeSet) bool) nodeSet {
	t.Helper()
	var nodes nodeSet
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		list := &v1.NodeList{}
		if err := plane.Client.List(ctx, list); err != nil {
			return false, err
		}
		nodes = nodeSet{}
		for i := range list.Items {
			nodes[list.Items[i].Name] = &list.Items[i]
		}
		return wanted(nodes), nil
	})
	if err != nil {
		for name, n := range nodes {
			t.Logf("%s: taints %v, conditions %v", name, n.Spec.Taints, n.Status.Conditions)
		}
		t.Fatalf("waiting for nodes: %v", err)
	}
	return nodes
}
