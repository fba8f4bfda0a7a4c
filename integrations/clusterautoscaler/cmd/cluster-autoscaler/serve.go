package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/evenkeel/evenkeel/integrations/clusterautoscaler"

	"k8s.io/apiserver/pkg/server/mux"
	"k8s.io/apiserver/pkg/server/routes"
	"k8s.io/component-base/metrics/legacyregistry"
)

// headerTimeout is how long a client may take to say what it wants.
const headerTimeout = 10 * time.Second

// serve answers HTTP requests while work runs, on every replica and not on the leader alone. It
// returns when work has ended, or with an error when the server cannot start or fails.
func (p *process) serve(ctx context.Context, work func(context.Context) error) error {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", p.options.Address)
	if err != nil {
		return fmt.Errorf("--address=%s: %w (%w)", p.options.Address, err, errUsage)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	server := &http.Server{Handler: p.pages(), ReadHeaderTimeout: headerTimeout}
	defer func() { _ = server.Close() }()
	go func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			cancel(fmt.Errorf("serve HTTP: %w", err))
		}
	}()
	err = work(ctx)
	if cause := context.Cause(ctx); err == nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// pages is what is served.
func (p *process) pages() http.Handler {
	pages := mux.NewPathRecorderMux("cluster-autoscaler")
	pages.Handle("/metrics", legacyregistry.Handler())
	pages.Handle("/health-check", p.health)
	pages.Handle("/evenkeel", clusterautoscaler.Handler())
	if p.options.DebuggingSnapshotEnabled {
		pages.HandleFunc("/snapshotz", p.snapshotter.ResponseHandler)
	}
	if p.options.EnableProfiling {
		routes.Profiling{}.Install(pages)
	}
	return pages
}
