package autoscaler_test

import (
	"context"
	"net"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/expander/grpcexpander"
	"github.com/evenkeel/evenkeel/fake"
	"github.com/evenkeel/evenkeel/internal/autoscaler"
)

// dial serves the baseline and returns a connection to it.
func dial(t testing.TB, b *baseline) *grpc.ClientConn {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer(grpc.MaxRecvMsgSize(grpcexpander.MaxMessage))
	externalgrpc.NewServer(b).Register(server)
	grpcexpander.NewServer(b).Register(server)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
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

// Over gRPC the loop sees the same and does the same as with direct calls, in every step.
func TestOverGRPC(t *testing.T) {
	config := sixtyPods()
	cloud := fake.Config{Groups: three([3]int{1, 0, 2}, time.Minute)}
	direct := newTrial(t, steering, cloud, config)
	remote := makeTrial(t, steering, cloud)
	conn := dial(t, remote.baseline)
	config.connect = func(int) autoscaler.Connection {
		return autoscaler.Connection{Provider: externalgrpc.NewClient(conn), Expander: grpcexpander.NewClient(conn)}
	}
	remote.begin(t, config)
	wantSizes(t, remote, remote.settle(t, 30*time.Minute), direct.settle(t, 30*time.Minute).Sizes()...)
	if got, want := trace(remote.calls), trace(direct.calls); got != want {
		t.Errorf("calls over gRPC\n%s\ndirect\n%s", got, want)
	}
}
