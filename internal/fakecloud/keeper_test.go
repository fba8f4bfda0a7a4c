package fakecloud_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientset "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/fakecloud"
)

// A harness is a cloud, an API server in memory, and a keeper between them. What
// the real one makes of it is tested on a real control plane.
type harness struct {
	t      *testing.T
	cloud  *fake.Cloud
	api    *clientset.Clientset
	keeper *fakecloud.Keeper

	mu     sync.Mutex
	broken func(clienttesting.Action) error // nil: works
	writes int
}

func newHarness(t *testing.T, config fake.Config, objects ...runtime.Object) *harness {
	t.Helper()
	cloud, err := fake.New(config, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	h := &harness{t: t, cloud: cloud, api: clientset.NewClientset(objects...)}
	uid := 0
	h.api.PrependReactor("*", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.broken != nil {
			if err := h.broken(action); err != nil {
				return true, nil, err
			}
		}
		if !slices.Contains([]string{"get", "list", "watch"}, action.GetVerb()) {
			h.writes++
		}
		if create, ok := action.(clienttesting.CreateAction); ok {
			if object, err := meta.Accessor(create.GetObject()); err == nil {
				uid++
				object.SetUID(types.UID(fmt.Sprint("uid-", uid)))
			}
		}
		return false, nil, nil
	})
	return h
}

// run starts a keeper, and returns what ends it.
func (h *harness) run(o fakecloud.KeeperOptions) (stop func()) {
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	h.keeper = fakecloud.NewKeeper(h.api, h.cloud, "fleet", o)
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.keeper.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (h *harness) order(group string, delta int) {
	h.t.Helper()
	if err := h.cloud.IncreaseSize(context.Background(), group, delta); err != nil {
		h.t.Fatal(err)
	}
	h.keeper.Changed()
}

// pass lets time pass, and what is to happen then.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func (h *harness) breakDown(broken func(clienttesting.Action) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.broken = broken
}

func (h *harness) countWrites() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := h.writes
	h.writes = 0
	return n
}

// nodes are the names of the nodes, with a star where they are ready, and a
// tilde where their lease is held.
func (h *harness) nodes() []string {
	h.t.Helper()
	ctx := context.Background()
	nodes, err := h.api.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	leases, err := h.api.CoordinationV1().Leases(v1.NamespaceNodeLease).List(ctx, metav1.ListOptions{})
	if err != nil {
		h.t.Fatal(err)
	}
	marks := map[string]string{}
	for _, n := range nodes.Items {
		marks[n.Name] = ""
		for _, c := range n.Status.Conditions {
			if c.Type == v1.NodeReady && c.Status == v1.ConditionTrue {
				marks[n.Name] = "*"
			}
		}
	}
	for _, l := range leases.Items {
		marks[l.Name] += "~"
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(marks)) {
		out = append(out, name+marks[name])
	}
	return out
}

func (h *harness) expect(when string, want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.nodes()); diff != "" {
		h.t.Errorf("%s: %s", when, diff)
	}
}

func slowGroup(zone string, boot, ready time.Duration) fake.Group {
	g := group(zone)
	g.BootTime, g.ReadyDelay, g.TerminationTime = boot, ready, 5*time.Second
	return g
}

func TestNodesLiveAsTheCloudSays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{
			Groups: []fake.Group{slowGroup("a", 10*time.Second, 0), slowGroup("b", 10*time.Second, 20*time.Second)},
			Outages: []v1alpha1.Outage{{Zones: []string{"a"}, FaultWindow: v1alpha1.FaultWindow{From: metav1.Duration{Duration: time.Minute},
				Until: &metav1.Duration{Duration: 2 * time.Minute}}}},
		})
		defer h.run(fakecloud.KeeperOptions{})()
		pass(time.Second)
		if err := h.keeper.Problem(); err != nil {
			t.Error(err)
		}
		h.order("a", 1)
		h.order("b", 1)
		pass(9 * time.Second)
		h.expect("while they boot")
		pass(2 * time.Second)
		h.expect("when they have booted", "a-0001*", "b-0001~")
		pass(18 * time.Second)
		h.expect("just before the second is ready", "a-0001*", "b-0001~")
		pass(2 * time.Second)
		h.expect("when both are ready", "a-0001*", "b-0001*")
		h.countWrites()
		pass(20 * time.Second)
		if n := h.countWrites(); n != 0 {
			t.Errorf("%d writes although nothing happened", n)
		}
		pass(10 * time.Second)
		h.expect("in the outage", "a-0001~", "b-0001*")
		pass(time.Minute)
		h.expect("after the outage", "a-0001*", "b-0001*")

		if err := h.cloud.DeleteNodes(t.Context(), "b", h.cloud.RegisteredNodes()[1:]); err != nil {
			t.Fatal(err)
		}
		h.keeper.Changed()
		pass(time.Second)
		h.expect("while the second is terminated", "a-0001*", "b-0001*")
		pass(5 * time.Second)
		h.expect("when it is gone", "a-0001*")
		if err := h.api.CoreV1().Nodes().Delete(t.Context(), "a-0001", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		h.expect("when somebody deleted the object of a machine", "a-0001*")
	})
}

func TestOneNodesFailureIsItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{Groups: []fake.Group{slowGroup("a", 0, 0)}},
			&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a-0003"}})
		tries := 0
		h.broken = func(action clienttesting.Action) error {
			if create, ok := action.(clienttesting.CreateAction); ok {
				if n, ok := create.GetObject().(*v1.Node); ok && n.Name == "a-0002" {
					tries++
					return errors.New("refused by a webhook")
				}
			}
			return nil
		}
		defer h.run(fakecloud.KeeperOptions{})()
		pass(time.Second)
		h.order("a", 4)
		pass(2 * time.Minute)
		h.expect("while one is refused and one belongs to somebody else", "a-0001*", "a-0003", "a-0004*")
		if tries < 5 || tries > 15 {
			t.Errorf("%d tries in two minutes", tries)
		}
		h.breakDown(nil)
		pass(time.Minute)
		h.expect("when it is not refused any more", "a-0001*", "a-0002*", "a-0003", "a-0004*")
	})
}

func TestAPIServerAwayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{Groups: []fake.Group{slowGroup("a", time.Second, time.Second)}})
		away := func(clienttesting.Action) error { return apierrors.NewServiceUnavailable("away") }
		h.breakDown(away)
		defer h.run(fakecloud.KeeperOptions{})()
		pass(time.Minute)
		if h.keeper.Problem() == nil {
			t.Error("no problem although the API server was never there")
		}
		h.order("a", 1)
		h.breakDown(nil)
		pass(time.Minute)
		h.expect("when it came", "a-0001*")
		if err := h.keeper.Problem(); err != nil {
			t.Error(err)
		}
		h.breakDown(away)
		h.order("a", 2)
		pass(time.Minute)
		if h.keeper.Problem() == nil {
			t.Error("no problem although the API server went away")
		}
		h.breakDown(nil)
		pass(time.Minute)
		h.expect("when it came back", "a-0001*", "a-0002*", "a-0003*")
		if err := h.keeper.Problem(); err != nil {
			t.Error(err)
		}
	})
}

// Somebody who makes nodes ready that must not be is not outdone at any price.
func TestContestedNode(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHarness(t, fake.Config{Groups: []fake.Group{slowGroup("a", time.Second, time.Hour)}})
		defer h.run(fakecloud.KeeperOptions{})()
		pass(time.Second)
		h.order("a", 1)
		pass(5 * time.Second)
		h.countWrites()
		const contests = 200
		for range contests { // in 20 seconds
			node, err := h.api.CoreV1().Nodes().Get(t.Context(), "a-0001", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
			if _, err := h.api.CoreV1().Nodes().UpdateStatus(t.Context(), node, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			pass(100 * time.Millisecond)
		}
		if writes := h.countWrites() - contests; writes < 1 || writes > 25 {
			t.Errorf("%d writes in 20 seconds", writes)
		}
		pass(time.Minute)
		h.expect("in the end", "a-0001~")
	})
}

// A second run takes over the nodes that are still there and deletes the others.
func TestNodesOfAnEarlierRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := slowGroup("a", time.Second, time.Hour), slowGroup("b", time.Second, 0)
		b.Size = 1
		h := newHarness(t, fake.Config{Groups: []fake.Group{a, b}}, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stranger"}})
		stop := h.run(fakecloud.KeeperOptions{})
		pass(time.Second)
		h.order("a", 1)
		h.order("b", 1)
		pass(5 * time.Second)
		h.expect("at first", "a-0001~", "b-0001*", "b-0002*", "stranger")
		kept, err := h.api.CoreV1().Nodes().Get(t.Context(), "b-0001", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		stop()
		h.expect("after the end", "a-0001~", "b-0001*", "b-0002*", "stranger")

		b.Size = 2 // as large as it had become, but the machines are others
		a.Template.Node.Labels["class"] = "new"
		if h.cloud, err = fake.New(fake.Config{Groups: []fake.Group{a, b}}, clock.RealClock{}); err != nil {
			t.Fatal(err)
		}
		stop = h.run(fakecloud.KeeperOptions{DeleteOnExit: true})
		pass(5 * time.Second)
		h.expect("in the second run", "b-0001*", "b-0002*", "stranger")
		again, err := h.api.CoreV1().Nodes().Get(t.Context(), "b-0001", metav1.GetOptions{})
		if err != nil || again.UID != kept.UID {
			t.Errorf("the node was not taken over: %v", err)
		}
		stop()
		h.expect("after the end of the second", "stranger")
	})
}

func ExampleNewKeeper() {
	cloud, err := fake.New(fake.Config{Groups: []fake.Group{group("zone-a")}}, clock.RealClock{})
	if err != nil {
		fmt.Println(err)
		return
	}
	keeper := fakecloud.NewKeeper(clientset.NewClientset(), cloud, "laptop", fakecloud.KeeperOptions{})
	ctx, cancel := context.WithCancel(klog.NewContext(context.Background(), klog.Logger{}))
	cancel() // a program cancels when it is stopped
	keeper.Run(ctx)
	fmt.Println(keeper.Problem())
	// Output: the nodes of the API server have not been read yet
}
