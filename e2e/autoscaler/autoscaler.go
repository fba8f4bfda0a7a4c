// Package autoscaler runs a stock Cluster Autoscaler in a test, as an ordinary
// process on loopback, and taps that write down what it and its providers ask of
// each other.
//
// The package knows flags and files; the result all is for tests to say.
package autoscaler

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/e2e/process"
)

// BinaryVariable names the environment variable that says where the binary of a
// Cluster Autoscaler is. It is not built here.
const BinaryVariable = "CLUSTER_AUTOSCALER_BINARY"

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

// Has reports whether the Cluster Autoscaler that BinaryVariable names has a flag: not all releases have the same.
func Has(t testing.TB, flag string) bool {
	t.Helper()
	help, err := exec.Command(Binary(t), "--help").CombinedOutput()
	if len(help) == 0 {
		t.Fatalf("the flags of Cluster Autoscaler: %v", err) // some print them and exit with an error
	}
	return strings.Contains(string(help), " --"+flag+" ")
}

// Options say what a Cluster Autoscaler works with.
type Options struct {
	// Binary is the path of the program; empty is the one that BinaryVariable names.
	Binary string
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
	if o.Binary == "" {
		o.Binary = Binary(t)
	}
	address := process.FreeAddress(t)
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
	return process.Run(t, &process.Process{
		Name: "cluster-autoscaler", Path: o.Binary, Args: append(args, o.Args...), Home: home,
		Ready: process.Answers("http://" + address + "/health-check"),
	})
}
