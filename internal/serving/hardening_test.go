package serving_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/internal/serving"
)

// connect opens a connection that sends only the given greeting.
func connect(t *testing.T, address, greeting string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_, _ = io.WriteString(conn, greeting) // may be cut off already
	return conn
}

// closedBy reports whether the other side closes a connection by then.
func closedBy(t *testing.T, conn net.Conn, then time.Time) bool {
	t.Helper()
	if err := conn.SetReadDeadline(then); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, conn)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// hello is the first message of a TLS client.
func hello(t *testing.T) string {
	t.Helper()
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		_ = tls.Client(theirs, &tls.Config{ServerName: "localhost"}).HandshakeContext(t.Context())
		_ = theirs.Close()
	}()
	text := make([]byte, 4096)
	n, err := ours.Read(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(text[:n])
}

// greetings are what clients say that do not mean well, or are none.
func greetings(t *testing.T) map[string]string {
	first := hello(t)
	return map[string]string{
		"nothing":                  "",
		"half a TLS hello":         first[:len(first)/2],
		"a TLS hello and no more":  first,
		"half an HTTP/2 preface":   "PRI * HTTP/2.0",
		"half an HTTP/1.1 request": "GET /metrics HTTP/1.1\r\nHost: a\r\nX-",
		"an HTTP/2 preface":        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"garbage":                  strings.Repeat("\x00\xffgarbage\n", 1000),
		"a long line":              "GET /" + strings.Repeat("x", 1<<20),
	}
}

// TestSilentAndGarbledClientsAreCutOff: a connection without a valid greeting is closed after the
// handshake timeout; calls of others continue.
func TestSilentAndGarbledClientsAreCutOff(t *testing.T) {
	t.Parallel()
	files := newFolder(t, time.Now())
	secure, plain := run(t, serving.Options{Files: files.server(true)}), run(t, serving.Options{})
	web, secureWeb := runHTTP(t, serving.HTTPOptions{}), runHTTP(t, serving.HTTPOptions{Files: files.server(true)})
	addresses := map[string]string{"gRPC": plain.Address(), "gRPC with TLS": secure.Address(), "HTTP": web.Address(),
		"HTTP with TLS": secureWeb.Address()}
	open := map[string]net.Conn{}
	for kind, address := range addresses {
		for name, greeting := range greetings(t) {
			open[name+" to "+kind] = connect(t, address, greeting)
		}
	}
	if err := ask(t, secure.Address(), files.client(), clock.RealClock{}); err != nil {
		t.Error(err)
	}
	if err := ask(t, plain.Address(), serving.Files{}, clock.RealClock{}); err != nil {
		t.Error(err)
	}
	if code, text := get(t, "http://"+web.Address()+"/healthz"); code != http.StatusOK {
		t.Errorf("/healthz answers %d %q", code, text)
	}
	limit := time.Now().Add(5 * time.Minute)
	for name, conn := range open {
		if !closedBy(t, conn, limit) {
			t.Errorf("%s: the connection is still open", name)
		}
	}
}

// TestSilentClientsLeaveRoom: of very many connections that say nothing the oldest
// give way, and the memory they take is bounded.
func TestSilentClientsLeaveRoom(t *testing.T) {
	const silent = 600
	files := newFolder(t, time.Now())
	servers := map[string]struct {
		address string
		ask     func() error
	}{}
	secure, web := run(t, serving.Options{Files: files.server(true)}), runHTTP(t, serving.HTTPOptions{})
	servers["gRPC"] = struct {
		address string
		ask     func() error
	}{secure.Address(), func() error { return ask(t, secure.Address(), files.client(), clock.RealClock{}) }}
	servers["HTTP"] = struct {
		address string
		ask     func() error
	}{web.Address(), func() error {
		if code, text := get(t, "http://"+web.Address()+"/healthz"); code != http.StatusOK {
			return errors.New(text)
		}
		return nil
	}}
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			before := heap()
			conns := make([]net.Conn, silent)
			for i := range conns {
				conns[i] = connect(t, server.address, "")
				if i%200 == 199 {
					if err := server.ask(); err != nil {
						t.Errorf("after %d connections: %v", i+1, err)
					}
				}
			}
			if !closedBy(t, conns[0], time.Now().Add(time.Minute)) {
				t.Error("the oldest connection is still open")
			}
			if closedBy(t, conns[silent-1], time.Now().Add(10*time.Millisecond)) {
				t.Error("the youngest connection is closed")
			}
			grown := (heap() - before) >> 10
			t.Logf("%d silent connections take %d KiB", silent, grown)
			if grown > 64<<10 {
				t.Errorf("%d silent connections take %d KiB", silent, grown)
			}
		})
	}
}

// heap is the memory in use, in bytes.
func heap() int {
	runtime.GC()
	runtime.GC() // memory held by pools is freed by the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int(stats.HeapInuse)
}

// TestSlowRequestIsCutOff: a call whose request does not arrive costs its
// connection, and no other.
func TestSlowRequestIsCutOff(t *testing.T) {
	c := clocktesting.NewFakeClock(start)
	server := run(t, serving.Options{Clock: c})
	dial := func() *grpc.ClientConn {
		conn, err := serving.Dial(server.Address(), serving.Files{}, c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	patient := grpc_health_v1.NewHealthClient(dial())
	watch, err := patient.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	slow, err := dial().NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, grpc_health_v1.Health_Check_FullMethodName)
	if err != nil {
		t.Fatal(err)
	}
	unknown, err := dial().NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true}, "/unknown.Service/Method")
	if err != nil {
		t.Fatal(err)
	}
	if err := unknown.RecvMsg(&grpc_health_v1.HealthCheckResponse{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("an unknown method: %v", err)
	}
	for !c.HasWaiters() { // until the server waits for the request
		runtime.Gosched()
	}
	c.Step(30 * time.Second)
	if err := slow.RecvMsg(&grpc_health_v1.HealthCheckResponse{}); status.Code(err) != codes.Unavailable {
		t.Errorf("a call without a request: %v", err)
	}
	server.Health.SetServingStatus("", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	if answer, err := watch.Recv(); err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("another connection: %v, %v", answer, err)
	}
}

// TestOversizeIsRefused: the call fails, and the next one does not.
func TestOversizeIsRefused(t *testing.T) {
	server := run(t, serving.Options{MaxRequest: 1 << 10})
	conn, err := serving.Dial(server.Address(), serving.Files{}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := grpc_health_v1.NewHealthClient(conn)
	call := func(ctx context.Context, service string) codes.Code {
		_, err := client.Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
		return status.Code(err)
	}
	large := metadata.AppendToOutgoingContext(t.Context(), "large", strings.Repeat("x", 100<<10))
	for i, test := range []struct {
		ctx     context.Context
		service string
		want    codes.Code
	}{
		{t.Context(), "", codes.OK},
		{t.Context(), string(bytes.Repeat([]byte("x"), 2<<10)), codes.ResourceExhausted},
		{t.Context(), "", codes.OK},
		{large, "", codes.Internal},
		{t.Context(), "", codes.OK},
	} {
		if got := call(test.ctx, test.service); got != test.want {
			t.Errorf("call %d: %v, want %v", i, got, test.want)
		}
	}
}
