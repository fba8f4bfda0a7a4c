package sidecar_test

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/test/bufconn"
	v1 "k8s.io/api/core/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/expander/grpcexpander/grpcexpanderpb"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/sidecar"
)

// A day has several cycles: trouble, and then quiet for longer than any backoff and provision time.
const (
	cycle   = 2 * time.Hour
	trouble = 50 * time.Minute
)

var day = flag.Duration("day", 8*time.Hour, "how long TestDay lasts, in virtual time")

// heapMargin is by how many bytes the heap may exceed that after the first hour, garbage not
// counted. What grows by right is bounded: the calls that the test's own cluster keeps, and what
// is kept of nodes and groups. It is less than 1 KiB per loop.
const heapMargin = 8 << 20

// soak is a world with gRPC on both sides of the sidecar.
type soak struct {
	t       *testing.T
	clock   *clocktesting.FakeClock
	cloud   *fake.Cloud
	behind  *pipe // to the cloud
	front   *pipe // to the sidecar
	journal *memoryJournal
	options sidecar.Options
	side    *sidecar.Sidecar
	ca      *cluster
	calls   cloudprovider.Provider // as Cluster Autoscaler's present process makes them
	random  *rand.Rand
	faults  map[string]int // that happened, by kind
}

// TestDay runs loops for hours of virtual time, with the scheduler's plugins, gRPC over
// in-memory pipes to the sidecar and from it to the cloud, and all kinds of faults. After each
// quiet phase the sidecar's books are those of the cloud and nothing is left open; memory stays
// what it was, and no goroutine remains.
func TestDay(t *testing.T) {
	if testing.Short() {
		t.Skip("takes up to a minute")
	}
	leaks := goleak.IgnoreCurrent()
	func() {
		s := newSoak(t)
		defer s.close()
		s.run(time.Hour)
		first := s.heap()
		highest := first
		for until := cycle; until <= *day; until += cycle {
			s.run(until)
			s.agree(until)
			highest = max(highest, s.heap())
		}
		if highest > first+heapMargin {
			t.Errorf("the heap grew from %d KiB after an hour to %d KiB", first>>10, highest>>10)
		}
		state := s.state()
		if state.Increases < 8*int(*day/cycle) {
			t.Errorf("only %d scale-ups", state.Increases)
		}
		t.Logf("%d loops, %d scale-ups, faults %v; heap %d KiB after an hour, at most %d KiB later", state.Loops, state.Increases, s.faults,
			first>>10, highest>>10)
	}()
	goleak.VerifyNone(t, leaks)
}

func newSoak(t *testing.T) *soak {
	t.Helper()
	s := &soak{
		t: t, clock: clocktesting.NewFakeClock(start), behind: &pipe{}, front: &pipe{}, journal: &memoryJournal{},
		random: rand.New(rand.NewPCG(7, 7)), faults: map[string]int{},
	}
	var err error
	if s.cloud, err = fake.New(troubled(s.random), s.clock); err != nil {
		t.Fatal(err)
	}
	s.behind.serve(t, func(r grpc.ServiceRegistrar) {
		externalgrpcpb.RegisterCloudProviderServer(r, externalgrpc.NewServer(s.cloud))
	})
	s.options = sidecar.Options{Clock: s.clock, Journal: s.journal, Nodes: &watch{cloud: s.cloud, clock: s.clock}, Connection: connectionOf}
	s.restart()
	s.ca = newCluster(t, clusterConfig{
		clock: s.clock, cloud: s.cloud, batches: arrivals(s.random), seed: 7, connect: s.connect, fault: s.disturb,
		ca: autoscaler.Options{Removal: emptyNodes(10 * time.Minute)},
	})
	return s
}

// troubled is a cloud with two sets of groups, in which everything goes wrong in the first part of
// every cycle.
func troubled(r *rand.Rand) fake.Config {
	config := fake.Config{Groups: zones(1, 0, 0, 0, 0), Quotas: []v1alpha1.ScenarioQuota{{Name: "cores", Cores: new(int64(100))}}}
	for i := range config.Groups {
		g := &config.Groups[i]
		g.MaxSize = 8
		g.ReadyDelay, g.TerminationTime = time.Duration(5+5*i)*time.Second, 30*time.Second
		if i >= 3 {
			g.Template.Node.Labels[v1.LabelInstanceTypeStable] = "special"
		}
	}
	for at := time.Duration(0); at < *day; at += cycle {
		window := func() v1alpha1.FaultWindow {
			begin := at + time.Duration(r.Int64N(int64(trouble*2/3)))
			return during(begin, min(begin+time.Minute+time.Duration(r.Int64N(int64(10*time.Minute))), at+trouble))
		}
		for _, mode := range []string{v1alpha1.StockOutRefuse, v1alpha1.StockOutFail, v1alpha1.StockOutSilent} {
			out := v1alpha1.StockOut{Groups: []string{config.Groups[r.IntN(5)].ID}, FaultWindow: window(), Mode: mode, Left: int32(r.IntN(3))}
			if mode == v1alpha1.StockOutFail {
				out.FailAfter = lasting(time.Duration(r.IntN(30)) * time.Second)
			}
			config.StockOuts = append(config.StockOuts, out)
		}
		config.Outages = append(config.Outages, v1alpha1.Outage{
			Zones: []string{config.Groups[r.IntN(5)].ID}, FaultWindow: window(),
			Mode: []string{v1alpha1.OutageUnready, v1alpha1.OutageVanish}[r.IntN(2)],
		})
		for _, method := range []string{
			fake.MethodIncreaseSize, fake.MethodIncreaseSize, fake.MethodDecreaseTargetSize, fake.MethodDeleteNodes, fake.MethodNodes,
			fake.MethodTargetSize, fake.MethodRefresh, fake.MethodNodeGroups, fake.MethodTemplate, fake.MethodOptions,
		} {
			config.Calls = append(config.Calls, v1alpha1.CallFault{
				Methods: []string{method}, FaultWindow: window(), First: int32(1 + r.IntN(4)), Error: "try again", AfterEffect: r.IntN(2) == 0,
			})
		}
	}
	return config
}

