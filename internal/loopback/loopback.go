// Package loopback serves gRPC services on loopback during a test, with the same server as the
// commands. It is for tests only, and knows no service.
package loopback

import (
	"testing"

	"google.golang.org/grpc"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/internal/serving"
)

// Listen serves the services added by register until the test ends, and returns the address,
// host:port.
func Listen(t testing.TB, register func(grpc.ServiceRegistrar), options ...grpc.ServerOption) string {
	t.Helper()
	server, err := serving.Listen(t.Context(), "127.0.0.1:0", serving.Options{GRPC: options})
	if err != nil {
		t.Fatal(err)
	}
	register(server)
	done := make(chan error, 1)
	go func() { done <- server.Run(t.Context()) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return server.Address()
}

// Dial connects to a server until the test ends.
func Dial(t testing.TB, address string) *grpc.ClientConn {
	t.Helper()
	conn, err := serving.Dial(address, serving.Files{}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Serve is Listen followed by Dial.
func Serve(t testing.TB, register func(grpc.ServiceRegistrar), options ...grpc.ServerOption) *grpc.ClientConn {
	t.Helper()
	return Dial(t, Listen(t, register, options...))
}
