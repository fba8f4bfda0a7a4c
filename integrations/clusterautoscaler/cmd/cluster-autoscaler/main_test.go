package main

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/features"
	"sigs.k8s.io/cluster-autoscaler/pkg/config"
	"sigs.k8s.io/cluster-autoscaler/pkg/debuggingsnapshot"
	"sigs.k8s.io/cluster-autoscaler/pkg/metrics"
)

func newTestProcess(options config.AutoscalingOptions) *process {
	return &process{
		options: options, health: metrics.NewHealthCheck(time.Minute, time.Minute, time.Minute),
		snapshotter: debuggingsnapshot.NewDebuggingSnapshotter(options.DebuggingSnapshotEnabled),
	}
}

func TestPages(t *testing.T) {
	bare := newTestProcess(config.AutoscalingOptions{}).pages()
	full := newTestProcess(config.AutoscalingOptions{EnableProfiling: true, DebuggingSnapshotEnabled: true}).pages()
	for _, test := range []struct {
		path       string
		bare, full int
	}{
		{"/health-check", http.StatusOK, http.StatusOK},
		{"/metrics", http.StatusOK, http.StatusOK},
		{"/evenkeel", http.StatusNotFound, http.StatusNotFound}, // nothing is linked
		{"/debug/pprof/", http.StatusNotFound, http.StatusOK},
		{"/nothing", http.StatusNotFound, http.StatusNotFound},
	} {
		for handler, want := range map[http.Handler]int{bare: test.bare, full: test.full} {
			response := httptest.NewRecorder()
			handler.ServeHTTP(response, httptest.NewRequestWithContext(t.Context(), http.MethodGet, test.path, http.NoBody))
			if response.Code != want {
				t.Errorf("%s: %d, want %d", test.path, response.Code, want)
			}
		}
	}
}

// The server runs for as long as the work, and its failure to start is one of the flag.
func TestServe(t *testing.T) {
	var lc net.ListenConfig
	taken, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	nothing := func(context.Context) error { return nil }
	err = newTestProcess(config.AutoscalingOptions{Address: taken.Addr().String()}).serve(t.Context(), nothing)
	if !errors.Is(err, errUsage) || !strings.Contains(err.Error(), "--address") {
		t.Errorf("an address that is taken: %v", err)
	}
	p := newTestProcess(config.AutoscalingOptions{Address: "127.0.0.1:0"})
	if err := p.serve(t.Context(), nothing); err != nil {
		t.Errorf("work that ends: %v", err)
	}
	failed := errors.New("failed")
	if err := p.serve(t.Context(), func(context.Context) error { return failed }); !errors.Is(err, failed) {
		t.Errorf("work that fails: %v", err)
	}
}

func TestResourceAllocationIsAligned(t *testing.T) {
	for _, gate := range []bool{true, false} {
		for _, flag := range []bool{true, false} {
			gates := featuregate.NewFeatureGate()
			if err := gates.Add(map[featuregate.Feature]featuregate.FeatureSpec{features.DynamicResourceAllocation: {Default: gate,
				PreRelease: featuregate.Beta}}); err != nil {
				t.Fatal(err)
			}
			if err := alignResourceAllocation(gates, flag); err != nil || gates.Enabled(features.DynamicResourceAllocation) != flag {
				t.Errorf("gate %t, flag %t: %t, %v", gate, flag, gates.Enabled(features.DynamicResourceAllocation), err)
			}
		}
	}
}

func TestModuleVersion(t *testing.T) {
	info := &debug.BuildInfo{Deps: []*debug.Module{
		{Path: "a.io/b", Version: "v1"}, {Path: "a.io/b/c", Version: "v2"},
		{Path: "a.io/d", Version: "v0", Replace: &debug.Module{Path: "a.io/e", Version: "v3"}},
	}}
	for pkg, want := range map[string]string{"a.io/b": "v1", "a.io/b/c/d": "v2", "a.io/bc": "", "a.io/d/x": "v3"} {
		if got := moduleVersion(info, pkg); got != want {
			t.Errorf("%s: %q, want %q", pkg, got, want)
		}
	}
}
