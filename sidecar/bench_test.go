package sidecar_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/expander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// expanderTimeout is how long Cluster Autoscaler waits for BestOptions.
const expanderTimeout = 5 * time.Second

// zonesPerSet is how many groups are similar in the fleets of the benchmarks.
const zonesPerSet = 5

// fleet is a cloud of so many groups in sets, with so many nodes in all.
func fleet(groups, nodes int) fake.Config {
	var config fake.Config
	for i := range groups {
		size := nodes / groups
		if i < nodes%groups {
			size++
		}
		template := machine(fmt.Sprint("zone-", i%zonesPerSet))
		template.Labels[v1.LabelInstanceTypeStable] = fmt.Sprint("type-", i/zonesPerSet)
		for j := range 12 {
			template.Labels[fmt.Sprint("example.com/label-", j)] = "value"
		}
		config.Groups = append(config.Groups, fake.Group{
			ID: fmt.Sprintf("group-%04d", i), Size: size, MaxSize: size + 100, ReadyDelay: time.Hour,
			Template: cloudprovider.Template{Node: template},
		})
	}
	return config
}

// registered are nodes that never change.
type registered []steering.NodeState

func (r registered) List() ([]steering.NodeState, bool) { return r, true }

// newFleet is a cloud whose nodes have long been ready, and a sidecar in front of it.
func newFleet(t testing.TB, config fake.Config) (*fake.Cloud, *sidecar.Sidecar) {
	t.Helper()
	cloud, err := fake.New(config, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	return cloud, inFront(t, cloud)
}

// inFront is a sidecar that has read the cloud once.
func inFront(t testing.TB, cloud *fake.Cloud) *sidecar.Sidecar {
	t.Helper()
	var nodes registered
	for _, node := range cloud.SharedNodes() {
		nodes = append(nodes, steering.NodeState{
			ProviderID: node.Spec.ProviderID, Name: node.Name, Created: node.CreationTimestamp.Time, Ready: len(node.Spec.Taints) == 0,
		})
	}
	side, err := sidecar.New(cloud, sidecar.Options{Journal: &memoryJournal{}, Nodes: nodes})
	if err != nil {
		t.Fatal(err)
	}
	if err := side.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return side
}

// overTLS serves the sidecar on loopback with a certificate and connects to it.
func overTLS(t testing.TB, side *sidecar.Sidecar) *grpc.ClientConn {
	return onLoopback(t, externalgrpc.NewServer(side).Register, grpcexpander.NewServer(side).Register)
}

// onLoopback serves on loopback with a certificate and connects to it.
func onLoopback(t testing.TB, register ...func(grpc.ServiceRegistrar)) *grpc.ClientConn {
	t.Helper()
	authority, err := serving.NewAuthority(time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	files := serving.Files{Cert: write("tls.crt", pair.Cert), Key: write("tls.key", pair.Key)}
	server, err := serving.Listen(t.Context(), "127.0.0.1:0", serving.Options{Files: files})
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range register {
		one(server)
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(context.WithoutCancel(t.Context())) }()
	conn, err := serving.Dial(server.Address(), serving.Files{CACert: write("ca.crt", authority.Cert)}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// stored is a pending pod as an API server stores it, about 4 KiB of it.
func stored(i int, set string) *v1.Pod {
	app := fmt.Sprint("app-", i/25)
	container := v1.Container{
		Name: "main", Image: "registry.example/team/" + app + "@sha256:" + strings.Repeat("0a1b2c3d", 8),
		Resources: v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("1"),
			v1.ResourceMemory: resource.MustParse("2Gi")}},
	}
	for j := range 20 {
		container.Env = append(container.Env, v1.EnvVar{Name: fmt.Sprint("SETTING_", j), Value: "a value of " + app})
	}
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: fmt.Sprintf("%s-%05d", app, i), Namespace: "shop", UID: types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)),
			CreationTimestamp: metav1.Unix(1_800_000_000, 0), Labels: map[string]string{"app.kubernetes.io/name": app,
				"pod-template-hash": "7d9c5b8f6"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: app, UID: types.UID(app)}},
			ManagedFields: []metav1.ManagedFieldsEntry{{
				Manager: "kube-controller-manager", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", FieldsType: "FieldsV1",
				FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{` + strings.Repeat(`"f:labels":{".":{},"f:app":{}},`, 60) + `}}`),
			}},
		},
		Spec: v1.PodSpec{
			Containers:   []v1.Container{container},
			NodeSelector: map[string]string{v1.LabelInstanceTypeStable: set},
			Tolerations:  []v1.Toleration{{Key: v1.TaintNodeNotReady, Operator: v1.TolerationOpExists, Effect: v1.TaintEffectNoExecute}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending, Conditions: []v1.PodCondition{{
			Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: v1.PodReasonUnschedulable, Message: "0/300 nodes are available. " +
				strings.Repeat("preemption: not helpful. ", 10),
		}}},
	}
}

// question is one with an option for every group, and every pod in those of one set.
func question(t testing.TB, cloud *fake.Cloud, pods int) (request expander.Question, size int) {
	t.Helper()
	groups, err := cloud.NodeGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sets := len(groups) / zonesPerSet
	request.Nodes = map[string]*v1.Node{}
	for i := range pods {
		pod := stored(i, fmt.Sprint("type-", i%sets))
		size += zonesPerSet * pod.Size()
		request.Pods = append(request.Pods, pod)
	}
	for i, g := range groups {
		template, err := cloud.Template(t.Context(), g.ID)
		if err != nil {
			t.Fatal(err)
		}
		request.Nodes[g.ID] = template.Node
		option := expander.Offer{Group: g.ID}
		for pod := i / zonesPerSet; pod < pods; pod += sets {
			option.Pods = append(option.Pods, pod)
		}
		option.NodeCount = (len(option.Pods) + 3) / 4
		request.Options = append(request.Options, option)
	}
	return request, size
}

// peak watches the heap, garbage included, until it is stopped.
func peak() (stop func() (bytes uint64)) {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	var highest uint64
	look := func() {
		metrics.Read(sample)
		highest = max(highest, sample[0].Value.Uint64())
	}
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := clock.RealClock{}.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			look()
			select {
			case <-tick.C():
			case <-done:
				return
			}
		}
	})
	return func() uint64 {
		close(done)
		wg.Wait()
		look()
		return highest
	}
}

// BenchmarkBestOptions asks about 1,000 groups and 5,000 pods, each in five options, over TLS on
// loopback. limit is the time as a part of what Cluster Autoscaler waits; the heap is that of both
// sides.
func BenchmarkBestOptions(b *testing.B) {
	cloud, side := newFleet(b, fleet(1000, 5000))
	request, size := question(b, cloud, 5000)
	ask := grpcexpander.NewClient(overTLS(b, side))
	b.SetBytes(int64(size))
	b.ReportAllocs()
	runtime.GC()
	stop := peak()
	for b.Loop() {
		best, err := ask.BestOptions(b.Context(), request)
		if err != nil || len(best) != 1 {
			b.Fatal(best, err)
		}
	}
	b.ReportMetric(float64(stop())/(1<<20), "peak-MiB")
	wantSplit(b, side)
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/expanderTimeout.Seconds(), "limit")
}

// BenchmarkBestOptionsAlone asks an expander alone, as Cluster Autoscaler with any provider does: each answer is the next
// node. p99 is in milliseconds.
func BenchmarkBestOptionsAlone(b *testing.B) {
	for _, size := range []struct{ groups, pods int }{{30, 300}, {1000, 5000}} {
		b.Run(fmt.Sprintf("groups=%d/pods=%d", size.groups, size.pods), func(b *testing.B) {
			config := fleet(size.groups, 5000)
			cloud, err := fake.New(config, clock.RealClock{})
			if err != nil {
				b.Fatal(err)
			}
			alone, err := sidecar.NewExpander(nil, sidecar.Options{})
			if err != nil {
				b.Fatal(err)
			}
			sizes := steering.Sizes{Began: time.Now()}
			for _, g := range config.Groups {
				sizes.Groups = append(sizes.Groups, steering.GroupSize{Name: g.ID, Target: g.Size, Ready: g.Size, MaxSize: g.MaxSize})
			}
			alone.Sizes(sizes, nil)
			request, bytes := question(b, cloud, size.pods)
			ask := grpcexpander.NewClient(onLoopback(b, grpcexpander.NewServer(alone).Register))
			b.SetBytes(int64(bytes))
			b.ReportAllocs()
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				best, err := ask.BestOptions(b.Context(), request)
				if err != nil || len(best) != 1 {
					b.Fatal(best, err)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/expanderTimeout.Seconds(), "limit")
		})
	}
}

// BenchmarkDecide is the part of it that is the sidecar's: from the decoded question to the answer.
func BenchmarkDecide(b *testing.B) {
	for _, groups := range []int{100, 1000} {
		b.Run(fmt.Sprintf("groups=%d", groups), func(b *testing.B) {
			cloud, side := newFleet(b, fleet(groups, 5000))
			request, _ := question(b, cloud, 5000)
			b.ReportAllocs()
			for b.Loop() {
				if best, err := side.BestOptions(b.Context(), request); err != nil || len(best) != 1 {
					b.Fatal(best, err)
				}
			}
			wantSplit(b, side)
		})
	}
}

// BenchmarkDecideAfterRestart is the longest way to an answer: all that all sets need is on its
// way, in groups that a new process of Cluster Autoscaler leaves out, so one set after the other is
// passed over.
func BenchmarkDecideAfterRestart(b *testing.B) {
	cloud, _ := newFleet(b, fleet(1000, 5000))
	request, _ := question(b, cloud, 5000)
	left := map[string]bool{}
	for i := 0; i < len(request.Options); i += zonesPerSet {
		id := request.Options[i].Group
		left[id] = true
		if err := cloud.IncreaseSize(b.Context(), id, 50); err != nil {
			b.Fatal(err)
		}
	}
	request.Options = slices.DeleteFunc(request.Options, func(o expander.Offer) bool { return left[o.Group] })
	side := inFront(b, cloud)
	b.ReportAllocs()
	for b.Loop() {
		if best, err := side.BestOptions(b.Context(), request); err != nil || len(best) != 0 {
			b.Fatal(best, err)
		}
	}
}

// wantSplit makes sure that a split was worked out, and not found unnecessary.
func wantSplit(t testing.TB, side *sidecar.Sidecar) {
	t.Helper()
	if d := side.Status().Decisions[0]; len(d.Members) != zonesPerSet || d.Granted == 0 {
		t.Errorf("decided %+v", d)
	}
}

// BenchmarkCalls makes the calls of Cluster Autoscaler's loop over TLS on loopback, with 5,000
// nodes.
func BenchmarkCalls(b *testing.B) {
	for _, groups := range []int{100, 1000} {
		cloud, side := newFleet(b, fleet(groups, 5000))
		client := externalgrpc.NewClient(overTLS(b, side))
		nodes := cloud.SharedNodes()
		id := func(i int) string { return fmt.Sprintf("group-%04d", i%groups) }
		for _, c := range []struct {
			name string
			call func(context.Context, int) error
		}{
			{"NodeGroupForNode", func(ctx context.Context, i int) error {
				_, _, err := client.NodeGroupForNode(ctx, nodes[i%len(nodes)])
				return err
			}},
			{"TargetSize", func(ctx context.Context, i int) error { _, err := client.TargetSize(ctx, id(i)); return err }},
			{"NodeGroupNodes", func(ctx context.Context, i int) error { _, err := client.Nodes(ctx, id(i)); return err }},
			{"TemplateNodeInfo", func(ctx context.Context, i int) error { _, err := client.Template(ctx, id(i)); return err }},
			{"GetOptions", func(ctx context.Context, i int) error {
				_, _ = client.Options(ctx, id(i), cloudprovider.GroupOptions{}) // that there are none is an error
				return nil
			}},
		} {
			b.Run(fmt.Sprintf("groups=%d/%s", groups, c.name), func(b *testing.B) { latencies(b, c.call) })
		}
	}
}

// latencies reports half and all but a hundredth of the calls.
func latencies(b *testing.B, call func(context.Context, int) error) {
	b.Helper()
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as the command does
	var took []time.Duration
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		began := b.Elapsed()
		if err := call(b.Context(), i); err != nil {
			b.Fatal(err)
		}
		took = append(took, b.Elapsed()-began)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkRefresh reads 1,000 groups, when templates are not due, from a cloud that answers at
// once and from a slow one.
func BenchmarkRefresh(b *testing.B) {
	for _, latency := range []time.Duration{0, 5 * time.Millisecond} {
		b.Run(fmt.Sprintf("latency=%s", latency), func(b *testing.B) {
			config := fleet(1000, 5000)
			if latency > 0 {
				config.Calls = []v1alpha1.CallFault{{Delay: lasting(latency)}}
			}
			cloud, side := newFleet(b, config)
			cloud.ForgetCalls()
			b.ReportAllocs()
			for b.Loop() {
				if err := side.Refresh(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(len(cloud.Calls()))/float64(b.N), "calls/op")
		})
	}
}

// BenchmarkLoop makes all calls of a loop of Cluster Autoscaler, without the wire, and counts those
// to the cloud.
func BenchmarkLoop(b *testing.B) {
	for _, nodes := range []int{500, 5000, 20_000} {
		b.Run(fmt.Sprintf("nodes=%d", nodes), func(b *testing.B) {
			cloud, side := newFleet(b, fleet(100, nodes))
			registered := cloud.SharedNodes()
			cloud.ForgetCalls()
			b.ReportAllocs()
			for b.Loop() {
				oneLoop(b, side, registered)
			}
			b.ReportMetric(float64(len(cloud.Calls()))/float64(b.N), "calls/op")
		})
	}
}

// oneLoop makes every call of a loop in which nothing happens.
func oneLoop(t testing.TB, side *sidecar.Sidecar, nodes []*v1.Node) {
	t.Helper()
	ctx := t.Context()
	failed := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	failed(side.Refresh(ctx))
	groups, err := side.NodeGroups(ctx)
	failed(err)
	for _, node := range nodes {
		_, _, err := side.NodeGroupForNode(ctx, node)
		failed(err)
	}
	for _, g := range groups {
		_, err := side.TargetSize(ctx, g.ID)
		failed(err)
		_, err = side.Nodes(ctx, g.ID)
		failed(err)
		_, err = side.Template(ctx, g.ID)
		failed(err)
		_, _ = side.Options(ctx, g.ID, cloudprovider.GroupOptions{}) // that there are none is an error
	}
}

// TestCallsToTheCloudDoNotDependOnNodes: whatever Cluster Autoscaler asks in a loop, the cloud is
// asked for the sizes of its groups. What it does not need of their instances is another test's.
func TestCallsToTheCloudDoNotDependOnNodes(t *testing.T) {
	count := func(nodes int) (methods map[string]int) {
		cloud, side := newFleet(t, fleet(20, nodes))
		registered := cloud.SharedNodes()
		cloud.ForgetCalls()
		oneLoop(t, side, registered)
		methods = map[string]int{}
		for _, call := range cloud.Calls() {
			methods[call.Method]++
		}
		return methods
	}
	want := map[string]int{fake.MethodRefresh: 1, fake.MethodNodeGroups: 1, fake.MethodTargetSize: 20}
	for _, nodes := range []int{0, 500, 5000, 20_000} {
		if got := count(nodes); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%d nodes: %v calls, want %v", nodes, got, want)
		}
	}
}
