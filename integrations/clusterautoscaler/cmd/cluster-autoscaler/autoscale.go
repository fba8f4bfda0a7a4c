package main

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	quotas "k8s.io/autoscaler/cluster-autoscaler/apis/capacityquota/autoscaling.x-k8s.io/v1beta1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/cluster-autoscaler/pkg/builder"
	"sigs.k8s.io/cluster-autoscaler/pkg/core"
	"sigs.k8s.io/cluster-autoscaler/pkg/loop"
	"sigs.k8s.io/cluster-autoscaler/pkg/metrics"
	kubeutil "sigs.k8s.io/cluster-autoscaler/pkg/utils/kubernetes"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// autoscale builds the autoscaler and runs its loop until ctx is done, then cleans up.
func (p *process) autoscale(ctx context.Context) error {
	metrics.RegisterAll(p.options.EmitPerNodeGroupMetrics)
	mgr, err := p.manager()
	if err != nil {
		return err
	}
	autoscaler, trigger, err := p.build(ctx, mgr)
	if err != nil {
		return err
	}
	defer autoscaler.ExitCleanUp()
	p.health.StartMonitoring()
	if err := autoscaler.Start(); err != nil {
		return fmt.Errorf("start the autoscaler: %w", err)
	}
	repeat := p.everyInterval
	if p.options.FrequentLoopsEnabled {
		repeat = whenTriggered(trigger)
	}
	if err := mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		repeat(ctx, func(now time.Time) { p.once(ctx, autoscaler, now) })
		return nil
	})); err != nil {
		return fmt.Errorf("add the loop to the manager: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run the manager: %w", err)
	}
	return nil
}

// manager makes what runs the controllers. It serves nothing and elects nobody: that is done
// outside of it.
func (p *process) manager() (manager.Manager, error) {
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, quotas.AddToScheme} {
		if err := add(known); err != nil {
			return nil, fmt.Errorf("learn the API's types: %w", err)
		}
	}
	mgr, err := ctrl.NewManager(kubeutil.GetKubeConfig(p.options.KubeClientOpts), ctrl.Options{
		Scheme:                 known,
		Cache:                  cache.Options{DefaultTransform: cache.TransformStripManagedFields()},
		Metrics:                metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress: "0",
		PprofBindAddress:       "0",
	})
	if err != nil {
		return nil, fmt.Errorf("make the manager: %w", err)
	}
	return mgr, nil
}

// build makes the autoscaler, whose caches hold no managed fields: they are large and nobody reads
// them.
func (p *process) build(ctx context.Context, mgr manager.Manager) (core.Autoscaler, *loop.LoopTrigger, error) {
	client := kubeutil.CreateKubeClient(p.options.KubeClientOpts)
	autoscaler, trigger, err := builder.New(p.options).
		WithKubeClient(client).
		WithInformerFactory(informers.NewSharedInformerFactoryWithOptions(client, 0,
			informers.WithTransform(cache.TransformStripManagedFields()))).
		WithManager(mgr).
		WithDebuggingSnapshotter(p.snapshotter).
		Build(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("build the autoscaler: %w", err)
	}
	return autoscaler, trigger, nil
}

// once runs the autoscaler's loop a single time.
func (p *process) once(ctx context.Context, autoscaler core.Autoscaler, now time.Time) {
	loop.RunAutoscalerOnce(ctx, autoscaler, p.health, now)
}

// everyInterval runs a loop, waits for the scan interval, and so on.
func (p *process) everyInterval(ctx context.Context, once func(time.Time)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(p.options.ScanInterval):
			once(time.Now())
		}
	}
}

// whenTriggered runs a loop as soon as there is reason to. Productive loops are followed at once;
// because loops may take turns between pods and provisioning requests, a loop counts as productive
// when this one or the one before was.
func whenTriggered(trigger *loop.LoopTrigger) func(context.Context, func(time.Time)) {
	return func(ctx context.Context, once func(time.Time)) {
		last := time.Now()
		beforeLast := last
		for ctx.Err() == nil {
			trigger.Wait(beforeLast)
			beforeLast, last = last, time.Now()
			once(last)
		}
	}
}
