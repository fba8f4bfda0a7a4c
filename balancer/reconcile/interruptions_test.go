package reconcile

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/evenkeel/evenkeel/balancer"
	"github.com/evenkeel/evenkeel/internal/controller/passes"
)

// A pass that is cut off between its writes leaves the rest to the next one, which loses and
// repeats nothing.
func TestPassThatEndsHalfWay(t *testing.T) {
	b := newBench(t, append(append(pods("a", 9), pods("b", 3)...), balancerOf("web", 6, "a", "b", "c"))...)
	b.server.deploy("a", 9)
	b.server.deploy("b", 3)
	b.server.deploy("c", 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.server.change(func() {
		b.server.gate = func(r *http.Request) {
			if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/a/") {
				cancel()
				panic(http.ErrAbortHandler) // it never arrives
			}
		}
	})
	if _, err := b.Reconcile(ctx, passes.Request(balancerOf("web", 0))); err == nil {
		t.Error("a pass that was cut off succeeded")
	}
	b.server.change(func() { b.server.gate = nil })
	b.server.written()
	if status := b.get("web").Status; len(status.Targets) != 0 {
		t.Errorf("the status is %+v", status)
	}
	b.restart()
	b.told()
	b.pass("web")
	b.pass("web")
	if told := b.told(); strings.Contains(told, "target c") {
		t.Errorf("told %q, but c was written before", told)
	}
	for name, want := range map[string]int32{"a": 4, "b": 2, "c": 2} {
		if got := b.server.scales[name].Spec.Replicas; got != want {
			t.Errorf("%s has %d, want %d", name, got, want)
		}
	}
}

// A pass that is cut off while it reads decides nothing.
func TestPassThatEndsWhileItReads(t *testing.T) {
	b := newBench(t, balancerOf("web", 6, "a", "b"))
	b.server.deploy("a", 0)
	b.server.deploy("b", 0)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	b.server.change(func() { b.server.gate = func(*http.Request) { cancel() } })
	if _, err := b.Reconcile(ctx, passes.Request(balancerOf("web", 0))); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	b.wrote("")
	if status := b.get("web").Status; len(status.Conditions) != 0 || b.told() != "" {
		t.Errorf("the status is %+v", status)
	}
}

// The replicas of a target that is deleted run elsewhere; created again it gets its share.
func TestTargetIsRecreated(t *testing.T) {
	b := newBench(t, append(append(pods("a", 3), pods("b", 3)...), balancerOf("web", 6, "a", "b"))...)
	b.server.deploy("a", 3)
	b.server.deploy("b", 3)
	b.pass("web")
	b.server.change(func() { delete(b.server.scales, "a") })
	b.pass("web")
	b.wrote("b=6")
	if s := b.get("web").Status.Targets[0]; s.Reason != balancer.ReasonMissing || s.Current != 0 || s.Desired != 0 ||
		!strings.Contains(s.Message, "not found") && !strings.Contains(s.Message, "NotFound") {
		t.Errorf("the status says %+v", s)
	}
	b.server.deploy("a", 1)
	b.pass("web")
	b.wrote("a=3 b=3")
}

// A target that is refused with 403, or of which a server answers that it does not know the path,
// keeps its replicas: that is no knowledge.
func TestUnreadableTargetKeepsItsReplicas(t *testing.T) {
	b := newBench(t, append(append(pods("a", 3), pods("b", 3)...), balancerOf("web", 6, "a", "b"))...)
	b.server.deploy("a", 3)
	b.server.deploy("b", 3)
	b.pass("web")
	for _, code := range []int{http.StatusForbidden, http.StatusInternalServerError, http.StatusNotFound} {
		b.server.change(func() { b.server.failing = map[string]int{"a": code} })
		b.pass("web")
		b.wrote("")
		if s := b.get("web").Status.Targets[0]; s.Reason != balancer.ReasonUnreadable || s.Current != 3 {
			t.Errorf("%d: the status says %+v", code, s)
		}
	}
}