// arrivals are pods that come in the first part of every cycle, for one of the sets, and go after a
// while.
func arrivals(r *rand.Rand) []batch {
	var out []batch
	for at := time.Duration(0); at < *day; at += cycle {
		for i := range 6 {
			pods := podsOf(fmt.Sprintf("%d-%d", at/cycle, i), 1+r.IntN(7), 1+r.IntN(2))
			if r.IntN(3) == 0 {
				for _, pod := range pods {
					pod.Spec.NodeSelector = map[string]string{v1.LabelInstanceTypeStable: "special"}
				}
			}
			out = append(out, batch{
				At: at + time.Duration(r.Int64N(int64(trouble))), Pods: pods, Life: time.Duration(5+r.IntN(30)) * time.Minute,
			})
		}
	}
	return out
}

// disturb has things happen at Cluster Autoscaler's calls, more often at those that matter most.
func (s *soak) disturb(call caCall) callFault {
	at := call.At.Sub(start) % cycle
	s.journal.err = nil
	if at >= trouble {
		return callFault{}
	}
	if minute := at / time.Minute; minute%10 == 7 {
		s.journal.err = cmp.Or(map[bool]error{true: sidecar.ErrNotLeader}[minute > 30], errors.New("the API server does not answer"))
	}
	odds := 3000
	if call.Method == fake.MethodIncreaseSize || call.Method == autoscaler.MethodBestOptions {
		odds = 8
	}
	if s.random.IntN(odds) > 0 {
		return callFault{}
	}
	kinds := []string{"crash", "restart", "reconnect", "lost", "unsent"}
	kind := kinds[s.random.IntN(len(kinds))]
	s.faults[kind]++
	switch kind {
	case "restart":
		s.restart()
	case "reconnect":
		s.front.cut(s.t)
	}
	return callFault{Crash: kind == "crash", Lost: kind == "lost", Unsent: kind == "unsent"}
}

