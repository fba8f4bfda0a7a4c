package sidecar_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/evenkeel/evenkeel/api/v1alpha1"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
	"github.com/evenkeel/evenkeel/internal/serving"
	"github.com/evenkeel/evenkeel/sidecar"
	"github.com/evenkeel/evenkeel/steering"
)

// served is a world whose sidecar is a server on loopback.
type served struct {
	*harness
	server *serving.Server
	conn   *grpc.ClientConn // of the present process of Cluster Autoscaler
	done   chan error
}

// serve starts a server in front of the world's sidecar, and a Cluster Autoscaler that is connected
// to it by a connection for each of its processes. It ends both with the test, and with them all
// that they have started.
func serve(t *testing.T, s setup, fault func(*served, caCall) callFault) *served {
	t.Helper()
	leaks := goleak.IgnoreCurrent()
	x := &served{}
	t.Cleanup(func() {
		if x.conn != nil {
			_ = x.conn.Close()
		}
		x.stop()
		goleak.VerifyNone(t, leaks)
	})
	x.harness = newHarness(t, s)
	if fault != nil {
		s.fault = func(_ *harness, c caCall) callFault { return fault(x, c) }
	}
	x.options.Connection = serving.Connection
	x.start()
	x.connect(s, func(int) autoscaler.Connection {
		if x.conn != nil {
			_ = x.conn.Close()
		}
		var err error
		x.conn, err = grpc.NewClient("passthrough:///sidecar", grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithDefaultCallOptions(grpc.WaitForReady(true)), // a call waits for the sidecar that is being started anew
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "tcp", x.server.Address())
			}))
		if err != nil {
			t.Fatal(err)
		}
		return autoscaler.Connection{Provider: externalgrpc.NewClient(x.conn), Expander: grpcexpander.NewClient(x.conn)}
	})
	return x
}

// start starts the process of a sidecar.
func (x *served) start() {
	x.t.Helper()
	x.restartSidecar()
	server, err := serving.Listen(context.Background(), "127.0.0.1:0",
		serving.Options{GRPC: []grpc.ServerOption{grpcexpander.Report(x.front.Sidecar)}})
	if err != nil {
		x.t.Fatal(err)
	}
	externalgrpc.NewServer(x.front.Sidecar).Register(server)
	grpcexpander.NewServer(x.front.Sidecar).Register(server)
	x.server, x.done = server, make(chan error, 1)
	go func() { x.done <- server.Run(context.Background()) }()
}

func (x *served) stop() {
	if x.server == nil {
		return
	}
	x.server.Stop()
	if err := <-x.done; err != nil && !errors.Is(err, grpc.ErrServerStopped) { // before it had begun
		x.t.Error(err)
	}
	x.server = nil
}

// restart ends the process of the sidecar, with all connections to it, and starts another. Cluster
// Autoscaler has noticed when it calls next.
func (x *served) restart() {
	x.t.Helper()
	x.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if x.conn.GetState() == connectivity.Ready && !x.conn.WaitForStateChange(ctx, connectivity.Ready) {
		x.t.Error("the connection outlives the server")
	}
	x.start()
}

// TestSteeringServed: what holds for calls from within the process holds for those over gRPC.
func TestSteeringServed(t *testing.T) {
	between := 0
	restartInBetween := func(x *served, c caCall) callFault { // question and increase
		if c.Method == fake.MethodIncreaseSize {
			if between++; between <= 2 {
				x.restart()
			}
		}
		return callFault{}
	}
	restart := func(after int) func(*served, caCall) callFault {
		increases, done := 0, false
		return func(x *served, c caCall) callFault {
			if increases == after && !done {
				done = true
				x.restart()
			}
			if c.Method == fake.MethodIncreaseSize {
				increases++
			}
			return callFault{}
		}
	}
	local := func(fault func(*harness, caCall) callFault) func(*served, caCall) callFault {
		return func(x *served, c caCall) callFault { return fault(x.harness, c) }
	}
	out := func(mode string, failAfter time.Duration) []v1alpha1.StockOut {
		return []v1alpha1.StockOut{{Groups: []string{"b"}, Mode: mode, FailAfter: lasting(failAfter)}}
	}
	tests := map[string]struct {
		groups []fake.Group
		nodes  int
		stocks []v1alpha1.StockOut
		fault  func(*served, caCall) callFault
		ca     autoscaler.Options
		waits  time.Duration // for nodes; 0 is the default
		want   []int
		plans  int // 0 for any
	}{
		"three empty groups": {groups: zones(0, 0, 0), nodes: 9, want: []int{3, 3, 3}, plans: 3},
		"uneven sizes":       {groups: zones(1, 3, 6), nodes: 4, want: []int{4, 4, 6}, plans: 2},
		"slow nodes":         {nodes: 30, want: []int{10, 10, 10}, plans: 3},
		"one refuses":        {nodes: 30, stocks: out(v1alpha1.StockOutRefuse, 0), want: []int{15, 0, 15}},
		"one fails late":     {nodes: 30, stocks: out(v1alpha1.StockOutFail, 5*time.Second), want: []int{15, 0, 15}},
		"one is silent":      {nodes: 30, waits: 4 * time.Minute, stocks: out(v1alpha1.StockOutSilent, 0), want: []int{15, 0, 15}},
		"crash after one":    {nodes: 30, fault: local(crashAfter(1)), want: []int{10, 10, 10}},
		"crash after two":    {nodes: 30, fault: local(crashAfter(2)), want: []int{10, 10, 10}},
		"restart before any": {nodes: 30, fault: restart(0), want: []int{10, 10, 10}},
		"restart after one":  {nodes: 30, fault: restart(1), want: []int{10, 10, 10}},
		"restart after two":  {nodes: 30, fault: restart(2), want: []int{10, 10, 10}},
		"an answer is lost":  {nodes: 30, fault: local(lose(1)), want: []int{10, 10, 10}},
		"balanced twice":     {groups: zones(0, 0, 0), nodes: 9, ca: autoscaler.Options{Balance: true}, want: []int{3, 3, 3}},
		"restart in between": {nodes: 30, fault: restartInBetween, want: []int{10, 10, 10}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if tt.groups == nil {
				tt.groups = slow(zones(0, 0, 0))
			}
			tt.ca.ProvisionTime = tt.waits
			x := serve(t, setup{
				seed: 1, ca: tt.ca, sidecar: sidecar.Options{Options: steering.Options{MaxNodeProvisionTime: tt.waits}},
				cloud: fake.Config{Groups: tt.groups, StockOuts: tt.stocks}, batches: []batch{{Pods: podsOf("p", tt.nodes, 1)}},
			}, tt.fault)
			state := x.settle(time.Hour)
			if got := state.Sizes(); !slices.Equal(sorted(got), sorted(tt.want)) || state.Pending > 0 || tt.plans > 0 &&
				state.Increases != tt.plans {
				t.Errorf("sizes %v in %d plans, want %v in %d, %d pods pending\n%s", got, state.Increases, tt.want, tt.plans, state.Pending, x.log())
			}
		})
	}
}
