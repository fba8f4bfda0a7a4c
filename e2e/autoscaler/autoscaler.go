// Package autoscaler runs what stands between pods and nodes in a test: a stock
// Cluster Autoscaler, evenkeel's sidecar beside it and a fake cloud behind it,
// each an ordinary process on loopback, and taps that write down what they ask
// of each other.
//
// The package knows flags and files; what comes of it all is for tests to say.
package autoscaler

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/evenkeel/evenkeel/e2e/process"
)

// BinaryVariable names the environment variable that says where the binary of a
// Cluster Autoscaler is. It is not built here.
const BinaryVariable = "CLUSTER_AUTOSCALER_BINARY"

const loopback = "127.0.0.1"

// Binary returns the path of the Cluster Autoscaler, and skips the test where
// none is named.
func Binary(t testing.TB) string {
	t.Helper()
	binary := os.Getenv(BinaryVariable)
	if binary == "" {
		t.Skip(BinaryVariable + " is not set: it names the binary of a stock Cluster Autoscaler to test with")
	}
	if _, err := os.Stat(binary); err != nil {
		t.Fatalf("%s: %v", BinaryVariable, err)
	}
	return binary
}

// Options say what a Cluster Autoscaler works with.
type Options struct {
	// Kubeconfig is the path of a file that leads to the API server.
	Kubeconfig string
	// Provider is the address of an external cloud provider without TLS.
	Provider string
	// Expander is the address of a gRPC expander and ExpanderCA the file with its
	// authority. Without an address it is least-waste, the autoscaler's default.
	Expander, ExpanderCA string
	// Args are further flags. They win.
	Args []string
}

// Start starts a Cluster Autoscaler that lives as long as the test. What differs
// from its defaults makes it look every second instead of every ten, and not hold
// back its calls to the API server. It leads when it is ready, or soon will.
func Start(t testing.TB, o Options) *process.Process {
	t.Helper()
	home := t.TempDir()
	provider, err := json.Marshal(map[string]string{"address": o.Provider}) // JSON is YAML
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(home, "cloud-config.yaml")
	if err := os.WriteFile(config, provider, 0o600); err != nil {
		t.Fatal(err)
	}
	address := freeAddress(t)
	args := []string{
		"--kubeconfig=" + o.Kubeconfig, "--address=" + address,
		"--cloud-provider=externalgrpc", "--cloud-config=" + config,
		"--scan-interval=1s",
		"--kube-client-qps=1000", "--kube-client-burst=1000",
		"--v=4",
	}
	if o.Expander != "" {
		args = append(args, "--expander=grpc", "--grpc-expander-url="+o.Expander, "--grpc-expander-cert="+o.ExpanderCA)
	}
	return start(t, &process.Process{
		Name: "cluster-autoscaler", Path: Binary(t), Args: append(args, o.Args...), Home: home,
		Ready: func(ctx context.Context) bool { return answers(ctx, "http://"+address+"/health-check") },
	})
}

// start starts a program, waits until it is ready and ends it with the test. Its
// log lies in the test's artifact folder; if the test fails, the end is shown.
func start(t testing.TB, p *process.Process) *process.Process {
	t.Helper()
	p.Log = filepath.Join(t.ArtifactDir(), p.Name+".log")
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("the end of %s:\n%s", p.Log, p.Tail(15))
		}
	})
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	return p
}

// answers tells whether a URL answers 200. The connection is not kept.
func answers(ctx context.Context, url string) bool {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK
}

// freeAddress finds a free port of loopback.
func freeAddress(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
	if err != nil {
		t.Fatal(fmt.Errorf("finding a free port: %w", err))
	}
	defer l.Close()
	return l.Addr().String()
}
