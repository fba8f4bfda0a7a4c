package main

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"k8s.io/utils/clock"

	"github.com/evenkeel/evenkeel/cloudprovider"
	"github.com/evenkeel/evenkeel/cloudprovider/externalgrpc"
	"github.com/evenkeel/evenkeel/internal/serving"
)

// startSidecar starts a sidecar without a cluster on free ports.
func startSidecar(t *testing.T, backend string, more ...string) (s *server, provider, web string) {
	t.Helper()
	dir := t.TempDir()
	certificates(t, dir)
	s = startServer(t, append([]string{
		"sidecar", "--backend-address", backend, "--address", "127.0.0.1:0", "--expander-address", "127.0.0.1:0", "--metrics-address",
		"127.0.0.1:0",
		"--expander-cert", filepath.Join(dir, "server.crt"), "--expander-key", filepath.Join(dir, "server.key"),
		"--no-cluster", "--infer-readiness", "--journal-file", filepath.Join(dir, "journal.json"),
	}, more...)...)
	found := s.await(t, regexp.MustCompile(`Serving Cluster Autoscaler" provider="([^"]+)" expander="[^"]+" metrics="([^"]+)"`))
	return s, found[1], "http://" + found[2]
}

func certificates(t *testing.T, dir string) {
	t.Helper()
	authority, err := serving.NewAuthority(clock.RealClock{}.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Server("127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string][]byte{"server.crt": pair.Cert, "server.key": pair.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func dialProvider(t *testing.T, address string) *externalgrpc.Client {
	t.Helper()
	connection, err := serving.Dial(address, serving.Files{}, clock.RealClock{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = connection.Close() })
	return externalgrpc.NewClient(connection)
}

// The program serves a cloud until it is stopped, is ready before the first call, and shows its
// status.
func TestSidecarServes(t *testing.T) {
	cloud := startServer(t, "fake-cloud", "--config", "../../configs/fleets/three-zones.yaml", "--address", "127.0.0.1:0")
	record := filepath.Join(t.TempDir(), "calls.jsonl")
	s, provider, web := startSidecar(t, cloud.address(t, "Serving the cloud provider"), "--record", record)
	if got := get(t, web+"/readyz?verbose"); !strings.Contains(got, "[+]cloud ok") {
		t.Errorf("before the first call: %s", got)
	}
	client := dialProvider(t, provider)
	if err := client.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	groups, err := client.NodeGroups(t.Context())
	if err != nil || len(groups) != 3 {
		t.Errorf("%d groups, %v", len(groups), err)
	}
	for path, want := range map[string]string{
		"/readyz?verbose": "[+]cloud ok", "/status": "<html", "/status?format=json": `"name": "zone-b"`, "/metrics": "evenkeel_build_info{",
	} {
		if got := get(t, web+path); !strings.Contains(got, want) {
			t.Errorf("%s: %q is not in %s", path, want, got)
		}
	}
	if code := s.stop(); code != exitSuccess {
		t.Errorf("exit code %d", code)
	}
	if text, err := os.ReadFile(record); err != nil || !strings.Contains(string(text), "/NodeGroups") {
		t.Errorf("recorded %q, %v", text, err)
	}
}

// What the sidecar has decided about is decided again from its recording: with the same flags all the same, with others not.
func TestSidecarReplays(t *testing.T) {
	cloud := startServer(t, "fake-cloud", "--config", "../../configs/fleets/three-zones.yaml", "--address", "127.0.0.1:0")
	events := filepath.Join(t.TempDir(), "events.jsonl")
	for range 2 { // a process after the other
		s, provider, _ := startSidecar(t, cloud.address(t, "Serving the cloud provider"), "--record-events", events)
		client := dialProvider(t, provider)
		if err := client.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := client.IncreaseSize(t.Context(), "zone-a", 1); err != nil {
			t.Fatal(err)
		}
		if code := s.stop(); code != exitSuccess {
			t.Errorf("exit code %d", code)
		}
	}
	write := func(text string) (name string) {
		name = filepath.Join(t.TempDir(), "events.jsonl")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	text, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"same flags": {[]string{"--replay", events}, exitSuccess, "the expander was not asked before", "0 of them answered otherwise"},
		"differs": {[]string{"--replay", write(strings.Replace(string(text), `"Nodes":1`, `"Nodes":2`, 1))}, exitFailure, "2 nodes   1 nodes",
			"1 of them answered otherwise"},
		"json":       {[]string{"--replay", events, "-o", "json"}, exitSuccess, `"differ": []`, ""},
		"no file":    {[]string{"--replay", events + "x"}, exitUsage, "", "must be a file of --record-events"},
		"wrong file": {[]string{"--replay", write("{\"event\":\"Ask\"}\n")}, exitUsage, "", `line 1: unknown event "Ask"`},
		"cut off": {[]string{"--replay", write(`{"at":"2026` + "\n" + string(text))}, exitSuccess, "the expander was not asked before",
			"0 of them answered otherwise"},
		"no event":   {[]string{"--replay", write("not an event\n")}, exitUsage, "", "no line is an event"},
		"serves too": {[]string{"--replay", events, "--backend-address", "x:1"}, exitUsage, "", "--replay cannot be combined with --backend-address"},
	}
	for name, tt := range tests {
		var stdout, stderr strings.Builder
		code := run(t.Context(), append([]string{"sidecar"}, tt.args...), nil, &stdout, &stderr)
		if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
			t.Errorf("%s: exit code %d, printed %s\n%s", name, code, stdout.String(), stderr.String())
		}
	}
}

// A Cluster Autoscaler before 1.36 is known by its gRPC library.
func TestSidecarKnowsOldReleases(t *testing.T) {
	cloud := startServer(t, "fake-cloud", "--config", "../../configs/fleets/three-zones.yaml", "--address", "127.0.0.1:0")
	_, provider, web := startSidecar(t, cloud.address(t, "Serving the cloud provider"))
	const said = "of a release before 1.36"
	for agent, want := range map[string]bool{"grpc-go/1.75.0": true, "": false} {
		connection, err := grpc.NewClient(provider, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent(agent))
		if err != nil {
			t.Fatal(err)
		}
		client := externalgrpc.NewClient(connection)
		err = client.Refresh(t.Context())
		if _, labelErr := client.GPULabel(t.Context()); err != nil || labelErr != nil {
			t.Fatal(err, labelErr)
		}
		_ = connection.Close()
		if status := get(t, web+"/status?format=json"); strings.Contains(status, said) != want {
			t.Errorf("user-agent %q: %s", agent, status)
		}
	}
}

// A cloud that is not there, at the start or later, makes the sidecar not ready and its answers
// errors after which Cluster Autoscaler skips its loop. When it is back, all is well.
func TestSidecarWithoutItsCloud(t *testing.T) {
	free, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	s, provider, web := startSidecar(t, address)
	client := dialProvider(t, provider)
	down := func() {
		t.Helper()
		if err := client.Refresh(t.Context()); !errors.Is(err, cloudprovider.ErrUnavailable) {
			t.Errorf("refresh: %v", err)
		}
		if got := get(t, web+"/readyz"); !strings.Contains(got, "[-]cloud failed: the cloud ") {
			t.Errorf("readyz: %s", got)
		}
	}
	down()
	up := func() *server {
		t.Helper()
		cloud := startServer(t, "fake-cloud", "--config", "../../configs/fleets/three-zones.yaml", "--address", address)
		cloud.address(t, "Serving the cloud provider")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		for client.Refresh(ctx) != nil {
			if ctx.Err() != nil {
				t.Fatal("the cloud is back and was not noticed")
			}
		}
		if got := get(t, web+"/readyz"); got != "ok" {
			t.Errorf("readyz: %s", got)
		}
		return cloud
	}
	cloud := up()
	if code := cloud.stop(); code != exitSuccess {
		t.Errorf("exit code %d of the cloud", code)
	}
	down()
	up()
	if code := s.stop(); code != exitSuccess {
		t.Errorf("exit code %d", code)
	}
}

// Two sidecars never keep one journal.
func TestSidecarsWithOneJournal(t *testing.T) {
	journal := filepath.Join(t.TempDir(), "journal.json")
	startSidecar(t, "127.0.0.1:1", "--journal-file", journal)
	dir := t.TempDir()
	certificates(t, dir)
	second := startServer(t, "sidecar", "--backend-address", "127.0.0.1:1", "--address", "127.0.0.1:0", "--expander-address", "",
		"--metrics-address", "", "--no-cluster", "--infer-readiness", "--journal-file", journal)
	if code := <-second.code; code != exitUsage {
		t.Errorf("exit code %d", code)
	}
	if line := <-second.lines; !strings.HasPrefix(line, "error: --journal-file="+journal+": ") {
		t.Error(line)
	}
}

// Told to stop, the program answers the call in flight first; where the cloud takes longer than the
// grace, it says so and has the order in its journal.
func TestSidecarStopsWithACallInFlight(t *testing.T) {
	for grace, want := range map[string]string{"5m": "", "100ms": "Stopped before the cloud answered an increase"} {
		t.Run(grace, func(t *testing.T) {
			dir := t.TempDir()
			fleet, journal := filepath.Join(dir, "fleet.yaml"), filepath.Join(dir, "journal.json")
			const slow = `{apiVersion: evenkeel.dev/v1alpha1, kind: Scenario, metadata: {name: slow}, spec: {
				machines: [{name: m, resources: {cpu: 2, memory: 8Gi}}], nodeGroups: [{name: a, machine: m, max: 3}],
				faults: {calls: [{methods: [IncreaseSize], delay: 2s}]}}}`
			if err := os.WriteFile(fleet, []byte(slow), 0o600); err != nil {
				t.Fatal(err)
			}
			cloud := startServer(t, "fake-cloud", "--config", fleet, "--address", "127.0.0.1:0")
			backend := cloud.address(t, "Serving the cloud provider")
			s, provider, _ := startSidecar(t, backend, "--journal-file", journal, "--grace", grace)
			client := dialProvider(t, provider)
			if err := client.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			answer := make(chan error, 1)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			go func() { answer <- client.IncreaseSize(ctx, "a", 1) }()
			awaitText(t, journal, `"delta":1`)
			if code := s.stop(); code != exitSuccess {
				t.Errorf("exit code %d", code)
			}
			if err := <-answer; (err == nil) != (want == "") {
				t.Errorf("the call in flight: %v", err)
			}
			if want != "" {
				s.await(t, regexp.MustCompile(want))
				return
			}
			if size, err := dialProvider(t, backend).TargetSize(t.Context(), "a"); size != 1 || err != nil {
				t.Errorf("the size is %d, %v", size, err)
			}
		})
	}
}

// awaitText waits until a file has a text in it.
func awaitText(t *testing.T, file, want string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := clock.RealClock{}.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if text, _ := os.ReadFile(file); strings.Contains(string(text), want) { // it is not there at first
			return
		}
		select {
		case <-tick.C():
		case <-ctx.Done():
			t.Fatalf("%q is not in %s", want, file)
		}
	}
}
