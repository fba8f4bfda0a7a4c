package sidecar_test

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/nodegroupset"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// TestMain collects garbage less often, as the command does: what is kept is little beside what is made, and a third of
// the time would go into that.
func TestMain(m *testing.M) {
	debug.SetGCPercent(800)
	m.Run()
}

// start is when every world begins.
var start = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// harness is a fake cloud, a sidecar in front of it and a Cluster Autoscaler that uses it.
type harness struct {
	t       testing.TB
	clock   *clocktesting.FakeClock
	cloud   *fake.Cloud
	options sidecar.Options
	journal *memoryJournal
	front   *front
	ca      *cluster
	initial []int
	lost    map[string]bool // groups of which an answer to an increase was lost, so that Cluster Autoscaler has backed them off
	rejoin  []int           // sizes when a new process of it, which knows of no backoff, last began; nil where there was none
}

// front is what Cluster Autoscaler is connected to: the sidecar that runs now.
type front struct {
	*sidecar.Sidecar
	generation int
}

// memoryJournal survives the sidecar, not the test.
type memoryJournal struct {
	text  []byte
	err   error
	stale bool // somebody has changed it since it was loaded
}

func (j *memoryJournal) Load(context.Context) ([]byte, error) {
	j.stale = j.stale && j.err != nil
	return slices.Clone(j.text), j.err
}

func (j *memoryJournal) Save(_ context.Context, text []byte) error {
	switch {
	case j.err != nil:
		return j.err
	case j.stale:
		return errors.New("somebody has changed the journal")
	}
	j.text = slices.Clone(text)
	return nil
}

// watch is a node watch on the fake cloud.
type watch struct {
	cloud *fake.Cloud
	clock *clocktesting.FakeClock
	at    time.Time
	list  []steering.NodeState
}

func (w *watch) List() ([]steering.NodeState, bool) {
	if w.at.Equal(w.clock.Now()) {
		return w.list, true
	}
	var out []steering.NodeState
	for _, node := range w.cloud.SharedNodes() {
		state := steering.NodeState{ProviderID: node.Spec.ProviderID, Name: node.Name, Created: node.CreationTimestamp.Time}
		for _, c := range node.Status.Conditions {
			state.Ready = state.Ready || c.Type == v1.NodeReady && c.Status == v1.ConditionTrue
			state.Lost = state.Lost || c.Type == v1.NodeReady && c.Status == v1.ConditionUnknown
		}
		out = append(out, state)
	}
	w.at, w.list = w.clock.Now(), out
	return out, true
}

type connectionKey struct{}

// setup is a world to be.
type setup struct {
	cloud   fake.Config
	batches []batch
	seed    uint64
	fault   func(*harness, caCall) callFault
	ca      autoscaler.Options
	sidecar sidecar.Options

	firstFit  bool          // see clusterConfig
	bindDelay time.Duration // see clusterConfig

	between func(*front) cloudprovider.Provider // what stands between Cluster Autoscaler and the sidecar; nil for nothing
}

// zones are node groups of equal machines, named a, b, c and so on, with four cores.
func zones(sizes ...int) []fake.Group {
	var groups []fake.Group
	for i, size := range sizes {
		name := string(rune('a' + i))
		groups = append(groups, fake.Group{
			ID: name, Size: size, MaxSize: 100, BootTime: 20 * time.Second, ReadyDelay: 5 * time.Second,
			Template: cloudprovider.Template{Node: machine(name)},
		})
	}
	return groups
}

func machine(zone string) *v1.Node {
	resources := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("16Gi"),
		v1.ResourcePods: resource.MustParse("110")}
	return &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{v1.LabelTopologyZone: zone, v1.LabelInstanceTypeStable: "m"}},
		Status:     v1.NodeStatus{Capacity: resources, Allocatable: resources.DeepCopy()},
	}
}

// podsOf are pods of which a node takes so many.
func podsOf(prefix string, n, perNode int) []*v1.Pod {
	var out []*v1.Pod
	for i := range n {
		name := fmt.Sprintf("%s-%d", prefix, i)
		out = append(out, &v1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(name)},
			Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Resources: v1.ResourceRequirements{Requests: v1.ResourceList{
				v1.ResourceCPU: *resource.NewMilliQuantity(int64(4000/perNode), resource.DecimalSI),
			}}}}},
		})
	}
	return out
}

