package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	clocktesting "k8s.io/utils/clock/testing"
)

// quiet keeps the log of failures out of that of the tests.
var quiet = klog.NewContext(context.Background(), logr.Discard())

// TestWatchesThatFail: at each minute a watch of pods fails or not, and it is said, or not, that it
// does.
func TestWatchesThatFail(t *testing.T) {
	for name, test := range map[string]struct{ fails, said string }{
		"never":                         {"......", "......"},
		"once":                          {"x.....", "......"},
		"during a rollout":              {"xxx....", "......."},
		"for good":                      {"xxxxxxxx", "...!!!!!"},
		"each second minute":            {"x.x.x.x.", "....!!!!"},
		"seldom":                        {"x..x..x..x..x", "............."},
		"for a while":                   {"xxxxx.....", "...!!!!..."},
		"again, and the patience anew":  {"xxxxx...xxxxx", "...!!!!....!!"},
		"again before it was forgotten": {"xxxx.xx", "...!!!!"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clocktesting.NewFakePassiveClock(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC))
			w := newWatches()
			w.clock = c
			pods := cache.NewReflector(&cache.ListWatch{}, &v1.Pod{}, cache.NewStore(cache.MetaNamespaceKeyFunc), 0)
			var said strings.Builder
			for _, minute := range test.fails {
				if minute == 'x' {
					w.failed(quiet, pods, errors.New("pods is forbidden"))
				}
				mark := "."
				if err := w.problem(w.patience); err != nil {
					mark = "!"
					if text := err.Error(); !strings.HasPrefix(text, "the watch of *v1.Pod has failed for ") ||
						!strings.HasSuffix(text, "m0s: pods is forbidden") {
						t.Errorf("said %q", text)
					}
				}
				said.WriteString(mark)
				c.SetTime(c.Now().Add(time.Minute))
			}
			if said.String() != test.said {
				t.Errorf("said %s, want %s", said.String(), test.said)
			}
		})
	}
}

// Each watch has a time of its own, and they are named in one order.
func TestSeveralWatchesThatFail(t *testing.T) {
	c := clocktesting.NewFakePassiveClock(time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC))
	w := newWatches()
	w.clock = c
	reflector := func(of any) *cache.Reflector {
		return cache.NewReflector(&cache.ListWatch{}, of, cache.NewStore(cache.MetaNamespaceKeyFunc), 0)
	}
	pods, nodes, secrets := reflector(&v1.Pod{}), reflector(&v1.Node{}), reflector(&v1.Secret{})
	for minute := range 4 {
		w.failed(quiet, pods, errors.New("of pods"))
		w.failed(quiet, nodes, errors.New("of nodes"))
		if minute > 0 {
			w.failed(quiet, secrets, errors.New("of secrets"))
		}
		if err := w.problem(w.patience); err != nil && minute < 3 {
			t.Fatalf("early: %v", err)
		}
		c.SetTime(c.Now().Add(time.Minute))
	}
	const want = "the watch of *v1.Node has failed for 4m0s: of nodes\nthe watch of *v1.Pod has failed for 4m0s: of pods"
	for range 10 {
		if err := w.problem(w.patience); err == nil || err.Error() != want {
			t.Fatalf("got %v, want %s", err, want)
		}
	}
}