// restart replaces the sidecar by a new process, with a new connection to the cloud.
func (s *soak) restart() {
	s.t.Helper()
	s.front.stop(s.t)
	s.behind.hangUp(s.t)
	side, err := sidecar.New(externalgrpc.NewClient(s.behind.dial(s.t)), s.options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.side = side
	s.front.serve(s.t, func(r grpc.ServiceRegistrar) {
		externalgrpcpb.RegisterCloudProviderServer(r, externalgrpc.NewServer(side))
		grpcexpanderpb.RegisterExpanderServer(r, grpcexpander.NewServer(side))
	})
}

// connect gives a process of Cluster Autoscaler its two connections, and ends those of the process
// before.
func (s *soak) connect(int) autoscaler.Connection {
	s.front.hangUp(s.t)
	s.calls = externalgrpc.NewClient(s.front.dial(s.t))
	return autoscaler.Connection{Provider: s.calls, Expander: grpcexpander.NewClient(s.front.dial(s.t))}
}

func (s *soak) run(until time.Duration) {
	s.t.Helper()
	s.ca.Run(until)
	s.cloud.ForgetCalls()
}

func (s *soak) state() clusterState { return s.ca.State() }

// agree compares what the sidecar shows with the cloud, at the end of a quiet phase.
func (s *soak) agree(at time.Duration) {
	s.t.Helper()
	ctx := s.t.Context()
	if err := s.side.Wait(ctx); err != nil {
		s.t.Error(err)
	}
	state, status := s.state(), s.side.Status()
	if state.Pending > 0 || state.UnderWay || !status.Ready {
		s.t.Errorf("%s: %d pods pending, under way %t, ready %t %s", at, state.Pending, state.UnderWay, status.Ready, status.NotReady)
	}
	if len(status.Groups) != len(state.Groups) {
		s.t.Fatalf("%s: %d groups, want %d", at, len(status.Groups), len(state.Groups))
	}
	for i, g := range status.Groups {
		want := state.Groups[i]
		target, err := s.calls.TargetSize(ctx, want.ID)
		if err != nil || target != want.Size {
			s.t.Errorf("%s: target size of %s: %d, %v, want %d", at, want.ID, target, err, want.Size)
		}
		if g.Name != want.ID || g.Size != want.Size || g.Ready != want.Ready || g.InFlight != 0 || g.Unseen != 0 || g.Backoff != "" ||
			g.Problem != "" {
			s.t.Errorf("%s: books %+v, cloud %+v", at, g, want)
		}
		shown, err := s.calls.Nodes(ctx, want.ID)
		if err != nil {
			s.t.Error(err)
		}
		if there, err := s.cloud.Nodes(ctx, want.ID); err != nil || !slices.Equal(ids(shown), ids(there)) {
			s.t.Errorf("%s: instances of %s: %v, want %v, %v", at, want.ID, ids(shown), ids(there), err)
		}
	}
	if s.t.Failed() {
		for _, c := range s.ca.changes {
			if c.At.After(start.Add(at - cycle)) {
				s.t.Log(c)
			}
		}
		for _, d := range status.Decisions {
			s.t.Logf("%s %s %s %d of %d: %s %s", d.Time.Sub(start), d.Call, d.Group, d.Granted, d.Asked, d.Reason, d.Error)
		}
		s.t.FailNow()
	}
}

func ids(instances []cloudprovider.Instance) []string {
	var out []string
	for _, in := range instances {
		out = append(out, in.ID)
	}
	return out
}

// heap is the memory in use, in bytes.
func (s *soak) heap() int {
	runtime.GC()
	runtime.GC() // what pools keep goes with the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapAlloc)
}

func (s *soak) close() {
	s.front.hangUp(s.t)
	s.front.stop(s.t)
	s.behind.hangUp(s.t)
	s.behind.stop(s.t)
}

// pipe is a gRPC server at the other end of connections in memory.
type pipe struct {
	mu       sync.Mutex
	listener *bufconn.Listener // of the server that runs now
	server   *grpc.Server
	ended    chan error
	open     map[net.Conn]bool
	clients  []*grpc.ClientConn
}

func (p *pipe) serve(t testing.TB, register func(grpc.ServiceRegistrar)) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	// Small, as ended connections are held for a while in real time, of which a day takes little.
	p.listener, p.ended, p.open = bufconn.Listen(1<<12), make(chan error, 1), map[net.Conn]bool{}
	p.server = grpc.NewServer(grpc.StatsHandler(naming{}))
	register(p.server)
	go func(listener net.Listener) { p.ended <- p.server.Serve(listener) }(p.listener)
}

// stop ends the server. Clients wait for the next.
func (p *pipe) stop(t testing.TB) {
	t.Helper()
	if p.server == nil {
		return
	}
	p.server.Stop()
	if err := <-p.ended; err != nil {
		t.Error(err)
	}
	p.noticed(t)
}

// cut breaks the connections.
func (p *pipe) cut(t testing.TB) {
	t.Helper()
	p.mu.Lock()
	broken := slices.Collect(maps.Keys(p.open))
	clear(p.open)
	p.mu.Unlock()
	for _, conn := range broken {
		_ = conn.Close()
	}
	p.noticed(t)
}

// noticed returns when all clients know that their connection is gone, so that no call is lost for
// want of that.
func (p *pipe) noticed(t testing.TB) {
	t.Helper()
	for _, client := range p.clients {
		client.WaitForStateChange(t.Context(), connectivity.Ready)
	}
}

// dial makes a client of whatever server runs.
func (p *pipe) dial(t testing.TB) *grpc.ClientConn {
	t.Helper()
	again := grpc.ConnectParams{Backoff: backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: time.Millisecond},
		MinConnectTimeout: time.Second}
	client, err := grpc.NewClient("passthrough:///pipe", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(p.connect),
		grpc.WithConnectParams(again), grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), grpc.WithIdleTimeout(0),
		grpc.WithDisableServiceConfig())
	if err != nil {
		t.Fatal(err)
	}
	p.clients = append(p.clients, client)
	return client
}

func (p *pipe) connect(ctx context.Context, _ string) (net.Conn, error) {
	p.mu.Lock()
	listener := p.listener
	p.mu.Unlock()
	conn, err := listener.DialContext(ctx)
	if err == nil {
		p.mu.Lock()
		p.open[conn] = true
		p.mu.Unlock()
	}
	return conn, err
}

// hangUp closes all clients.
func (p *pipe) hangUp(t testing.TB) {
	t.Helper()
	for _, client := range p.clients {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	}
	p.clients = nil
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.open)
}

// naming gives connections names, as package serving does.
type naming struct{}

var named atomic.Int64

func (naming) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context {
	return context.WithValue(ctx, connectionKey{}, strconv.FormatInt(named.Add(1), 10))
}
func (naming) HandleConn(context.Context, stats.ConnStats)                     {}
func (naming) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }
func (naming) HandleRPC(context.Context, stats.RPCStats)                       {}

func connectionOf(ctx context.Context) string {
	name, _ := ctx.Value(connectionKey{}).(string)
	return name
}