// fill occupies the nodes there are from the start.
func fill(groups []fake.Group) batch {
	n := 0
	for _, g := range groups {
		n += g.Size
	}
	return batch{Pods: podsOf("old", n, 1)}
}

func newHarness(t testing.TB, s setup) *harness {
	t.Helper()
	w := &harness{t: t, lost: map[string]bool{}, clock: clocktesting.NewFakeClock(start), journal: &memoryJournal{}, options: s.sidecar}
	cloud, err := fake.New(s.cloud, w.clock)
	if err != nil {
		t.Fatal(err)
	}
	w.cloud = cloud
	w.options.Clock, w.options.Nodes = w.clock, &watch{cloud: cloud, clock: w.clock}
	if w.options.Journal == nil {
		w.options.Journal = w.journal
	}
	w.options.Before136 = func(context.Context) bool { return s.ca.Before136 }
	w.options.Connection = func(ctx context.Context) string { name, _ := ctx.Value(connectionKey{}).(string); return name }
	w.front = &front{}
	w.restartSidecar()
	for _, g := range s.cloud.Groups {
		w.initial = append(w.initial, g.Size)
	}
	w.connect(s, func(process int) autoscaler.Connection {
		if process > 1 && len(w.lost) > 0 {
			w.rejoin, w.lost = w.sizes(), map[string]bool{}
		}
		c := w.unasked(process)
		if c.Expander = w.front; s.between != nil {
			c.Provider = s.between(w.front)
		}
		return c
	})
	return w
}

// restartSidecar replaces the sidecar by a new process.
func (w *harness) restartSidecar() {
	w.t.Helper()
	s, err := sidecar.New(w.cloud, w.options)
	if err != nil {
		w.t.Fatal(err)
	}
	w.front.Sidecar = s
	w.front.generation++
}

// settle runs until nothing is left to happen.
func (w *harness) settle(until time.Duration) clusterState {
	w.t.Helper()
	return w.ca.Settle(until)
}

// settleWithout is settle for worlds in which some nodes never become ready: there it is enough
// that all pods run.
func (w *harness) settleWithout(some bool, until time.Duration) clusterState {
	w.t.Helper()
	for some && w.clock.Since(start) < until {
		w.ca.Step()
		if state := w.ca.State(); state.Pending == 0 && !state.UnderWay && w.clock.Since(start) > 3*time.Minute {
			return state
		}
	}
	return w.settle(until)
}

// log is everything that happened.
func (w *harness) log() string {
	var b strings.Builder
	for _, c := range w.ca.changes {
		fmt.Fprintln(&b, c)
	}
	b.WriteString("decisions, the newest first:\n")
	for _, d := range w.front.Status().Decisions {
		fmt.Fprintf(&b, "%s %s %s %d of %d: %s %s\n", d.Time.Sub(start), d.Call, d.Group, d.Granted, d.Asked, d.Reason, d.Error)
	}
	return b.String()
}

// exact is the split of so many nodes over groups as they stand.
func exact(t testing.TB, nodes int, groups []fake.Group, skip ...string) []int {
	t.Helper()
	request := nodegroupset.SplitRequest{Nodes: int64(nodes)}
	for _, g := range groups {
		if !slices.Contains(skip, g.ID) {
			request.Groups = append(request.Groups, nodegroupset.Group{Name: g.ID, Size: int64(g.Size), Min: int64(g.MinSize),
				Max: int64(g.MaxSize)})
		}
	}
	result, err := nodegroupset.Split(request)
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	for _, g := range groups {
		size := g.Size
		for _, r := range result.Groups {
			if r.Name == g.ID {
				size = int(r.NewSize)
			}
		}
		sizes = append(sizes, size)
	}
	return sizes
}

func sorted(sizes []int) []int {
	sizes = slices.Clone(sizes)
	slices.Sort(sizes)
	return sizes
}

// lasting is a time of a fault; nil for none.
func lasting(d time.Duration) *metav1.Duration {
	if d == 0 {
		return nil
	}
	return &metav1.Duration{Duration: d}
}

// during is when a fault lasts; until 0 is forever.
func during(from, until time.Duration) v1alpha1.FaultWindow {
	return v1alpha1.FaultWindow{From: metav1.Duration{Duration: from}, Until: lasting(until)}
}
