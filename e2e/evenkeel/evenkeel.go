// Package evenkeel runs evenkeel's own commands in a test, as they are built from
// the checkout: ordinary processes on loopback.
//
// The package knows flags and files; the result all is for tests to say.
package evenkeel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/evenkeel/evenkeel/e2e/process"
)

// module is what evenkeel is built from: the checkout that this module lies in.
const module = "github.com/evenkeel/evenkeel"

// binary builds the binary as the checkout has it, once in a test run.
var binary = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return "", fmt.Errorf("asking go for module %s: %w", module, err)
	}
	root := strings.TrimSpace(string(out))
	path := filepath.Join(root, "e2e", "bin", "evenkeel")
	build := exec.Command("go", "build", "-o", path, "./cmd/evenkeel")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building evenkeel: %w\n%s", err, out)
	}
	return path, nil
})

func build(t testing.TB) string {
	t.Helper()
	path, err := binary()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Folder is where the binary lies, for a PATH.
func Folder(t testing.TB) string {
	t.Helper()
	return filepath.Dir(build(t))
}

// A Server is a process that serves the external cloud provider's protocol,
// without TLS, at Address.
type Server struct {
	*process.Process
	Address string
}

// StartFakeCloud serves the cloud of a scenario file and keeps its nodes in the
// API server.
func StartFakeCloud(t testing.TB, kubeconfig, scenario string) *Server {
	t.Helper()
	address, metrics := process.FreeAddress(t), process.FreeAddress(t)
	return &Server{Address: address, Process: process.Run(t, &process.Process{
		Name: "fake-cloud", Path: build(t), Home: t.TempDir(), Ready: healthy(metrics),
		Args: []string{
			"fake-cloud", "--config=" + scenario, "--kubeconfig=" + kubeconfig,
			"--address=" + address, "--metrics-address=" + metrics,
		},
	})}
}

// SidecarOptions say what a sidecar works with.
type SidecarOptions struct {
	// Kubeconfig is the path of a file that leads to the API server. Without one the
	// sidecar infers what it has no access to, and keeps its journal in a file.
	Kubeconfig string
	// Backend is the address of the real cloud provider, without TLS.
	Backend string
	// Record is a file to which all calls are appended; empty means none.
	Record string
	// Args are further flags. They win.
	Args []string
}

// A Sidecar is the process, the provider's address and those of the expander.
type Sidecar struct {
	Server
	// Expander is the expander's address, and CA the file with its authority.
	Expander, CA string
	// Metrics is where metrics and the status are served, host:port.
	Metrics string
}

// StartSidecar starts evenkeel sidecar in front of a cloud provider.
func StartSidecar(t testing.TB, o SidecarOptions) *Sidecar {
	t.Helper()
	home := Certificates(t)
	s := &Sidecar{Expander: process.FreeAddress(t), CA: filepath.Join(home, "ca.crt"), Metrics: process.FreeAddress(t)}
	s.Address = process.FreeAddress(t)
	health := process.FreeAddress(t)
	args := []string{
		"sidecar", "--backend-address=" + o.Backend, "--record=" + o.Record,
		"--address=" + s.Address, "--metrics-address=" + s.Metrics, "--health-address=" + health,
		"--expander-address=" + s.Expander,
		"--expander-cert=" + filepath.Join(home, "server.crt"),
		"--expander-key=" + filepath.Join(home, "server.key"),
	}
	if o.Kubeconfig != "" {
		args = append(args, "--kubeconfig="+o.Kubeconfig)
	} else {
		args = append(args, "--no-cluster", "--infer-readiness", "--journal-file="+filepath.Join(home, "journal.json"))
	}
	s.Process = process.Run(t, &process.Process{
		Name: "sidecar", Path: build(t), Home: home, Args: append(args, o.Args...), Ready: healthy(health),
	})
	return s
}

// Certificates makes those of a server on loopback, and of a client, in a folder of their own.
func Certificates(t testing.TB) (folder string) {
	t.Helper()
	folder = t.TempDir()
	certs := exec.Command(build(t), "certs", "--dir="+folder, "--host="+process.Loopback)
	if out, err := certs.CombinedOutput(); err != nil {
		t.Fatalf("making certificates: %v\n%s", err, out)
	}
	return folder
}

// healthy reports whether a command of evenkeel serves. Whether it is ready may wait
// for the autoscaler, which comes later.
func healthy(metrics string) func(context.Context) bool {
	return process.Answers("http://" + metrics + "/healthz")
}

// Run runs a command to its end, with nothing on standard input and outside of any
// cluster, and returns what it prints and its exit code.
func Run(t testing.TB, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), build(t), args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &problems, []string{"HOME=" + t.TempDir()}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("running evenkeel %s: %v", strings.Join(args, " "), err)
	}
	return out.String(), problems.String(), cmd.ProcessState.ExitCode()
}
