package evenkeel

import (
	"path/filepath"
	"testing"

	"github.com/evenkeel/evenkeel/e2e/process"
)

// ExpanderOptions say what an expander works with.
type ExpanderOptions struct {
	// Kubeconfig is the path of a file that leads to the API server.
	Kubeconfig string
	// Certificates is the folder of those of another replica; empty makes new ones.
	Certificates string
	// Args are further flags. They win.
	Args []string
}

// An Expander is a process that runs evenkeel expander, its address and the file with its authority.
type Expander struct {
	*process.Process
	Address, CA string
	// Metrics is where metrics and the status are served, host:port.
	Metrics string
}

// StartExpander starts evenkeel expander, which lives as long as the test.
func StartExpander(t testing.TB, o ExpanderOptions) *Expander {
	t.Helper()
	name, home, health := "expander-2", o.Certificates, process.FreeAddress(t)
	if home == "" {
		name, home = "expander", Certificates(t)
	}
	e := &Expander{Address: process.FreeAddress(t), CA: filepath.Join(home, "ca.crt"), Metrics: process.FreeAddress(t)}
	args := []string{
		"expander", "--kubeconfig=" + o.Kubeconfig, "--address=" + e.Address,
		"--cert=" + filepath.Join(home, "server.crt"), "--key=" + filepath.Join(home, "server.key"),
		"--metrics-address=" + e.Metrics, "--health-address=" + health,
	}
	e.Process = process.Run(t, &process.Process{
		Name: name, Path: build(t), Home: home, Args: append(args, o.Args...), Ready: healthy(health),
	})
	return e
}
