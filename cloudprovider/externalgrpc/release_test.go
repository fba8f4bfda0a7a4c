package externalgrpc_test

import (
	"context"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/test/bufconn"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc/externalgrpcpb"
)

// The versions are those in go.mod of Cluster Autoscaler.
func TestBefore136(t *testing.T) {
	for agent, want := range map[string]bool{
		"grpc-go/1.72.1":                     true,  // 1.34
		"grpc-go/1.75.0":                     true,  // 1.35
		"cluster-autoscaler grpc-go/1.75.0":  true,  // that names itself
		"grpc-go/1.81.1":                     false, // 1.36
		"grpc-go/1.82.0-dev":                 false, // the newest
		"grpc-go/2.0.0":                      false,
		"grpc-go/":                           false,
		"grpc-go/one":                        false,
		"grpc-c++/1.50.0 grpc-c/29.0":        false,
		"envoy":                              false,
		"":                                   false,
		"grpc-go/99999999999999999999.1.1":   false,
		"something/1.2.3 more grpc-go/1.9.0": true,
	} {
		if got := externalgrpc.Before136(metadata.NewIncomingContext(t.Context(), metadata.Pairs("user-agent", agent))); got != want {
			t.Errorf("%q: %v", agent, got)
		}
	}
	if externalgrpc.Before136(t.Context()) {
		t.Error("a call that was not served is of an old release")
	}
}

// told is a server that reports whether its caller is of a release before 1.36.
type told struct {
	externalgrpcpb.UnimplementedCloudProviderServer
	before chan bool
}

func (s told) Refresh(ctx context.Context, _ *externalgrpcpb.RefreshRequest) (*externalgrpcpb.RefreshResponse, error) {
	s.before <- externalgrpc.Before136(ctx)
	return &externalgrpcpb.RefreshResponse{}, nil
}

// A client of the gRPC library of this module is no older than Cluster Autoscaler 1.36.
func TestAPresentClientIsNotBefore136(t *testing.T) {
	listener := bufconn.Listen(4 << 10)
	server, before := grpc.NewServer(), make(chan bool, 1)
	externalgrpcpb.RegisterCloudProviderServer(server, told{before: before})
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	conn, err := grpc.NewClient("passthrough:///x", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := externalgrpc.NewClient(conn).Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if <-before {
		t.Error("the library of this module counts as older than that of Cluster Autoscaler 1.36")
	}
}
