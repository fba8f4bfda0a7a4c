package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	componentconfig "k8s.io/component-base/config"
	kubeutil "sigs.k8s.io/cluster-autoscaler/pkg/utils/kubernetes"
)

// errLostLeadership ends a replica that may no longer scale: another one may have begun already.
var errLostLeadership = errors.New("lost the leadership")

// electionDefaults are those of Cluster Autoscaler, so that replicas of both take turns.
func electionDefaults() componentconfig.LeaderElectionConfiguration {
	return componentconfig.LeaderElectionConfiguration{
		LeaderElect:   true,
		LeaseDuration: metav1.Duration{Duration: 15 * time.Second},
		RenewDeadline: metav1.Duration{Duration: 10 * time.Second},
		RetryPeriod:   metav1.Duration{Duration: 2 * time.Second},
		ResourceLock:  resourcelock.LeasesResourceLock,
		ResourceName:  "cluster-autoscaler",
	}
}

// elect runs work while this replica leads. When ctx is done, work may finish before the leadership
// is given away.
func (p *process) elect(ctx context.Context, election componentconfig.LeaderElectionConfiguration, work func(context.Context) error) error {
	lock, err := p.lock(ctx, election)
	if err != nil {
		return err
	}
	standing, resign := context.WithCancel(context.WithoutCancel(ctx))
	defer resign()
	var elected atomic.Bool
	defer context.AfterFunc(ctx, func() {
		if !elected.Load() {
			resign()
		}
	})()
	finished := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lock,
		LeaseDuration:   election.LeaseDuration.Duration,
		RenewDeadline:   election.RenewDeadline.Duration,
		RetryPeriod:     election.RetryPeriod.Duration,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) {
				elected.Store(true)
				finished <- work(ctx)
				resign()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("stand for election: %w (%w)", err, errUsage)
	}
	elector.Run(standing)
	select {
	case err := <-finished:
		return err
	default:
	}
	if ctx.Err() != nil {
		return nil // told to end
	}
	return errLostLeadership
}

// lock is the lease that replicas compete for, under the name of this host.
func (p *process) lock(ctx context.Context, election componentconfig.LeaderElectionConfiguration) (resourcelock.Interface, error) {
	identity, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("find a name for the leader election: %w", err)
	}
	client := kubeutil.CreateKubeClient(p.options.KubeClientOpts)
	if _, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{Limit: 1}); err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	lock, err := resourcelock.New(election.ResourceLock, p.options.ConfigNamespace, election.ResourceName, client.CoreV1(),
		client.CoordinationV1(),
		resourcelock.ResourceLockConfig{Identity: identity,
			EventRecorder: kubeutil.CreateEventRecorder(ctx, client, p.options.RecordDuplicatedEvents)})
	if err != nil {
		return nil, fmt.Errorf("--leader-elect-resource-lock=%s: %w (%w)", election.ResourceLock, err, errUsage)
	}
	return lock, nil
}
