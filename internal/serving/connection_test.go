package serving_test

import (
	"context"
	"slices"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/health/grpc_health_v1"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/serving"
)

// TestConnectionNamesTheConnection: the calls of a connection have one name,
// those of others another, of whichever server.
func TestConnectionNamesTheConnection(t *testing.T) {
	var names []string
	note := grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		names = append(names, serving.Connection(ctx))
		return handle(ctx, request)
	})
	for range 2 {
		server := run(t, serving.Options{GRPC: []grpc.ServerOption{note}})
		for range 2 {
			conn, err := serving.Dial(server.Address(), serving.Files{}, clock.RealClock{})
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if _, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{}); err != nil {
					t.Fatal(err)
				}
			}
			if err := conn.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	different := slices.Compact(slices.Clone(names))
	slices.Sort(different)
	if len(names) != 8 || len(slices.Compact(different)) != 4 || slices.Contains(names, "") || names[0] != names[1] {
		t.Errorf("the connections of the calls are %q", names)
	}
	if name := serving.Connection(t.Context()); name != "" {
		t.Errorf("not a call, but connection %q", name)
	}
}
