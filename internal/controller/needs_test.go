package controller_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	v1 "k8s.io/api/core/v1"

	"github.com/evenkeel/evenkeel/internal/controller"
)

// A controller whose kind is not installed, or may not be read, holds up no other. It starts when
// the kind can be read.
func TestAControllerWaitsForWhatItNeeds(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	close(s.open)
	registry := prometheus.NewRegistry()
	metrics, err := controller.NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	var said atomic.Int32
	o := options("alice")
	o.Metrics, o.LookAgain = metrics, 20*time.Millisecond
	o.Needs = map[string][]controller.Need{"new": {{List: &v1.SecretList{}}}, "old": {{List: &v1.ConfigMapList{}}}}
	o.Log = funcr.New(func(_, text string) {
		if strings.Contains(text, "Controller not started") && strings.Contains(text, `"new"`) {
			said.Add(1)
		}
	}, funcr.Options{})
	waits := func(want int) {
		t.Helper()
		text := fmt.Sprintf("# HELP evenkeel_controller_waiting 1 for a controller that does not run because what it watches "+
			"is not installed or may not be read, else 0.\n"+
			"# TYPE evenkeel_controller_waiting gauge\nevenkeel_controller_waiting{controller=\"new\"} "+
			"%d\nevenkeel_controller_waiting{controller=\"old\"} 0\n", want)
		if err := testutil.GatherAndCompare(registry, strings.NewReader(text)); err != nil {
			t.Error(err)
		}
	}
	before, late := &watcher{name: "old"}, &watcher{name: "new"}
	m, err := controller.New(s.config(), []controller.Controller{before, late}, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	eventually(t, "a pass of the other", func() bool { return before.passes.Load() == 1 })
	if err := m.Ready(); err != nil || fmt.Sprint(m.Waiting()) != "[new]" || late.passes.Load() > 0 {
		t.Errorf("%v, waiting %v", err, m.Waiting())
	}
	waits(1)
	s.set(func() { s.secrets, s.hidden = true, true })
	eventually(t, "two looks in vain", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.denied >= 2
	})
	if fmt.Sprint(m.Waiting()) != "[new]" {
		t.Errorf("it does not wait for the right to read what is installed: %v", m.Waiting())
	}
	s.set(func() { s.hidden = false })
	eventually(t, "a pass of the one that waited", func() bool { return late.passes.Load() == 1 })
	if len(m.Waiting()) > 0 || m.Ready() != nil || said.Load() != 1 {
		t.Errorf("waiting %v, ready %v, said %d times", m.Waiting(), m.Ready(), said.Load())
	}
	waits(0)
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A program that has nothing to run says so at once.
func TestNoControllerCanRun(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	o := options("alice")
	o.Needs = map[string][]controller.Need{"new": {{List: &v1.SecretList{}}}}
	if _, err := controller.New(s.config(), []controller.Controller{&watcher{name: "new"}}, o); err == nil ||
		!strings.Contains(err.Error(), "controller new: a kind is not installed") {
		t.Error(err)
	}
}

func (s *server) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}
