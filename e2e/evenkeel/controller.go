package evenkeel

import (
	"net"
	"testing"

	"github.com/evenkeel/evenkeel/e2e/process"
)

// ControllerOptions say what a controller works with.
type ControllerOptions struct {
	// Kubeconfig is the path of a file that leads to the API server.
	Kubeconfig string
	// Args are further flags. They win.
	Args []string
}

// A Controller is a process that runs evenkeel controller. It can be killed or
// stopped and started again, at the same address.
type Controller struct {
	*process.Process
	// Address is where metrics and probes are served, Health where probes alone are,
	// host:port.
	Address, Health string
}

// StartController starts evenkeel controller, which lives as long as the test. It
// is ready when it knows what is in the cluster; it may stand by for another.
// Any number of them may run at a time.
func StartController(t testing.TB, o ControllerOptions) *Controller {
	t.Helper()
	address, health := process.FreeAddress(t), process.FreeAddress(t)
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"controller", "--kubeconfig=" + o.Kubeconfig, "--metrics-address=" + address, "--health-address=" + health,
		// A leader should not lose its lease where a busy machine keeps it waiting.
		"--leader-elect-lease-duration=60s", "--leader-elect-renew-deadline=50s"}
	return &Controller{Address: address, Health: health, Process: process.Run(t, &process.Process{
		Name: "controller-" + port, // each has a log of its own
		Path: build(t), Args: append(args, o.Args...), Home: t.TempDir(),
		Ready: process.Answers("http://" + health + "/readyz"),
	})}
}
