package main

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/internal/serving"
)

// The program serves the fleet that comes with it, mutual TLS included, until it is stopped.
func TestFakeCloudServes(t *testing.T) {
	certs := t.TempDir()
	if code := run(t.Context(), []string{"certs", "--dir", certs, "--host", "127.0.0.1"}, nil, io.Discard, os.Stderr); code != exitSuccess {
		t.Fatal("no certificates")
	}
	in := func(name string) string { return filepath.Join(certs, name) }
	s := startServer(t, "fake-cloud", "--config", "../../configs/fleets/three-zones.yaml", "--address", "127.0.0.1:0", "--metrics-address",
		"127.0.0.1:0",
		"--cert", in("server.crt"), "--key", in("server.key"), "--cacert", in("ca.crt"))

	conn, err := serving.Dial(s.address(t, "Serving the cloud provider"), serving.Files{Cert: in("client.crt"), Key: in("client.key"),
		CACert: in("ca.crt")}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	client := externalgrpc.NewClient(conn)
	groups, err := client.NodeGroups(t.Context())
	if err != nil || len(groups) != 3 {
		t.Errorf("%d groups, %v", len(groups), err)
	}
	if err := client.IncreaseSize(t.Context(), "zone-b", 2); err != nil {
		t.Error(err)
	}
	web := "http://" + s.address(t, "Serving probes and metrics")
	for path, want := range map[string]string{
		"/healthz": "ok", "/readyz?verbose": "[+]certificate ok",
		"/metrics": `evenkeel_grpc_requests_total{code="OK",method="NodeGroupIncreaseSize",`,
	} {
		if got := get(t, web+path); !strings.Contains(got, want) {
			t.Errorf("%s: %q is not in %s", path, want, got)
		}
	}
	if code := s.stop(); code != exitSuccess {
		t.Errorf("exit code %d", code)
	}
}

// An API server that does not respond is reported, and the cloud is still served.
func TestFakeCloudWithoutItsCluster(t *testing.T) {
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	const nobody = `{apiVersion: v1, kind: Config, clusters: [{name: a, cluster: {server: "http://127.0.0.1:9"}}], contexts: [{name: a, context: {cluster: a}}], current-context: a}`
	if err := os.WriteFile(kubeconfig, []byte(nobody), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServer(t, "fake-cloud", "-f", "../../configs/fleets/three-zones.yaml", "--address", "127.0.0.1:0", "--metrics-address",
		"127.0.0.1:0", "--kubeconfig", kubeconfig)
	s.await(t, regexp.MustCompile(`The API server cannot be used.*connection refused`))
	conn, err := serving.Dial(s.address(t, "Serving the cloud provider"), serving.Files{}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := externalgrpc.NewClient(conn).NodeGroups(t.Context()); err != nil {
		t.Error(err)
	}
	if got := get(t, "http://"+s.address(t, "Serving probes and metrics")+"/readyz"); !strings.Contains(got, "[-]api-server failed: ") {
		t.Errorf("readyz: %s", got)
	}
	if code := s.stop(); code != exitSuccess {
		t.Errorf("exit code %d", code)
	}
}

// A server is a command that runs until it is stopped.
type server struct {
	cancel context.CancelFunc
	code   chan int
	lines  chan string
	log    string
}

func startServer(t *testing.T, args ...string) *server {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &server{cancel: cancel, code: make(chan int, 1), lines: make(chan string, 1000)}
	go func() { s.code <- run(ctx, args, nil, io.Discard, s) }()
	t.Cleanup(cancel)
	return s
}

// Write takes a line of the log.
func (s *server) Write(line []byte) (int, error) {
	s.lines <- string(line)
	return len(line), nil
}

// patience is longer than a busy machine takes.
const patience = 5 * time.Minute

// await reads the log until something in it matches.
func (s *server) await(t *testing.T, pattern *regexp.Regexp) []string {
	t.Helper()
	deadline := time.After(patience)
	for {
		if found := pattern.FindStringSubmatch(s.log); found != nil {
			return found
		}
		select {
		case line := <-s.lines:
			s.log += line
		case code := <-s.code:
			t.Fatalf("it ended with code %d: %s", code, s.log)
		case <-deadline:
			t.Fatalf("%v is not in the log: %s", pattern, s.log)
		}
	}
}

// address is where the log says that the server listens.
func (s *server) address(t *testing.T, message string) string {
	t.Helper()
	return s.await(t, regexp.MustCompile(message+`" address="([^"]+)"`))[1]
}

func (s *server) stop() (code int) {
	s.cancel()
	return <-s.code
}

func get(t *testing.T, url string) string {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}
