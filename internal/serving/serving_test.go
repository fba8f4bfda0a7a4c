package serving_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/evenkeel/evenkeel/internal/serving"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var start = time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC)

// folder has certificates of an authority of its own.
type folder string

func newFolder(t testing.TB, now time.Time) folder {
	t.Helper()
	f := folder(t.TempDir())
	f.renew(t, now)
	return f
}

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

func (f folder) renew(t testing.TB, now time.Time) {
	t.Helper()
	authority, err := serving.NewAuthority(now, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server, err := authority.Server("localhost", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	elsewhere, err := authority.Server("elsewhere.example")
	if err != nil {
		t.Fatal(err)
	}
	client, err := authority.Client("cluster-autoscaler")
	if err != nil {
		t.Fatal(err)
	}
	for name, pair := range map[string]serving.Pair{"ca": authority.Pair, "server": server, "elsewhere": elsewhere, "client": client} {
		f.write(t, name+".crt", pair.Cert)
		f.write(t, name+".key", pair.Key)
	}
}

func (f folder) write(t testing.TB, name string, text []byte) {
	t.Helper()
	if err := os.WriteFile(f.path(name), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

func (f folder) server(mutual bool) serving.Files {
	files := serving.Files{Cert: f.path("server.crt"), Key: f.path("server.key")}
	if mutual {
		files.CACert = f.path("ca.crt")
	}
	return files
}

func (f folder) client() serving.Files {
	return serving.Files{Cert: f.path("client.crt"), Key: f.path("client.key"), CACert: f.path("ca.crt")}
}

func (f folder) pool(t testing.TB) *x509.CertPool {
	t.Helper()
	text, err := os.ReadFile(f.path("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return pool
}

// run runs a server until the test ends.
func run(t *testing.T, o serving.Options) *serving.Server {
	t.Helper()
	server, err := serving.Listen(t.Context(), "127.0.0.1:0", o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // ends in Cleanup, after the test's own
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return server
}

// ask asks for the health of a server, over a connection of its own.
func ask(t *testing.T, address string, files serving.Files, c clock.PassiveClock) error {
	t.Helper()
	conn, err := serving.Dial(address, files, c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err == nil && answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("health %v", answer.GetStatus())
	}
	return err
}

func TestWhoMayConnect(t *testing.T) {
	c := clocktesting.NewFakeClock(start)
	ours, others := newFolder(t, start), newFolder(t, start)
	tests := map[string]struct {
		server, client serving.Files
		want           string // in the error; empty for none
	}{
		"plain text":             {serving.Files{}, serving.Files{}, ""},
		"TLS":                    {ours.server(false), serving.Files{CACert: ours.path("ca.crt")}, ""},
		"TLS, client shows one":  {ours.server(false), ours.client(), ""},
		"mutual TLS":             {ours.server(true), ours.client(), ""},
		"mutual, no certificate": {ours.server(true), serving.Files{CACert: ours.path("ca.crt")}, "Unavailable"},
		"mutual, another CA's": {ours.server(true), serving.Files{Cert: others.path("client.crt"), Key: others.path("client.key"),
			CACert: ours.path("ca.crt")}, "Unavailable"},
		"server of another CA":   {ours.server(false), serving.Files{CACert: others.path("ca.crt")}, "unknown authority"},
		"plain text to TLS":      {ours.server(false), serving.Files{}, "Unavailable"},
		"TLS to plain text":      {serving.Files{}, ours.client(), "handshake"},
		"a client as the server": {serving.Files{Cert: ours.path("client.crt"), Key: ours.path("client.key")}, ours.client(), "certificate"},
		"a server as the client": {ours.server(true), serving.Files{Cert: ours.path("server.crt"), Key: ours.path("server.key"),
			CACert: ours.path("ca.crt")}, "Unavailable"},
		"unknown to system roots": {ours.server(false), serving.Files{Cert: ours.path("client.crt"), Key: ours.path("client.key")},
			"certificate"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server := run(t, serving.Options{Files: test.server, Clock: c})
			err := ask(t, server.Address(), test.client, c)
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestReload(t *testing.T) {
	c := clocktesting.NewFakeClock(start)
	files := newFolder(t, start)
	server := run(t, serving.Options{Files: files.server(true), Clock: c})
	step := func(d time.Duration, problem string) {
		t.Helper()
		c.Step(d)
		if err := server.Problem(); (err == nil) != (problem == "") || err != nil && !strings.Contains(err.Error(), problem) {
			t.Errorf("problem %v, want %q", err, problem)
		}
	}
	step(2*time.Hour, "expired on 2026-09-01T13:00:00Z")
	files.renew(t, c.Now())
	step(serving.ReloadInterval-1, "expired")
	step(1, "")
	if err := ask(t, server.Address(), files.client(), c); err != nil {
		t.Error(err)
	}
	good, err := os.ReadFile(files.path("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	files.write(t, "server.key", []byte("half a k"))
	step(serving.ReloadInterval, "server.key")
	if err := ask(t, server.Address(), files.client(), c); err != nil {
		t.Errorf("the pair in use is not in use: %v", err)
	}
	files.write(t, "server.key", good)
	step(serving.ReloadInterval, "")
	if err := os.Remove(files.path("ca.crt")); err != nil {
		t.Fatal(err)
	}
	step(serving.ReloadInterval, "ca.crt: no such file")
}

func TestListenRefuses(t *testing.T) {
	files := newFolder(t, start)
	files.write(t, "garbage", []byte("garbage"))
	taken, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tests := map[string]struct {
		address string
		files   serving.Files
		at      time.Time
		want    string
	}{
		"plain text off loopback": {"0.0.0.0:0", serving.Files{}, start, "no TLS on"},
		"a taken port":            {taken.Addr().String(), serving.Files{}, start, "in use"},
		"only a CA":               {"127.0.0.1:0", serving.Files{CACert: files.path("ca.crt")}, start, "needs a certificate"},
		"no key":                  {"127.0.0.1:0", serving.Files{Cert: files.path("server.crt")}, start, "belong together"},
		"missing":                 {"127.0.0.1:0", serving.Files{Cert: files.path("x"), Key: files.path("y")}, start, "no such file"},
		"garbage":                 {"127.0.0.1:0", serving.Files{Cert: files.path("garbage"), Key: files.path("server.key")}, start, "garbage"},
		"garbage CA": {"127.0.0.1:0", serving.Files{Cert: files.path("server.crt"), Key: files.path("server.key"),
			CACert: files.path("garbage")}, start, "no certificate in it"},
		"another's key": {"127.0.0.1:0", serving.Files{Cert: files.path("server.crt"), Key: files.path("client.key")}, start, "private key"},
		"expired":       {"127.0.0.1:0", files.server(false), start.Add(2 * time.Hour), "expired on"},
		"not valid yet": {"127.0.0.1:0", files.server(false), start.Add(-time.Hour), "not valid before"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			server, err := serving.Listen(t.Context(), test.address, serving.Options{Files: test.files, Clock: clocktesting.NewFakeClock(test.at)})
			if err == nil {
				server.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want %q", err, test.want)
			}
		})
	}
}

func TestAskedForPlaintext(t *testing.T) {
	server, err := serving.Listen(t.Context(), "0.0.0.0:0", serving.Options{Plaintext: true})
	if err != nil {
		t.Fatal(err)
	}
	server.Stop()
}

// TestStopWaitsNoLongerThanItsGrace: a call that hangs is cut off.
func TestStopWaitsNoLongerThanItsGrace(t *testing.T) {
	c := clocktesting.NewFakeClock(start)
	server, err := serving.Listen(t.Context(), "127.0.0.1:0", serving.Options{Clock: c, Grace: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	conn, err := serving.Dial(server.Address(), serving.Files{}, c)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	watch, err := grpc_health_v1.NewHealthClient(conn).Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []grpc_health_v1.HealthCheckResponse_ServingStatus{1, 2} { // serving, then not
		if answer, err := watch.Recv(); err != nil || answer.GetStatus() != want {
			t.Fatalf("health %v, error %v, want %v", answer, err, want)
		}
		cancel()
	}
	for !c.HasWaiters() { // until Run waits
		runtime.Gosched()
	}
	c.Step(time.Minute)
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the call ended with %v", err)
	}
}

func TestAuthorityRefuses(t *testing.T) {
	if _, err := serving.NewAuthority(start, 0); err == nil {
		t.Error("no lifetime, no error")
	}
	authority, err := serving.NewAuthority(start, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for _, hosts := range [][]string{nil, {"a", ""}} {
		if _, err := authority.Server(hosts...); err == nil {
			t.Errorf("hosts %q: no error", hosts)
		}
	}
}

func Example() {
	ctx, stop := context.WithCancel(context.Background())
	server, err := serving.Listen(ctx, "127.0.0.1:0", serving.Options{})
	if err != nil {
		panic(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	conn, err := serving.Dial(server.Address(), serving.Files{}, clock.RealClock{})
	if err != nil {
		panic(err)
	}
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{})
	fmt.Println(answer.GetStatus(), err, conn.Close())
	stop()
	fmt.Println(<-done)
	// Output:
	// SERVING <nil> <nil>
	// <nil>
}

func ExampleListenHTTP() {
	ctx, stop := context.WithCancel(context.Background())
	server, err := serving.ListenHTTP(ctx, "127.0.0.1:0", serving.HTTPOptions{
		Ready: map[string]func() error{"backend": func() error { return errors.New("not reached yet") }},
	})
	if err != nil {
		panic(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	response, err := http.Get("http://" + server.Address() + "/readyz?verbose")
	if err != nil {
		panic(err)
	}
	text, err := io.ReadAll(response.Body)
	fmt.Print(response.Status, "\n", string(text))
	fmt.Println(err, response.Body.Close())
	http.DefaultClient.CloseIdleConnections()
	stop()
	fmt.Println(<-done)
	// Output:
	// 500 Internal Server Error
	// [-]backend failed: not reached yet
	// readyz check failed
	// <nil> <nil>
	// <nil>
}
