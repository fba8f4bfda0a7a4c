// Command cluster-autoscaler is a complete Cluster Autoscaler that balances similar node groups
// with evenkeel.
//
// It takes every flag of Cluster Autoscaler and has all of its cloud providers. What evenkeel decided is shown under /evenkeel
// beside /metrics. With --balance-similar-node-groups off it is Cluster Autoscaler as it comes.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/evenkeel/evenkeel/integrations/clusterautoscaler"

	componentconfig "k8s.io/component-base/config"
	"k8s.io/klog/v2"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	"sigs.k8s.io/cluster-autoscaler/pkg/debuggingsnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/metrics"

	_ "k8s.io/autoscaler/cluster-autoscaler/cloudprovider/router" // all providers
)

// Exit codes besides 0.
const (
	exitFailure = 1
	exitUsage   = 2
)

// errUsage marks errors of how the program was called.
var errUsage = errors.New("see --help")

func main() { os.Exit(run()) }

// run returns the exit code.
func run() int {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	err := start(ctx)
	klog.Flush()
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, "cluster-autoscaler:", err)
	if errors.Is(err, errUsage) {
		return exitUsage
	}
	return exitFailure
}

// start reads the flags and autoscales, as the leader where there are several, until ctx is done.
func start(ctx context.Context) error {
	election := electionDefaults()
	options, err := parseFlags(&election)
	if err != nil {
		return fmt.Errorf("%w (%w)", err, errUsage)
	}
	if err := clusterautoscaler.Link(&options); err != nil {
		return fmt.Errorf("%w (%w)", err, errUsage)
	}
	klog.InfoS("Starting Cluster Autoscaler with evenkeel", versions()...)

	p := &process{
		options:     options,
		health:      metrics.NewHealthCheck(options.MaxInactivityTime, options.MaxFailingTime, options.MaxStartupTime),
		snapshotter: debuggingsnapshot.NewDebuggingSnapshotter(options.DebuggingSnapshotEnabled),
	}
	return p.serve(ctx, func(ctx context.Context) error { return p.lead(ctx, election) })
}

// process is what the parts of the program share.
type process struct {
	options     config.AutoscalingOptions
	health      *metrics.HealthCheck
	snapshotter debuggingsnapshot.DebuggingSnapshotter
}

// lead autoscales until ctx is done, if need be after this replica was elected.
func (p *process) lead(ctx context.Context, election componentconfig.LeaderElectionConfiguration) error {
	if !election.LeaderElect {
		return p.autoscale(ctx)
	}
	return p.elect(ctx, election, p.autoscale)
}
